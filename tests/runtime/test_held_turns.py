"""What a held run writes and when, and what it hears meanwhile."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Generator, Sequence
from typing import Any

import pytest

from runnerq.client.client import Client
from runnerq.client.handle import Handle
from runnerq.errors import ChildFailed, StorageRefused
from runnerq.persistence.records import End, Park, RunFilter, Status, Turn, Verdict
from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Holding, Stage, Tapped, soon

WORDS: Signal[str] = Signal("words", str)
FOREVER = 600
"""Seconds of what would last if nothing ended it."""


@activity
async def note(what: str) -> str:
    return what


@activity
async def last_forever() -> None:
    await asyncio.sleep(FOREVER)


def parks(turn: Turn) -> bool:
    return isinstance(turn.move, Park)


# --- between the decision to park and the park ------------------------------------------------------------------------


async def test_a_signal_that_comes_while_a_park_is_being_written_is_heard(plain_stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.signal(WORDS))

    holding = Holding(plain_stage.storage, parks)
    async with plain_stage.on(holding).serving(order) as client:
        run = await client.start(order)
        await holding.gate.somebody()
        await run.send(WORDS, "just in time")
        holding.gate.open()
        assert await run.result(timeout=SOON) == "just in time"


async def test_a_cancel_that_comes_while_a_park_is_being_written_is_heard(plain_stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.signal(WORDS))

    holding = Holding(plain_stage.storage, parks)
    async with plain_stage.on(holding).serving(order) as client:
        run = await client.start(order)
        await holding.gate.somebody()
        await run.cancel()
        holding.gate.open()
        await run.reached(Status.CANCELLED, timeout=SOON)


async def test_what_falls_due_while_a_park_is_being_written_is_carried_out_once(stage: Stage) -> None:
    ran: list[str] = []

    @activity
    async def once() -> str:
        ran.append(current().run_id)
        return "once"

    @workflow
    def order(ctx: Context, asleep: float) -> Flow[list[Any]]:
        yield ctx.all(ctx.step(note, "quick"), ctx.sleep(asleep))
        first = yield ctx.step(once)
        return [first, (yield from ctx.signal(WORDS)), (yield ctx.signal(WORDS, timeout=0, default="no more"))]

    holding = Holding(stage.storage, parks)
    async with stage.on(holding).serving(order) as client:
        asleep = 0.4
        while True:
            run = await client.start(order, asleep)
            await run.send(WORDS, "one")
            if await _comes_to(holding.gate, run):
                break
            # It stood still until its sleep was over, and had nothing to park for.
            asleep *= 3
        # Until the sleep is over, by the clock that the worker reads.
        [entry, *_] = [entry for entry in await run.history() if entry.kind == "step"]
        async with asyncio.timeout(SOON):
            while (await stage.storage.now() - entry.asked_at).total_seconds() < asleep + 0.05:
                await asyncio.sleep(0.01)
        holding.gate.open()
        assert await run.result(timeout=SOON) == ["once", "one", "no more"]
        await stage.no_gaps(run.id)
    assert ran.count(run.id) == 1


async def _comes_to(gate: Gate, run: Handle[Any]) -> bool:
    """Whether it comes to the gate; False if it ends without."""
    async with asyncio.timeout(SOON):
        while not gate.come.is_set() and not (await run.status()).ended:
            await asyncio.sleep(0.001)
    return gate.come.is_set()


async def test_a_completed_run_and_a_late_signal_lose_neither(plain_stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.step(note, "done"))

    holding = Holding(plain_stage.storage, lambda turn: isinstance(turn.move, End))
    async with plain_stage.on(holding).serving(order) as client:
        run = await client.start(order)
        await holding.gate.somebody()
        await run.send(WORDS, "unread")
        assert await run.cancel("too late")
        holding.gate.open()
        assert await run.result(timeout=SOON) == "done"


# --- what a running run hears -----------------------------------------------------------------------------------------


async def test_a_race_of_a_long_step_and_a_signal_hears_the_signal_while_the_step_runs(stage: Stage) -> None:
    begun = Gate()

    @activity
    async def long() -> None:
        begun.come.set()
        await asyncio.sleep(FOREVER)

    @workflow
    def order(ctx: Context) -> Flow[list[Any]]:
        won = yield from ctx.race(ctx.step(long), ctx.signal(WORDS))
        return [won.index, won.value]

    async with stage.serving(order) as client:
        run = await client.start(order)
        await begun.somebody()
        await run.send(WORDS, "enough")
        assert await run.result(timeout=SOON) == [1, "enough"]


async def test_a_race_of_a_long_step_and_a_child_hears_of_the_child_while_the_step_runs(stage: Stage) -> None:
    begun = Gate()

    @activity
    async def long() -> None:
        begun.come.set()
        await asyncio.sleep(FOREVER)

    @workflow
    def child(ctx: Context) -> Flow[str]:
        return (yield from ctx.signal(WORDS))

    @workflow
    def order(ctx: Context) -> Flow[list[Any]]:
        won = yield from ctx.race(ctx.step(long), ctx.child(child))
        return [won.index, won.value]

    async with stage.serving(order, child) as client:
        run = await client.start(order)
        await begun.somebody()
        [info] = (await client.list(RunFilter(parent=run.id))).items
        await client.send(info.id, WORDS, "the child's")
        assert await run.result(timeout=SOON) == [1, "the child's"]


async def test_what_arrived_while_a_run_was_parked_is_fed_in_the_order_of_its_time(stage: Stage) -> None:
    def wait(ctx: Context, name: str) -> Generator[Any, Any, str]:
        word = yield ctx.signal(name)
        order = yield ctx.signal("order", timeout=0, default=None)
        return f"{name} {word} {order}"

    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        return list((yield from ctx.all(wait(ctx, "a"), wait(ctx, "b"))))

    run = await stage.client.start(order)
    # All are there when the run begins; "b" came before "a", so its branch takes the only "order".
    await run.send("b", "first")
    await run.send("order", "mine")
    await run.send("a", "second")
    async with stage.serving(order):
        assert await run.result(timeout=SOON) == ["a second None", "b first mine"]


# --- many children ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("children", [12, 500])
async def test_many_children_that_end_at_once_resume_their_parent_a_few_times(
    plain_stage: Stage, children: int
) -> None:
    @activity
    async def leaf(number: int) -> int:
        return number

    @workflow
    def order(ctx: Context, count: int) -> Flow[int]:
        return sum((yield from ctx.gather(ctx.child(leaf, n) for n in range(count))))

    tapped = Tapped(plain_stage.storage)
    stage = plain_stage.on(tapped)
    async with stage.serving(order, leaf, max_workers=50) as client:
        run = await client.start(order, children)
        assert await run.result(timeout=SOON) == sum(range(children))
        assert tapped.claimed(run.id) <= 5


# --- what is kept when a run blocks -----------------------------------------------------------------------------------


async def test_a_block_keeps_the_children_that_were_asked_for_before_the_fault(stage: Stage) -> None:
    def starts(ctx: Context) -> Generator[Any, Any, Any]:
        yield ctx.signal("a")
        yield ctx.publish(seen="a")
        return (yield ctx.child(note, "from a child"))

    def fails(ctx: Context, fault: bool) -> Generator[Any, Any, Any]:
        yield ctx.signal("b")
        if fault:
            raise AttributeError("a bad deploy")
        return "fine"

    def code(fault: bool) -> Any:
        @workflow
        def order(ctx: Context) -> Flow[list[Any]]:
            return list((yield from ctx.all(starts(ctx), fails(ctx, fault))))

        return order

    bad, good = code(True), code(False)
    run = await stage.client.start(bad)
    # Both are fed in one advance: the child is on record, the fault is after it.
    await run.send("a", 1)
    await run.send("b", 1)
    async with stage.serving(bad, note, build="one"):
        await run.reached(Status.BLOCKED, timeout=SOON)
        assert await run.state() == {"seen": "a"}
    async with stage.serving(good, note, build="two"):
        assert await run.result(timeout=SOON) == ["from a child", "fine"]
    await stage.no_gaps(run.id)


async def test_a_refused_turn_leaves_no_gap_behind_and_the_next_build_goes_on(memory: Stage) -> None:
    ran: list[str] = []
    gate = Gate()

    @activity
    async def work(what: str) -> str:
        ran.append(what)
        if what == "slow":
            await gate.pass_through()
        return what

    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        return list((yield from ctx.all(ctx.step(work, "bad"), ctx.step(work, "slow"))))

    class Refusing(Holding):
        refuses = True

        async def commit(self, turns: Sequence[Turn]) -> list[Verdict]:
            if self.refuses and any(row.value == '"bad"' for turn in turns for row in turn.rows):
                await self._hold(turns)
                raise StorageRefused("a constraint says no")
            return await super().commit(turns)

    refusing = Refusing(memory.storage, lambda turn: any(row.value == '"bad"' for row in turn.rows))
    stage = memory.on(refusing)
    async with stage.serving(order, build="one") as client:
        run = await client.start(order)
        await refusing.gate.somebody()
        # The other step ends while the turn is out that will be refused.
        gate.open()
        await soon(lambda: ran == ["bad", "slow"])
        await asyncio.sleep(0)
        refusing.gate.open()
        await run.reached(Status.BLOCKED, timeout=SOON)
    refusing.refuses = False
    async with stage.serving(order, build="two"):
        assert await run.result(timeout=SOON) == ["bad", "slow"]
    await memory.no_gaps(run.id)


# --- generators at a park ---------------------------------------------------------------------------------------------


async def test_a_parked_generator_is_closed_at_once_on_the_workers_thread_and_ctx_is_inert(memory: Stage) -> None:
    closed: list[Any] = []
    memory.cache = 0

    @workflow
    def order(ctx: Context) -> Flow[str]:
        try:
            return (yield from ctx.signal(WORDS))
        finally:
            closed.append((threading.current_thread().name, ctx.replaying))
            yield ctx.step(note, "never at a park")

    async with memory.serving(order) as client:
        run = await client.start(order)
        await run.reached(Status.WAITING, timeout=SOON)
        await soon(lambda: closed)
        assert closed == [(threading.current_thread().name, True)]
        await run.send(WORDS, "go")
        assert await run.result(timeout=SOON) == "go"
        assert [entry.kind for entry in await run.history()] == ["started", "signal", "step"]


async def test_a_workflow_that_swallows_everything_cannot_hang_a_park(memory: Stage) -> None:
    memory.cache = 0

    @workflow
    def stubborn(ctx: Context) -> Flow[str]:
        words: list[str] = []
        while len(words) < 2:
            try:
                words.append((yield from ctx.signal(WORDS)))
            except BaseException:  # noqa: S112 - what this is about
                continue
        return " ".join(words)

    async with memory.serving(stubborn) as client:
        run = await client.start(stubborn)
        for word in ("still", "here"):
            await run.reached(Status.WAITING, timeout=SOON)
            await run.send(WORDS, word)
        assert await run.result(timeout=SOON) == "still here"


async def test_a_parked_run_that_another_worker_took_meanwhile_is_not_resumed_from_the_cache(stage: Stage) -> None:
    resumed: list[str] = []

    def code(name: str) -> Any:
        @workflow
        def order(ctx: Context) -> Flow[list[str]]:
            words = []
            for _ in range(4):
                words.append((yield from ctx.signal(WORDS)))
                resumed.append(name)
            return words

        return order

    first, second = code("first"), code("second")
    run = await stage.client.start(first)
    one, two = stage.worker(first, cache=100, build="x"), stage.worker(second, cache=100, build="x")
    async with one, two:
        for number in range(4):
            await _parked(run, number)
            await run.send(WORDS, str(number))
        assert await run.result(timeout=SOON) == ["0", "1", "2", "3"]


async def _parked(run: Any, answered: int) -> None:
    async with asyncio.timeout(SOON):
        while (await run.status()) is not Status.WAITING or len(await run.history()) < answered + 2:
            await asyncio.sleep(0.002)


async def test_a_finished_run_leaves_nothing_for_the_garbage_collector(memory: Stage) -> None:
    memory.cache = 0
    kept: list[weakref.ref[Any]] = []

    class Local:
        """Lives as long as the generator's frame."""

    @workflow
    def order(ctx: Context) -> Flow[str]:
        local = Local()
        kept.append(weakref.ref(local))
        yield from ctx.all(ctx.step(note, "one"), ctx.sleep(0.001))
        try:
            yield ctx.child(fails)
        except ChildFailed as failed:
            yield ctx.publish(why=str(failed))
        return (yield from ctx.signal(WORDS))

    @activity(retry=1)
    async def fails() -> None:
        raise ValueError("no")

    async def run_once(client: Client) -> None:
        run = await client.start(order)
        await run.send(WORDS, "go")
        assert await run.result(timeout=SOON) == "go"

    async with memory.serving(order, fails) as client:
        # What is made once (a first import, a cache) is not what this is about.
        await run_once(client)
        kept.clear()
        gc.collect()
        gc.disable()
        try:
            await run_once(client)
            await soon(lambda: all(ref() is None for ref in kept))
        finally:
            gc.enable()
    assert len(kept) >= 2
