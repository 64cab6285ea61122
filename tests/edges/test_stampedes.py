"""Very much at one instant: timers that are all due, children that all end."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from runnerq.persistence.records import Status
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.postgres import execute
from tests.runtime.stage import SOON, Gate, Stage, Tapped

TIMERS = 2000
CHILDREN = 500
WORKERS = 2


class Waking(Tapped):
    """A storage that counts what its worker asks it to wake, and what that wakes."""

    def __init__(self, storage: Any) -> None:
        super().__init__(storage)
        self.woken: list[int] = []

    async def wake_due(self, limit: int) -> int:
        woken: int = await self._storage.wake_due(limit)
        self.woken.append(woken)
        return woken


async def test_thousands_of_timers_that_came_due_while_no_worker_was_up_fire_once_each_in_few_batches(
    on_postgres: Stage, shared_database: str
) -> None:
    @workflow
    def order(ctx: Context, number: int) -> Flow[int]:
        return number
        yield

    runs = await on_postgres.client.options(delay=3600).start_many(order, [(number,) for number in range(TIMERS)])
    assert await runs[-1].status() is Status.SCHEDULED
    # Two hours later.
    due = "due_at = due_at - interval '2 h', rank = rank - interval '2 h'"
    await execute(shared_database, f"update runnerq.live set {due} where queue = '{on_postgres.queue}'")
    waking = [Waking(on_postgres.storage) for _ in range(WORKERS)]
    one, two = (on_postgres.on(each).worker(order, max_workers=100) for each in waking)
    async with one, two:
        assert [await run.result(timeout=SOON) for run in runs] == list(range(TIMERS))
    claimed = Counter(run.id for each in waking for claim in each.claims for run in claim.runs)
    assert set(claimed.values()) == {1}
    # Each timer was fired by one of them, hundreds at a time.
    assert sum(sum(each.woken) for each in waking) == TIMERS
    assert sum(bool(woken) for each in waking for woken in each.woken) <= TIMERS / 200
    # A claim brings many of them: half of the slots at least, but for the last ones.
    full = sum(bool(claim.runs) for each in waking for claim in each.claims)
    assert full <= TIMERS / 10


async def test_hundreds_of_children_that_end_at_one_instant_resume_their_parent_a_few_times(
    plain_stage: Stage,
) -> None:
    gate = Gate()
    came: list[int] = []
    all_came = asyncio.Event()

    @activity
    async def leaf(number: int) -> int:
        came.append(number)
        if len(came) == CHILDREN:
            all_came.set()
        await gate.pass_through()
        return number

    @workflow
    def order(ctx: Context) -> Flow[int]:
        return sum((yield from ctx.gather(ctx.child(leaf, number) for number in range(CHILDREN))))

    tapped = [Tapped(plain_stage.storage) for _ in range(WORKERS)]
    many: dict[str, Any] = {"max_workers": CHILDREN, "max_steps": CHILDREN}
    one, two = (plain_stage.on(each).worker(order, leaf, **many) for each in tapped)
    async with one, two:
        run = await plain_stage.client.start(order)
        await asyncio.wait_for(all_came.wait(), SOON)
        await run.reached(Status.WAITING, timeout=SOON)
        before = sum(each.claimed(run.id) for each in tapped)
        gate.open()
        assert await run.result(timeout=SOON) == sum(range(CHILDREN))
    assert sum(each.claimed(run.id) for each in tapped) - before == 1
    assert sorted(came) == list(range(CHILDREN))
