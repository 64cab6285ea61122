"""The worker as its user sees it: what it refuses, what it claims, and how it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from runnerq.client.client import Client
from runnerq.errors import ConfigurationError, KeyTaken, UsageError
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import Definition, Status, WorkerRow
from runnerq.runtime.worker import Worker
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Stage, Tapped, soon

WORDS: Signal[str] = Signal("words", str)


@activity
async def hello(name: str) -> str:
    return f"hello {name}"


@activity
async def other() -> str:
    return "other"


@workflow
def greet(ctx: Context, name: str) -> Flow[str]:
    return (yield from ctx.step(hello, name))


# --- what it refuses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"workflows": []},
        {"max_workers": 0},
        {"max_steps": 0},
        {"max_threads": 0},
        {"reaper_batch": 0},
        {"queues": ()},
        {"queues": ("",)},
        {"lease": 0},
        {"beat": -1},
        {"poll_interval": 0},
        {"lease": "soon"},
        {"only": ["nobody"]},
        {"retention": 60},
        {"only": [other]},
    ],
    ids=lambda given: str(given).partition(" at 0x")[0],
)
async def test_a_configuration_that_cannot_work_is_refused(memory: Stage, given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Worker(memory.client, **{"workflows": [greet]} | given)


async def test_a_worker_whose_entering_was_cancelled_is_gone() -> None:
    class Silent(MemoryStorage):
        async def register(self, worker: WorkerRow, definitions: Sequence[Definition]) -> datetime:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

    asked = asyncio.Event()
    worker = Worker(Client(Silent()), workflows=[greet])
    entering = asyncio.create_task(worker.__aenter__())
    await asked.wait()
    entering.cancel()
    await asyncio.wait({entering})
    assert entering.cancelled()
    assert not [each for each in asyncio.all_tasks() if each.get_name() == "runnerq-worker"]


async def test_waiting_for_idle_needs_a_worker_that_runs(memory: Stage) -> None:
    with pytest.raises((ConfigurationError, UsageError)):
        await memory.worker(greet).idle()


# --- what it claims ---------------------------------------------------------------------------------------------------


async def test_it_claims_only_what_it_serves(plain_stage: Stage) -> None:
    served = await plain_stage.client.start(greet, "Ada")
    not_served = await plain_stage.client.start(other)
    elsewhere = await plain_stage.base.options(queue=f"{plain_stage.queue}-b").start(greet, "Bea")
    async with plain_stage.worker(greet) as worker:
        assert await served.result(timeout=SOON) == "hello Ada"
        await worker.idle()
        assert await not_served.status() is Status.PENDING
        assert await elsewhere.status() is Status.PENDING


async def test_only_narrows_what_it_claims_and_not_what_workflows_can_name(plain_stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.child(hello, "child"))

    async with plain_stage.worker(order, hello, only=[order]) as worker:
        run = await plain_stage.client.start(order)
        await run.reached(Status.WAITING, timeout=SOON)
        await worker.idle()
        async with plain_stage.worker(hello, only=["hello"]):
            assert await run.result(timeout=SOON) == "hello child"


async def test_it_holds_no_more_runs_than_it_has_slots_and_parked_ones_take_none(plain_stage: Stage) -> None:
    running: set[int] = set()
    most: list[int] = []
    gate = Gate()

    @activity
    async def work(number: int) -> None:
        running.add(number)
        most.append(len(running))
        await gate.pass_through()
        running.discard(number)

    @workflow
    def parked(ctx: Context) -> Flow[str]:
        return (yield from ctx.signal(WORDS))

    async with plain_stage.serving(work, parked, max_workers=3) as client:
        waiting = [await client.start(parked) for _ in range(5)]
        for run in waiting:
            await run.reached(Status.WAITING, timeout=SOON)
        runs = [await client.start(work, number) for number in range(8)]
        await soon(lambda: len(running) == 3)
        gate.open()
        for run in runs:
            await run.result(timeout=SOON)
    assert max(most) == 3


async def test_steps_beyond_max_steps_wait_for_their_place(memory: Stage) -> None:
    running: set[int] = set()
    most: list[int] = []

    @activity
    async def work(number: int) -> int:
        running.add(number)
        most.append(len(running))
        await asyncio.sleep(0.002)
        running.discard(number)
        return number

    @workflow
    def order(ctx: Context) -> Flow[list[int]]:
        return (yield from ctx.gather(ctx.step(work, n) for n in range(10)))

    async with memory.serving(order, max_steps=2) as client:
        assert await (await client.start(order)).result(timeout=SOON) == list(range(10))
    assert max(most) == 2


async def test_two_workers_share_a_queue(plain_stage: Stage) -> None:
    by: dict[str, list[int]] = {"one": [], "two": []}
    both = asyncio.Event()

    def code(name: str) -> Any:
        @activity
        async def work(number: int) -> int:
            by[name].append(number)
            if all(by.values()):
                both.set()
            await both.wait()
            return number

        return work

    one, two = code("one"), code("two")
    async with plain_stage.worker(one, max_workers=4), plain_stage.worker(two, max_workers=4):
        runs = await plain_stage.client.start_many(one, [(n,) for n in range(40)])
        assert [await run.result(timeout=SOON) for run in runs] == list(range(40))
    assert sorted(by["one"] + by["two"]) == list(range(40))


async def test_versions_of_a_workflow_run_side_by_side(plain_stage: Stage) -> None:
    name = f"order-{plain_stage.queue}"

    @workflow(name=name)
    def first(ctx: Context) -> Flow[int]:
        yield ctx.sleep(0.001)
        return ctx.info.version

    @workflow(name=name, version=2)
    def second(ctx: Context) -> Flow[int]:
        yield ctx.sleep(0.001)
        return ctx.info.version

    async with plain_stage.serving(first, second) as client:
        runs = [await client.start(fn) for fn in (first, second)]
        assert [await run.result(timeout=SOON) for run in runs] == [1, 2]
        by_name = await client.start(name)
        assert await by_name.result(timeout=SOON) == 2


# --- idempotency ------------------------------------------------------------------------------------------------------


async def test_many_callers_with_one_key_make_one_run(plain_stage: Stage) -> None:
    client = plain_stage.client.options(key=f"key-{plain_stage.queue}")
    async with plain_stage.serving(greet):
        runs = await asyncio.gather(*(client.start(greet, f"caller {n}") for n in range(50)))
        assert len({run.id for run in runs}) == 1
        assert sum(run.created for run in runs) == 1
        results = {await run.result(timeout=SOON) for run in runs}
    assert len(results) == 1


async def test_a_taken_key_is_answered_refused_or_moved_as_the_caller_says(plain_stage: Stage) -> None:
    @workflow
    def order(ctx: Context, fails: bool) -> Flow[str]:
        word = yield from ctx.signal(WORDS)
        if fails:
            raise RuntimeError(word)
        return word

    key = f"key-{plain_stage.queue}"
    client = plain_stage.client.options(key=key)
    async with plain_stage.serving(order):
        first = await client.start(order, True)
        assert (await client.start(order, False)).id == first.id
        with pytest.raises(KeyTaken) as taken:
            await client.options(on_duplicate="no_reuse").start(order, False)
        assert taken.value.run_id == first.id
        on_failure = client.options(on_duplicate="allow_reuse_on_failure")
        with pytest.raises(KeyTaken):
            await on_failure.start(order, False)
        await first.send(WORDS, "it fails")
        await first.reached(Status.FAILED, timeout=SOON)
        second = await on_failure.start(order, False)
        third = await client.options(on_duplicate="allow_reuse").start(order, False)
        assert len({first.id, second.id, third.id}) == 3
        # The key moved to the third, and the second goes on.
        await client.handle_by_key(order, key).send(WORDS, "by key")
        assert await third.result(timeout=SOON) == "by key"
        await second.send(WORDS, "by id")
        assert await second.result(timeout=SOON) == "by id"


# --- stopping ---------------------------------------------------------------------------------------------------------


async def test_an_orderly_stop_lets_running_steps_end_and_keeps_their_answers(plain_stage: Stage) -> None:
    gate = Gate()
    ran: list[str] = []

    @activity
    async def slow() -> str:
        ran.append("slow")
        await gate.pass_through()
        return "answer"

    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        first = yield from ctx.step(slow)
        return [first, (yield from ctx.step(hello, "again"))]

    worker = plain_stage.worker(order)
    async with worker:
        run = await plain_stage.client.start(order)
        await gate.somebody()
        stopping = asyncio.create_task(worker.stop())
        shift = worker._shift
        assert shift is not None
        await soon(lambda: shift._taking._stopping and shift.claimer._ended.is_set())
        await asyncio.sleep(0)
        # Nothing new is claimed while it drains.
        second = await plain_stage.client.start(order)
        gate.open()
        await asyncio.wait_for(stopping, SOON)
    assert await run.status() is Status.PENDING
    assert await second.status() is Status.PENDING
    async with plain_stage.serving(order):
        assert await run.result(timeout=SOON) == ["answer", "hello again"]
        await second.result(timeout=SOON)
    assert ran == ["slow", "slow"]


async def test_what_does_not_end_within_the_grace_is_given_back_and_burns_no_attempt(plain_stage: Stage) -> None:
    attempts: list[int] = []
    begun = Gate()

    @activity(retry=1)
    async def slow() -> str:
        from runnerq.runtime.current import current

        attempts.append(current().attempt)
        if len(attempts) == 1:
            begun.come.set()
            await asyncio.sleep(600)
        return "second try"

    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.step(slow))

    tapped = Tapped(plain_stage.storage)
    stage = plain_stage.on(tapped)
    async with stage.worker(order, shutdown_grace=0.02):
        run = await stage.client.start(order)
        await begun.somebody()
    assert await run.status() is Status.PENDING
    journal = await plain_stage.storage.journal(run.id)
    assert journal is not None
    assert journal.attempts == ()
    async with stage.serving(order):
        assert await run.result(timeout=SOON) == "second try"
    assert attempts == [1, 1]
    assert [claimed.crashes for claim in tapped.claims for claimed in claim.runs] == [0, 0]


async def test_an_activity_run_that_does_not_end_within_the_grace_is_given_back(plain_stage: Stage) -> None:
    begun = Gate()

    @activity(retry=1)
    async def slow() -> str:
        if not begun.come.is_set():
            begun.come.set()
            await asyncio.sleep(600)
        return "second try"

    async with plain_stage.worker(slow, shutdown_grace=0.02):
        run = await plain_stage.client.start(slow)
        await begun.somebody()
    assert await run.status() is Status.PENDING
    async with plain_stage.serving(slow):
        assert await run.result(timeout=SOON) == "second try"


async def test_parked_runs_survive_a_stop(plain_stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.signal(WORDS))

    async with plain_stage.worker(order):
        run = await plain_stage.client.start(order)
        await run.reached(Status.WAITING, timeout=SOON)
    assert await run.status() is Status.WAITING
    await run.send(WORDS, "while nobody works")
    async with plain_stage.serving(order):
        assert await run.result(timeout=SOON) == "while nobody works"


async def test_a_timer_that_came_due_while_no_worker_was_up_fires_when_one_starts(plain_stage: Stage) -> None:
    @workflow
    def order(ctx: Context, seconds: float) -> Flow[str]:
        yield ctx.sleep(seconds)
        return "rested"

    due, seconds = None, 1.0
    while due is None:
        async with plain_stage.worker(order):
            run = await plain_stage.client.start(order, seconds)
            await run.reached(Status.WAITING, Status.COMPLETED, timeout=SOON)
        # None where the machine stood still until it was over.
        due = (await run.info()).due_at
        seconds *= 3
    async with asyncio.timeout(SOON):
        while await plain_stage.storage.now() <= due:
            await asyncio.sleep(0.01)
    async with plain_stage.serving(order):
        assert await run.result(timeout=SOON) == "rested"


async def test_stopping_twice_and_before_it_runs_is_harmless(memory: Stage) -> None:
    worker = memory.worker(greet)
    await worker.stop()
    async with memory.worker(greet) as running:
        await running.stop()
        await running.stop()


async def test_a_worker_that_runs_cannot_be_entered_or_run_again(memory: Stage) -> None:
    worker = memory.worker(greet, hello)
    async with worker:
        with pytest.raises(UsageError, match="runs already"):
            await worker.__aenter__()
        with pytest.raises(UsageError, match="runs already"):
            await worker.run()
        run = await memory.client.start(greet, "you")
        assert await run.result(timeout=SOON) == "hello you"
