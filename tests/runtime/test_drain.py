"""A worker that is stopped in good order: what runs has its grace, what only waited for a place is never begun."""

from __future__ import annotations

import asyncio
import threading

from runnerq.errors import StorageUnavailable
from runnerq.persistence.records import Back, Status
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, HeartClock, Stage, Tapped, soon
from tests.runtime.test_leases import haunt


async def test_a_step_that_waited_for_a_place_is_not_begun_when_one_becomes_free(stage: Stage) -> None:
    gate, began = Gate(), []

    @activity
    async def work(number: int) -> int:
        began.append(number)
        await gate.pass_through()
        return number

    @workflow
    def order(ctx: Context, number: int) -> Flow[int]:
        return (yield from ctx.step(work, number))

    tapped = Tapped(stage.storage)
    worker = stage.on(tapped).worker(order, max_steps=1)
    running = asyncio.create_task(worker.run())
    runs = [await stage.client.start(order, number) for number in range(3)]
    await gate.somebody()
    await soon(lambda: sum(bool(tapped.turns_of(run.id)) for run in runs) == 3)
    stopping = asyncio.create_task(worker.stop())
    # At once, and not when the grace is over: the one that runs is still in it.
    await soon(lambda: sum(isinstance(turn.move, Back) for turn in tapped.turns) == 2)
    assert len(began) == 1
    gate.open()
    await asyncio.gather(stopping, running)
    assert len(began) == 1
    ended = [await run.status() for run in runs]
    assert sorted(ended) == [Status.COMPLETED, Status.PENDING, Status.PENDING]
    async with stage.serving(order):
        assert [await run.result(timeout=SOON) for run in runs] == [0, 1, 2]
    assert sorted(began) == [0, 1, 2], "each ran once"


async def test_a_sync_activity_that_waited_for_a_thread_is_given_back_and_burns_no_attempt(plain_stage: Stage) -> None:
    release, begun, began = threading.Event(), Gate(), []
    loop = asyncio.get_running_loop()

    @activity(retry=1)
    def work(number: int) -> int:
        began.append(number)
        loop.call_soon_threadsafe(begun.come.set)
        release.wait(SOON)
        return number

    tapped = Tapped(plain_stage.storage)
    worker = plain_stage.on(tapped).worker(work, max_threads=1)
    running = asyncio.create_task(worker.run())
    runs = [await plain_stage.client.start(work, number) for number in range(3)]
    await begun.somebody()
    await soon(lambda: sum(tapped.claimed(run.id) for run in runs) == 3)
    stopping = asyncio.create_task(worker.stop())
    await soon(lambda: sum(isinstance(turn.move, Back) for turn in tapped.turns) == 2)
    release.set()
    await asyncio.gather(stopping, running)
    assert len(began) == 1
    async with plain_stage.serving(work):
        assert [await run.result(timeout=SOON) for run in runs] == [0, 1, 2]
    assert len(began) == 3
    assert not any(turn.attempts for turn in tapped.turns)


async def test_a_worker_that_is_fenced_while_it_drains_cancels_what_it_runs_and_ends_at_once(memory: Stage) -> None:
    """Another worker may do the same by now, and the grace may be an hour."""
    gate, heard = Gate(), []

    @activity
    async def work() -> None:
        try:
            await gate.pass_through()
        except asyncio.CancelledError:
            heard.append("cancelled")
            raise

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield from ctx.step(work)

    tapped = Tapped(memory.storage)
    hearts = HeartClock()
    worker = memory.on(tapped).worker(order, beat=0.05, shutdown_grace=3600, surroundings=hearts.surroundings)
    running = asyncio.create_task(worker.run())
    await memory.client.start(order)
    await gate.somebody()
    stopping = asyncio.create_task(worker.stop())
    await asyncio.sleep(0)

    def no_answer() -> None:
        raise StorageUnavailable("no answer")

    tapped.beaten = no_answer
    hearts.ahead = 3600
    async with asyncio.timeout(SOON):
        await asyncio.gather(stopping, running)
    assert heard == ["cancelled"]


async def test_what_was_claimed_and_is_not_begun_when_the_worker_stops_goes_back_with_its_slot(memory: Stage) -> None:
    ran: list[int] = []

    @activity(name="late")
    async def work() -> None:
        ran.append(1)

    elsewhere = Stage(memory.storage)
    async with memory.worker(work) as worker:
        shift = worker._shift
        assert shift is not None
        await elsewhere.client.start(work)
        begin = shift._taking.take(await haunt(elsewhere, "late", lease=60))
        assert len(shift._slots._taken) == 1
        shift._taking.stop()
        begin()
        assert (len(shift._slots._taken), len(shift._held), len(shift._apart.tokens)) == (0, 0, 1)
    assert ran == []
