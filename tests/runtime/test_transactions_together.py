"""Transactions beside other things: in composites and branches, many at once, one after the other on one connection."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from runnerq.retry import RetryPolicy
from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from tests.runtime.bank import Bank, backend_of, bank, commit_waits, opened, pay, postgres
from tests.runtime.stage import SOON, Gate, Stage

__all__ = ["bank", "opened", "postgres"]

pytestmark = pytest.mark.asyncio(loop_scope="module")

GO: Signal[int] = Signal("go", int)


def nothing(number: int) -> int:
    return number


async def test_branches_side_by_side_are_paid_once_each_and_in_one_order(postgres: Stage, bank: Bank) -> None:
    def branch(ctx: Context, name: str) -> Flow[list[str]]:
        notes = []
        for number in range(3):
            notes.append((yield from ctx.transaction(pay, f"{name}{number}")))
            yield from ctx.step(nothing, number)
        return notes

    @workflow
    def buy(ctx: Context) -> Flow[int]:
        together = yield from ctx.all(*(branch(ctx, name) for name in "abcd"), ctx.transaction(pay, "e"))
        return sum(len(each) for each in together)

    async with postgres.serving(buy) as client:
        runs = [await client.start(buy) for _ in range(5)]
        for run in runs:
            assert await run.result(timeout=SOON) == 13
    for run in runs:
        assert await bank.paid(run) == sorted([f"{name}{number}" for name in "abcd" for number in range(3)] + ["e"])
        await postgres.no_gaps(run.id)


async def test_one_that_loses_a_race_is_rolled_back_and_one_that_wins_it_counts(postgres: Stage, bank: Bank) -> None:
    gate = Gate()

    async def stall(connection: Any) -> None:
        await pay(connection, "lost")
        await gate.pass_through()

    @workflow
    def buy(ctx: Context) -> Flow[list[int]]:
        lost = yield from ctx.race(ctx.transaction(stall), ctx.signal(GO))
        won = yield from ctx.race(ctx.transaction(pay, "won"), ctx.signal(GO))
        return [lost.index, won.index]

    async with postgres.serving(buy) as client:
        run = await client.start(buy)
        await gate.somebody()
        await run.send(GO, 1)
        assert await run.result(timeout=SOON) == [1, 0]
    assert await bank.paid(run) == ["won"]
    await postgres.no_gaps(run.id)


async def test_what_comes_while_it_is_committed_is_fed_behind_it(postgres: Stage, bank: Bank) -> None:
    # The commit waits for the test, and a step of the same run ends meanwhile.
    gate = Gate()

    async def meanwhile() -> str:
        await gate.pass_through()
        return "meanwhile"

    @workflow
    def buy(ctx: Context) -> Flow[list[str]]:
        return list((yield from ctx.all(ctx.transaction(slowly), ctx.step(meanwhile))))

    async with postgres.serving(buy) as client:
        await bank.connection.execute("select pg_advisory_lock(4711)")
        run = await client.start(buy)
        await gate.somebody()
        await commit_waits(bank)
        gate.open()
        # The step has ended: its answer waits for the commit.
        await asyncio.sleep(0)
        await bank.connection.execute("select pg_advisory_unlock(4711)")
        assert await run.result(timeout=SOON) == ["slowly", "meanwhile"]
    journal = await postgres.storage.journal(run.id)
    assert journal is not None
    positions = [row.position for row in journal.rows if row.kind == "answered"]
    assert positions == ["1.0", "1.1", "1"]
    await postgres.no_gaps(run.id)


async def test_it_gets_its_place_though_the_run_is_never_at_rest(postgres: Stage, bank: Bank) -> None:
    paid: list[str] = []

    def paying(ctx: Context) -> Flow[None]:
        paid.append((yield from ctx.transaction(pay, "among many")))

    def busy(ctx: Context) -> Flow[None]:
        """Until it has its place, which it does not get if it waits for the others."""
        number = 0
        while not paid:
            number += 1
            yield from ctx.step(nothing, number)

    @workflow
    def buy(ctx: Context) -> Flow[None]:
        yield from ctx.all(paying(ctx), *(busy(ctx) for _ in range(8)))

    async with postgres.serving(buy) as client:
        run = await client.start(buy)
        await run.result(timeout=SOON)
    assert await bank.paid(run) == ["among many"]
    await postgres.no_gaps(run.id)


async def slowly(connection: Any) -> str:
    """Its commit waits for the test."""
    await connection.execute("insert into slow values ('x')")
    return await pay(connection, "slowly")


async def test_a_timeout_cuts_off_no_commit(postgres: Stage, bank: Bank) -> None:
    @workflow
    def buy(ctx: Context) -> Flow[str]:
        return (yield from ctx.options(timeout=0.1, retry=1).transaction(slowly))

    async with postgres.serving(buy) as client:
        await bank.connection.execute("select pg_advisory_lock(4711)")
        run = await client.start(buy)
        await commit_waits(bank)
        # Longer than an attempt may take.
        await bank.connection.execute("select pg_sleep(0.2), pg_advisory_unlock(4711)")
        assert await run.result(timeout=SOON) == "slowly"
    assert await bank.paid(run) == ["slowly"]


async def test_a_worker_that_stops_waits_for_a_commit(postgres: Stage, bank: Bank) -> None:
    @workflow
    def buy(ctx: Context) -> Flow[str]:
        return (yield from ctx.transaction(slowly))

    worker = postgres.worker(buy, shutdown_grace=0)
    async with worker:
        await bank.connection.execute("select pg_advisory_lock(4711)")
        run = await postgres.client.start(buy)
        await commit_waits(bank)
        stopping = asyncio.create_task(worker.stop())
        await bank.connection.execute("select pg_sleep(0.2)")
        assert not stopping.done()
        await bank.connection.execute("select pg_advisory_unlock(4711)")
        await stopping
    assert await bank.paid(run) == ["slowly"]
    async with postgres.serving(buy):
        assert await run.result(timeout=SOON) == "slowly"
    assert await bank.paid(run) == ["slowly"]
    await postgres.no_gaps(run.id)


async def test_many_that_take_long_hold_up_neither_steps_nor_turns(postgres: Stage, bank: Bank) -> None:
    gate = Gate()
    begun = 0

    async def stall(connection: Any) -> None:
        nonlocal begun
        begun += 1
        await pay(connection, "long")
        await gate.pass_through()

    @workflow
    def long(ctx: Context) -> Flow[None]:
        yield from ctx.transaction(stall)

    @workflow
    def short(ctx: Context) -> Flow[int]:
        return (yield from ctx.step(nothing, 1)) + (yield from ctx.step(nothing, 2))

    async with postgres.serving(long, short, max_workers=40) as client:
        stalled = [await client.start(long) for _ in range(13)]
        await gate.somebody()
        for _ in range(3):
            assert await (await client.start(short)).result(timeout=SOON) == 3
        assert begun == 10
        gate.open()
        for run in stalled:
            await run.result(timeout=SOON)
    assert begun == 13
    assert [await bank.paid(run) for run in stalled] == [["long"]] * 13


async def test_what_one_leaves_in_its_session_the_next_one_does_not_find(postgres: Stage, bank: Bank) -> None:
    kept: list[Any] = []

    async def leave(connection: Any) -> int:
        kept.append(connection)
        await connection.execute("set search_path to nowhere; select pg_advisory_lock(4712)")
        if current().attempt == 1:
            raise LookupError("again, and what it has left is to be undone all the same")
        return await backend_of(connection)

    async def look(connection: Any) -> list[Any]:
        return [
            await connection.fetchval("show search_path"),
            await connection.fetchval("select count(*) from pg_locks where locktype = 'advisory' and objid = 4712"),
            await connection.fetchval("show enable_seqscan"),
            await backend_of(connection),
        ]

    @workflow
    def buy(ctx: Context) -> Flow[list[Any]]:
        first = yield from ctx.options(retry=RetryPolicy(base=0.01)).transaction(leave)
        return [*(yield from ctx.transaction(look)), first]

    async with postgres.serving(buy) as client:
        path, locks, seqscan, second, first = await (await client.start(buy)).result(timeout=SOON)
    assert (path, locks, seqscan) == ('"$user", public', 0, "on")
    assert first == second, "the connection is used again"
    with pytest.raises(asyncpg.InterfaceError):
        await kept[0].execute("select 1")


async def test_it_may_choose_how_isolated_it_is(postgres: Stage, bank: Bank) -> None:
    async def choose(connection: Any) -> str:
        await connection.execute("set transaction isolation level serializable")
        return str(await connection.fetchval("show transaction_isolation"))

    async def usual(connection: Any) -> str:
        return str(await connection.fetchval("show transaction_isolation"))

    @workflow
    def buy(ctx: Context) -> Flow[list[str]]:
        return [(yield from ctx.transaction(choose)), (yield from ctx.transaction(usual))]

    assert await postgres.answer(buy) == ["serializable", "read committed"]


async def test_its_heartbeat_and_its_deadline_are_those_of_a_step(postgres: Stage, bank: Bank) -> None:
    async def say(connection: Any) -> list[Any]:
        now = current()
        now.heartbeat({"at": now.attempt})
        if now.attempt == 1:
            raise ConnectionError("again")
        left = (now.deadline - now.clock()).total_seconds() if now.deadline and now.clock else 0.0
        return [now.heartbeat_details, now.kind, 25 < left <= 30]

    @workflow
    def buy(ctx: Context) -> Flow[list[Any]]:
        return (yield from ctx.options(timeout=30, retry=2).transaction(say))

    assert await postgres.answer(buy) == [{"at": 1}, "transaction", True]


async def test_a_run_started_on_its_connection_is_there_if_it_is(postgres: Stage, bank: Bank) -> None:
    @workflow
    def ship(ctx: Context, note: str) -> Flow[str]:
        return f"shipped {(yield from ctx.step(str, note))}"

    async def pay_and_ship(connection: Any, fail: bool) -> str:
        note = await pay(connection, "with a child")
        child = await current().client.options(connection=connection).start(ship, note)
        if fail:
            raise LookupError(child.id)
        return str(child.id)

    @workflow
    def buy(ctx: Context) -> Flow[list[str]]:
        gone = ""
        try:
            yield from ctx.options(retry=1).transaction(pay_and_ship, True)
        except LookupError as error:
            gone = error.args[0]
        child = yield from ctx.transaction(pay_and_ship, False)
        return [gone, (yield from ctx.handle(child).result())]

    async with postgres.serving(buy, ship) as client:
        run = await client.start(buy)
        gone, shipped = await run.result(timeout=SOON)
    assert shipped == "shipped with a child"
    assert await postgres.storage.run(gone) is None
    assert await bank.paid(run) == ["with a child"]
