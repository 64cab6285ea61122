"""A worker that lost its lease and does not know it: nothing that it decides can be seen outside."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import RunFilter, Status, Turn, Verdict
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Stage, Tapped, soon


async def test_a_stale_worker_that_decides_a_race_cancels_no_child_of_the_new_owners(memory: Stage) -> None:
    """The worker is stopped at the moment the race is decided, is taken for dead, and goes on."""
    step, lost = Gate(), asyncio.Event()

    @activity
    async def long() -> None:
        await step.pass_through()

    @workflow
    def nobody_serves_this(ctx: Context) -> Flow[None]:
        yield ctx.sleep(0)

    @workflow
    def order(ctx: Context) -> Flow[Any]:
        won = yield from ctx.race(ctx.step(long), ctx.child(nobody_serves_this))
        yield ctx.signal("go on")
        return won.index

    async def hear(_: Sequence[Turn], verdicts: list[Verdict]) -> None:
        if Verdict.LOST in verdicts:
            lost.set()

    tapped = Tapped(memory.storage)
    tapped.after = hear
    stage = memory.on(tapped)
    async with stage.worker(order, beat=60) as worker:
        run = await stage.client.start(order)
        await step.somebody()
        assert worker._shift is not None
        # Its first beat must not come after the run was taken: it would hear of it.
        heart = worker._shift.heart
        await soon(lambda: heart.good_beats)
        [child] = (await memory.storage.list_runs(RunFilter(parent=run.id), 10)).runs
        await _take_away(memory.storage)
        step.open()
        await asyncio.wait_for(lost.wait(), SOON)
        record = await memory.storage.run(child.id)
    assert record is not None
    assert (tapped.cancels, record.status, record.cancel_requested) == ([], Status.PENDING, False)


async def _take_away(storage: Any) -> None:
    """Give the runs of the only worker back behind its back."""
    assert isinstance(storage, MemoryStorage)
    with storage.writing() as (book, _):
        [worker_id] = book.workers
    assert await storage.give_back(worker_id) == 1
