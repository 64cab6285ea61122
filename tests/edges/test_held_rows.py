"""A run's row that somebody holds in an open transaction: that run waits, and nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg

from runnerq.persistence.records import Status, Turn, Verdict
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Stage, Tapped, soon


@asynccontextmanager
async def held(dsn: str, run_id: str) -> AsyncIterator[None]:
    """The run's row is locked by a transaction of somebody's."""
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            await connection.execute("select from runnerq.live where run_id = $1 for update", run_id)
            yield
    finally:
        await connection.close()


def hearing_of_busy_turns(stage: Stage) -> tuple[Stage, asyncio.Event]:
    """The same stage, and what is set once a turn of it found a row held."""
    busy = asyncio.Event()

    async def hear(turns: Sequence[Turn], verdicts: list[Verdict]) -> None:
        if Verdict.BUSY in verdicts:
            busy.set()

    tapped = Tapped(stage.storage)
    tapped.after = hear
    return stage.on(tapped), busy


async def test_a_held_row_takes_no_slot_from_the_others_and_its_run_goes_on_afterwards(
    on_postgres: Stage, shared_database: str
) -> None:
    gate = Gate()
    ran: list[str] = []

    @activity
    async def first() -> str:
        ran.append("first")
        await gate.pass_through()
        return "first"

    @activity
    async def then() -> str:
        ran.append("then")
        return "then"

    @activity
    async def quick(number: int) -> int:
        return number

    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        one = yield from ctx.step(first)
        return [one, (yield from ctx.step(then))]

    # One slot: were it taken while the row is held, nothing else would run.
    stage, busy = hearing_of_busy_turns(on_postgres)
    async with stage.worker(order, quick, max_workers=1):
        run = await on_postgres.client.start(order)
        await gate.somebody()
        async with held(shared_database, run.id):
            gate.open()
            await asyncio.wait_for(busy.wait(), SOON)
            runs = await on_postgres.client.start_many(quick, [(number,) for number in range(20)])
            assert [await each.result(timeout=SOON) for each in runs] == list(range(20))
            assert await run.status() is Status.RUNNING
            # An effect only follows what is on record, and its answer is not.
            assert ran == ["first"]
        assert await run.result(timeout=SOON) == ["first", "then"]
        await on_postgres.no_gaps(run.id)
    assert ran == ["first", "then"]


async def test_a_held_parent_delays_the_ends_of_its_children_and_of_no_others(
    on_postgres: Stage, shared_database: str
) -> None:
    gate = Gate()
    came: list[str] = []

    @activity
    async def leaf(of: str) -> str:
        came.append(of)
        await gate.pass_through()
        return of

    @workflow
    def order(ctx: Context, name: str) -> Flow[list[str]]:
        return (yield from ctx.gather(ctx.child(leaf, name) for _ in range(3)))

    stage, busy = hearing_of_busy_turns(on_postgres)
    async with stage.worker(order, leaf, max_workers=4):
        kept, free = [await on_postgres.client.start(order, name) for name in ("kept", "free")]
        await soon(lambda: len(came) == 4)
        await kept.reached(Status.WAITING, timeout=SOON)
        async with held(shared_database, kept.id):
            gate.open()
            assert await free.result(timeout=SOON) == ["free"] * 3
            await asyncio.wait_for(busy.wait(), SOON)
            assert await kept.status() is Status.WAITING
        assert await kept.result(timeout=SOON) == ["kept"] * 3
    assert sorted(came) == ["free"] * 3 + ["kept"] * 3
