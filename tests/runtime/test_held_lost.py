"""What a lost worker leaves behind: one that holds a run no longer and does not know it, one that ended too early."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from runnerq.persistence.records import RunFilter, Sent, Status, Turn, Verdict
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Holding, Stage, Tapped, soon

WORDS: Signal[str] = Signal("words", str)


def decides(turn: Turn) -> bool:
    return any(row.kind == "closed" for row in turn.rows)


async def test_a_worker_held_while_it_decides_a_race_cannot_cancel_the_new_owners_child(plain_stage: Stage) -> None:
    """Its commit is held; the run is taken from it and goes on elsewhere; then the commit is let go.

    This is the test of the fault "unfenced child cancel": it fails if cancels go out before the verdict is known.
    """
    step = Gate()
    verdicts: asyncio.Queue[list[Verdict]] = asyncio.Queue()

    @activity
    async def first_time_only() -> str:
        if step.come.is_set():
            await asyncio.sleep(600)
        await step.pass_through()
        return "the stale worker's"

    @workflow
    def child(ctx: Context) -> Flow[str]:
        return (yield from ctx.signal(WORDS))

    @workflow
    def order(ctx: Context) -> Flow[list[Any]]:
        won = yield from ctx.race(ctx.step(first_time_only), ctx.child(child))
        yield ctx.sleep(0.001)
        return [won.index, won.value]

    async def hear(_: Any, answers: list[Verdict]) -> None:
        verdicts.put_nowait(answers)

    holding = Holding(plain_stage.storage, decides)
    stale = plain_stage.on(holding).worker(order, only=[order], beat=60)
    async with stale:
        run = await plain_stage.client.start(order)
        await step.somebody()
        step.open()
        await holding.gate.somebody()
        [info] = (await plain_stage.client.list(RunFilter(parent=run.id))).items
        assert stale.worker_id is not None
        assert stale._shift is not None
        # Its first beat must not come after the run was taken: it would hear of it.
        heart = stale._shift.heart
        await soon(lambda: heart.good_beats)
        # As a reaper does it: the run goes to whoever claims it next.
        assert await plain_stage.storage.give_back(stale.worker_id) == 1
        async with plain_stage.serving(order, child) as client:
            await client.handle(info.id).reached(Status.WAITING, timeout=SOON)
            await _held_again(plain_stage, run.id)
            holding.after = hear
            holding.gate.open()
            assert await asyncio.wait_for(verdicts.get(), SOON) == [Verdict.LOST]
            await client.send(info.id, WORDS, "the child's")
            assert await run.result(timeout=SOON) == [1, "the child's"]
            assert await client.handle(info.id).status() is Status.COMPLETED
    assert holding.cancels == []


async def test_children_that_a_crash_left_with_their_ended_parent_are_cancelled_by_the_next_worker(
    plain_stage: Stage,
) -> None:
    class Dying(Tapped):
        """Gone before it can cancel anything."""

        async def cancel(self, run_ids: Sequence[str], reason: str | None = None) -> list[Sent]:
            return [Sent.SENT for _ in run_ids]

    @workflow
    def child(ctx: Context) -> Flow[str]:
        return (yield from ctx.signal(WORDS))

    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        left = yield from ctx.spawn(child)
        kept = yield from ctx.options(parent_close="abandon").spawn(child)
        return [left.id, kept.id]

    async with plain_stage.on(Dying(plain_stage.storage)).serving(order, child) as client:
        left, kept = await (await client.start(order)).result(timeout=SOON)
        for each in (left, kept):
            await client.handle(each).reached(Status.WAITING, timeout=SOON)
    async with plain_stage.serving(order, child, poll_interval=0.05) as client:
        await client.handle(left).reached(Status.CANCELLED, timeout=SOON)
        await client.send(kept, WORDS, "abandoned")
        assert await client.handle(kept).result(timeout=SOON) == "abandoned"


async def _held_again(stage: Stage, run_id: str) -> None:
    async with asyncio.timeout(SOON):
        while not await stage.holds(stage.base.handle(run_id)):
            await asyncio.sleep(0.005)
