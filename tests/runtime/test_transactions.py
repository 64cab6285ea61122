"""Transactions on a database: what a function writes and the entry of its answer are there together, or neither is."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from runnerq.client.history import Entry
from runnerq.errors import NonRetryableError, RunCancelled, RunFailed
from runnerq.persistence.records import Status
from runnerq.retry import RetryPolicy
from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from tests.runtime.bank import Bank, Seams, bank, opened, pay, postgres
from tests.runtime.stage import SOON, Gate, Stage

__all__ = ["bank", "opened", "postgres"]

pytestmark = pytest.mark.asyncio(loop_scope="module")

SOON_AGAIN = RetryPolicy(max_attempts=3, base=0.01, jitter=0)


async def entry(run: Any, position: str = "1") -> Entry:
    [found] = [entry for entry in await run.history() if entry.position == position]
    return found


async def test_its_writes_and_its_entry_are_there_together(postgres: Stage, bank: Bank) -> None:
    def double(cents: int) -> int:
        return cents * 2

    @workflow
    def buy(ctx: Context, cents: int) -> Flow[list[Any]]:
        note = yield from ctx.transaction(pay, "book")
        doubled = yield from ctx.step(double, cents)
        again = yield from ctx.options(name="again").transaction(pay, note="pen")
        return [note, doubled, again]

    async with postgres.serving(buy) as client:
        run = await client.start(buy, 7)
        assert await run.result(timeout=SOON) == ["book", 14, "pen"]
    assert await bank.paid(run) == ["book", "pen"]
    kept = await entry(run)
    assert (kept.kind, kept.name, kept.state, kept.value) == ("transaction", "pay", "answered", "book")
    assert (await entry(run, "3")).name == "again"
    await postgres.no_gaps(run.id)


async def test_what_it_raises_rolls_it_back_and_it_is_tried_again(postgres: Stage, bank: Bank) -> None:
    keys: list[str] = []

    async def pay_at_last(connection: Any) -> int:
        attempt = current().attempt
        keys.append(current().idempotency_key)
        await pay(connection, f"attempt {attempt}")
        if attempt < 3:
            raise ConnectionError("the bank does not answer")
        return attempt

    @workflow
    def buy(ctx: Context) -> Flow[int]:
        return (yield from ctx.options(retry=SOON_AGAIN).transaction(pay_at_last))

    seams = Seams(postgres.storage)
    async with postgres.on(seams).serving(buy) as client:
        run = await client.start(buy)
        assert await run.result(timeout=SOON) == 3
    # Its answer does away with the failed attempts in the same commit.
    assert [entry.settled for entry in seams.entries] == [("1",)]
    assert await bank.paid(run) == ["attempt 3"]
    assert len(keys) == 3
    assert set(keys) == {f"{run.id}:1:1:transaction:pay_at_last"}
    await postgres.no_gaps(run.id)


async def test_one_whose_attempts_are_used_up_leaves_nothing(postgres: Stage, bank: Bank) -> None:
    async def overdraw(connection: Any) -> None:
        await pay(connection, "never")
        raise LookupError("no such account")

    @workflow
    def buy(ctx: Context, attempts: int) -> Flow[str]:
        try:
            yield from ctx.options(retry=attempts).transaction(overdraw)
        except LookupError as error:
            return str(error.args[0])
        return "paid"

    async with postgres.serving(buy) as client:
        run = await client.start(buy, 1)
        assert await run.result(timeout=SOON) == "no such account"
    assert await bank.paid(run) == []


async def test_an_answer_that_cannot_be_stored_rolls_it_back_and_is_not_tried_again(
    postgres: Stage, bank: Bank
) -> None:
    async def connect(connection: Any) -> Any:
        await pay(connection, "never")
        return object()

    @workflow
    def buy(ctx: Context) -> Flow[None]:
        yield from ctx.transaction(connect)

    async with postgres.serving(buy) as client:
        run = await client.start(buy)
        with pytest.raises(RunFailed, match="cannot be stored") as failed:
            await run.result(timeout=SOON)
    assert (failed.value.status, (await entry(run)).attempts) == ("failed", 1)
    assert await bank.paid(run) == []


@pytest.mark.parametrize("statement", ["commit", "rollback", "commit; begin"])
async def test_one_that_ends_its_transaction_itself_is_told_so_and_not_tried_again(
    postgres: Stage, bank: Bank, statement: str
) -> None:
    async def commit(connection: Any) -> str:
        await pay(connection, "once")
        await connection.execute(statement)
        return "done"

    @workflow
    def buy(ctx: Context) -> Flow[str]:
        return (yield from ctx.transaction(commit))

    async with postgres.serving(buy) as client:
        run = await client.start(buy)
        with pytest.raises(RunFailed, match="has ended that transaction itself") as failed:
            await run.result(timeout=SOON)
    assert failed.value.status == "failed"
    assert isinstance(failed.value.__cause__, NonRetryableError)
    assert (await entry(run)).state == "failed"
    assert await bank.paid(run) == ([] if statement == "rollback" else ["once"])


async def test_one_that_ends_its_transaction_and_fails_then_is_not_tried_again(postgres: Stage, bank: Bank) -> None:
    async def commit(connection: Any) -> str:
        await pay(connection, "once")
        await connection.execute("commit")
        raise ConnectionError("too late")

    @workflow
    def buy(ctx: Context) -> Flow[str]:
        return (yield from ctx.transaction(commit))

    async with postgres.serving(buy) as client:
        run = await client.start(buy)
        with pytest.raises(RunFailed, match="has ended that transaction itself"):
            await run.result(timeout=SOON)
    assert await bank.paid(run) == ["once"]


async def test_one_that_swallows_an_error_of_a_statement_writes_nothing(postgres: Stage, bank: Bank) -> None:
    async def hide(connection: Any) -> str:
        await pay(connection, "never")
        try:
            await connection.execute("select 1 / 0")
        except asyncpg.DivisionByZeroError:
            return "fine"
        return "odd"

    async def shelter(connection: Any) -> str:
        try:
            async with connection.transaction():
                await pay(connection, "inside of a savepoint")
                await connection.execute("select 1 / 0")
        except asyncpg.DivisionByZeroError:
            return await pay(connection, "behind it")
        return "odd"

    @workflow
    def buy(ctx: Context) -> Flow[str]:
        sheltered = yield from ctx.transaction(shelter)
        yield from ctx.options(retry=1).transaction(hide)
        return sheltered

    async with postgres.serving(buy) as client:
        run = await client.start(buy)
        with pytest.raises(RunFailed, match="has returned although a statement in it had failed"):
            await run.result(timeout=SOON)
    assert await bank.paid(run) == ["behind it"]


async def test_a_constraint_that_is_checked_at_the_commit_is_a_failure_of_the_function(
    postgres: Stage, bank: Bank
) -> None:
    attempts: list[int] = []

    async def forge(connection: Any) -> None:
        attempts.append(current().attempt)
        await pay(connection, "never")
        await connection.execute("insert into receipt values (-1)")

    @workflow
    def buy(ctx: Context) -> Flow[None]:
        yield from ctx.options(retry=SOON_AGAIN).transaction(forge)

    async with postgres.serving(buy) as client:
        run = await client.start(buy)
        with pytest.raises(RunFailed, match="violates foreign key constraint") as failed:
            await run.result(timeout=SOON)
    assert (failed.value.status, failed.value.error.type) == ("dead_letter", "ForeignKeyViolationError")
    assert attempts == [1, 2, 3]
    assert await bank.paid(run) == []


# --- cut off ----------------------------------------------------------------------------------------------------------


async def test_a_cancel_rolls_back_what_is_under_way(postgres: Stage, bank: Bank) -> None:
    gate = Gate()

    async def stall(connection: Any) -> None:
        await pay(connection, "never")
        await gate.pass_through()

    @workflow
    def buy(ctx: Context) -> Flow[None]:
        yield from ctx.transaction(stall)

    async with postgres.serving(buy) as client:
        run = await client.start(buy)
        await gate.somebody()
        await run.cancel("changed my mind")
        with pytest.raises(RunCancelled, match="changed my mind"):
            await run.result(timeout=SOON)
    assert (await entry(run)).state == "interrupted"
    assert await bank.paid(run) == []


async def test_one_that_takes_too_long_is_rolled_back_and_tried_again(postgres: Stage, bank: Bank) -> None:
    async def slow(connection: Any) -> str:
        await pay(connection, "first" if current().attempt == 1 else "again")
        if current().attempt == 1:
            await connection.execute("select pg_sleep(60)")
        return "paid"

    @workflow
    def buy(ctx: Context) -> Flow[str]:
        return (yield from ctx.options(timeout=0.3, retry=RetryPolicy(max_attempts=0, base=0.01)).transaction(slow))

    async with postgres.serving(buy) as client:
        run = await client.start(buy)
        assert await run.result(timeout=SOON) == "paid"
    assert await bank.paid(run) == ["again"]


async def test_one_that_ignores_its_timeout_loses_its_connection(
    postgres: Stage, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runnerq.runtime.attempts.GRACE", 0.1)
    account = await bank.open_account(postgres.queue)
    over = asyncio.Event()

    async def withdraw(connection: Any) -> int:
        move = "update account set cents = cents - 10 where name = $1 returning cents"
        cents = await connection.fetchval(move, account)
        while current().attempt == 1 and not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue
        return int(cents)

    @workflow
    def buy(ctx: Context) -> Flow[int]:
        return (yield from ctx.options(timeout=0.2, retry=1).transaction(withdraw))

    async with postgres.serving(buy) as client:
        run = await client.start(buy)
        with pytest.raises(RunFailed, match=r"took longer than its timeout of 0.2 s"):
            await run.result(timeout=SOON)
        # It goes on, and the row that it has locked is free.
        async with asyncio.timeout(SOON):
            await bank.connection.execute("update account set cents = cents - 1 where name = $1", account)
        over.set()
    assert await bank.cents(account) == 99


async def test_a_terminated_run_rolls_back_what_is_under_way(postgres: Stage, bank: Bank) -> None:
    gate = Gate()

    async def stall(connection: Any) -> None:
        await pay(connection, "never")
        await gate.pass_through()

    @workflow
    def buy(ctx: Context) -> Flow[None]:
        yield from ctx.transaction(stall)

    async with postgres.serving(buy) as client:
        run = await client.start(buy)
        await gate.somebody()
        # Its worker is not told: it comes to the fence.
        assert [str(sent) for sent in await postgres.storage.terminate([run.id])] == ["sent"]
        gate.open()
        with pytest.raises(RunCancelled):
            await run.result(timeout=SOON)
    assert await bank.paid(run) == []


async def test_a_run_that_another_worker_has_taken_up_is_paid_once(postgres: Stage, bank: Bank) -> None:
    gate = Gate()
    slow = True

    async def stall(connection: Any) -> str:
        nonlocal slow
        await pay(connection, "slow" if slow else "quick")
        if slow:
            slow = False
            await gate.pass_through()
            return "slow"
        return "quick"

    @workflow
    def buy(ctx: Context) -> Flow[str]:
        return (yield from ctx.transaction(stall))

    stale = postgres.worker(buy, beat=60)
    async with stale:
        run = await postgres.client.start(buy)
        await gate.somebody()
        assert stale.worker_id is not None
        await postgres.storage.release(stale.worker_id, [])
        async with postgres.serving(buy):
            assert await run.result(timeout=SOON) == "quick"
        gate.open()
        await stale.idle()
    assert await bank.paid(run) == ["quick"]
    await postgres.no_gaps(run.id)


async def test_a_worker_that_stops_lets_it_come_to_its_end(postgres: Stage, bank: Bank) -> None:
    gate = Gate()

    async def stall(connection: Any) -> str:
        await gate.pass_through()
        return await pay(connection, "in the grace")

    @workflow
    def buy(ctx: Context) -> Flow[list[str]]:
        first = yield from ctx.transaction(stall)
        second = yield from ctx.transaction(pay, "by another")
        return [first, second]

    worker = postgres.worker(buy)
    async with worker:
        run = await postgres.client.start(buy)
        await gate.somebody()
        stopping = asyncio.create_task(worker.stop())
        gate.open()
        await stopping
    assert await bank.paid(run) == ["in the grace"]
    assert await run.status() is Status.PENDING
    async with postgres.serving(buy):
        assert await run.result(timeout=SOON) == ["in the grace", "by another"]
    assert await bank.paid(run) == ["by another", "in the grace"]
    await postgres.no_gaps(run.id)
