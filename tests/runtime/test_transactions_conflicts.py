"""What others do to a transaction: it is run again, burns no attempt, and its effect is there once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from runnerq.errors import RunFailed, StorageUnavailable
from runnerq.persistence.records import Turn, Verdict
from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from tests.faults.proxy import Proxy
from tests.persistence.postgres.test_connection_faults import LosesEnd
from tests.postgres import open_folder
from tests.runtime.bank import Bank, Seams, backend_of, bank, commit_waits, once, opened, pay, postgres
from tests.runtime.stage import SOON, Gate, Stage, Tapped
from tests.runtime.test_transactions import entry

__all__ = ["bank", "opened", "postgres"]

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def seams(postgres: Stage) -> Seams:
    return Seams(postgres.storage)


class Calls:
    """A function that pays, and first does what a test says to its connection, by how often it was called."""

    def __init__(self, *acts: Any) -> None:
        self._acts = acts
        self.attempts: list[int] = []

    async def __call__(self, connection: Any) -> str:
        number = len(self.attempts)
        self.attempts.append(current().attempt)
        await pay(connection, f"call {number + 1}")
        if number < len(self._acts):
            await self._acts[number](connection)
        return f"call {number + 1}"


def buying(calls: Calls, **options: Any) -> Any:
    async def buy_it(connection: Any) -> str:
        return await calls(connection)

    @workflow
    def buy(ctx: Context) -> Flow[str]:
        paid = yield from ctx.options(**options).transaction(buy_it)
        yield from ctx.step(len, paid)
        return paid

    return buy


async def paid_once(stage: Stage, bank: Bank, calls: Calls, *, by: int) -> None:
    """A run of this ends by this call, without a failed attempt, and it alone is paid."""
    buy = buying(calls)
    async with stage.serving(buy) as client:
        run = await client.start(buy)
        assert await run.result(timeout=SOON) == f"call {by}"
    assert await bank.paid(run) == [f"call {by}"]
    assert calls.attempts == [1] * by
    assert (await entry(run)).attempts == 1
    await stage.no_gaps(run.id)


async def test_a_serialization_failure(postgres: Stage, bank: Bank) -> None:
    account = await bank.open_account(postgres.queue)

    async def withdraw(connection: Any) -> None:
        await connection.execute("update account set cents = cents - 10 where name = $1", account)

    class Isolated(Calls):
        async def __call__(self, connection: Any) -> str:
            await connection.execute("set transaction isolation level repeatable read")
            return await super().__call__(connection)

    async def collide_and_pay(connection: Any) -> None:
        await connection.fetchval("select cents from account where name = $1", account)
        await bank.connection.execute("update account set cents = cents + 1 where name = $1", account)
        await withdraw(connection)

    await paid_once(postgres, bank, Isolated(collide_and_pay, collide_and_pay, withdraw), by=3)
    assert await bank.cents(account) == 92


async def test_a_deadlock(postgres: Stage, bank: Bank) -> None:
    ours, theirs = [await bank.open_account(f"{postgres.queue}{side}") for side in "ab"]
    move = "update account set cents = cents - 10 where name = $1"

    async def cross(connection: Any) -> None:
        await connection.execute("set local deadlock_timeout = '20ms'")
        await connection.execute(move, ours)
        transaction = bank.connection.transaction()
        await transaction.start()
        await bank.connection.execute(move, theirs)
        waiting = asyncio.create_task(bank.connection.execute(move, ours))
        try:
            await connection.execute(move, theirs)
        finally:
            await waiting
            await transaction.commit()

    await paid_once(postgres, bank, Calls(cross), by=2)
    assert [await bank.cents(account) for account in (ours, theirs)] == [90, 90]


async def test_others_who_are_in_the_way_for_ever_make_it_a_failed_attempt(
    postgres: Stage, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runnerq.runtime.transacting.MOST", 2)

    async def collide(connection: Any) -> None:
        await connection.execute("do $$ begin raise exception 'could not serialize' using errcode = '40001'; end $$")

    calls = Calls(*[collide] * 9)
    buy = buying(calls, retry=1)
    async with postgres.serving(buy) as client:
        run = await client.start(buy)
        with pytest.raises(RunFailed, match="rolled back because of others: could not serialize") as failed:
            await run.result(timeout=SOON)
    assert (failed.value.error.type, len(calls.attempts)) == ("TransactionConflict", 2)
    assert await bank.paid(run) == []


# --- lost connections -------------------------------------------------------------------------------------------------


async def test_a_connection_that_is_lost_inside_of_the_function(postgres: Stage, bank: Bank) -> None:
    async def kill(connection: Any) -> None:
        await bank.connection.fetchval("select pg_terminate_backend($1, 5000)", await backend_of(connection))
        await connection.execute("select 1")

    await paid_once(postgres, bank, Calls(kill), by=2)


async def test_a_connection_that_is_lost_behind_the_last_write(postgres: Stage, bank: Bank, seams: Seams) -> None:
    async def kill(connection: Any) -> None:
        await bank.connection.fetchval("select pg_terminate_backend($1, 5000)", await backend_of(connection))

    seams.carried_out = once(kill)
    await paid_once(postgres.on(seams), bank, Calls(), by=2)


async def test_a_connection_that_is_lost_before_the_commit(postgres: Stage, bank: Bank, seams: Seams) -> None:
    seams.committing = once(lambda connection: connection.terminate())
    await paid_once(postgres.on(seams), bank, Calls(), by=2)


async def test_a_commit_whose_answer_is_lost(postgres: Stage, bank: Bank) -> None:
    from runnerq.persistence.postgres import PostgresStorage

    with open_folder() as folder:
        proxy = Proxy(folder, bank.dsn)
        rule = LosesEnd("enter_answer")
        async with Stage(PostgresStorage((await proxy.door("d")).dsn)).base as base:
            stage = postgres.on(base.storage)
            proxy.set(rule)
            await paid_once(stage, bank, Calls(), by=1)
            assert rule.lost
        await proxy.close()


async def test_a_commit_that_goes_on_when_its_connection_is_lost(postgres: Stage, bank: Bank, seams: Seams) -> None:
    # The lock that the trigger waits for is the test's: the commit is under way on the server.
    await bank.connection.execute("select pg_advisory_lock(4711)")
    connections: list[Any] = []

    async def slowly(connection: Any) -> None:
        await connection.execute("insert into slow values ('x')")

    seams.committing = connections.append
    calls = Calls(slowly)
    buy = buying(calls)
    async with postgres.on(seams).serving(buy) as client:
        run = await client.start(buy)
        await commit_waits(bank)
        connections[0].terminate()
        # The look waits for the lock of the run that the commit still has.
        async with asyncio.timeout(SOON):
            while not await bank.connection.fetchval(
                "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%for update%'"
                " and datname = current_database()"
            ):
                await asyncio.sleep(0.005)
        await bank.connection.execute("select pg_advisory_unlock(4711)")
        assert await run.result(timeout=SOON) == "call 1"
    assert await bank.paid(run) == ["call 1"]
    await postgres.no_gaps(run.id)


async def test_what_became_of_a_commit_is_looked_up_until_it_is_known(
    postgres: Stage, bank: Bank, seams: Seams
) -> None:
    tries = 0

    async def away() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise StorageUnavailable("the server is away")

    seams.committing = once(lambda connection: connection.terminate())
    seams.looking_up = away
    await paid_once(postgres.on(seams), bank, Calls(), by=2)
    assert tries == 3


async def test_a_storage_that_has_no_connection_burns_nothing(postgres: Stage, bank: Bank, seams: Seams) -> None:
    tries = 0

    async def away() -> None:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise StorageUnavailable("no connection can be had")

    seams.entering = away
    await paid_once(postgres.on(seams), bank, Calls(), by=1)
    assert tries == 4


async def test_a_worker_that_loses_its_lease_while_a_commit_is_unclear_leaves_it_to_the_next(
    postgres: Stage, bank: Bank, seams: Seams
) -> None:
    looks = Gate()

    async def away() -> None:
        looks.come.set()
        raise StorageUnavailable("the server is away")

    seams.committing = once(lambda connection: connection.terminate())
    seams.looking_up = away
    calls = Calls()
    buy = buying(calls)
    stale = postgres.on(seams).worker(buy, beat=60, shutdown_grace=0)
    async with stale:
        run = await postgres.client.start(buy)
        await looks.somebody()
        assert stale.worker_id is not None
        async with asyncio.timeout(SOON):
            # The server may not have seen yet that the connection is gone, which has the run's row locked.
            while not await postgres.storage.release(stale.worker_id, []):
                await asyncio.sleep(0.01)
        async with postgres.serving(buy):
            assert await run.result(timeout=SOON) == "call 2"
    assert await bank.paid(run) == ["call 2"]


# --- the run's row ----------------------------------------------------------------------------------------------------


async def test_a_run_whose_row_somebody_holds_waits_for_it(
    postgres: Stage, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runnerq.persistence.postgres.transactions.FENCE_PATIENCE", 0.1)
    transaction = bank.connection.transaction()

    async def hold(connection: Any) -> None:
        await transaction.start()
        await bank.connection.execute("select from runnerq.live where run_id = $1 for update", current().run_id)

    async def still(connection: Any) -> None:
        """It is held still."""

    async def let_go(connection: Any) -> None:
        await transaction.rollback()

    await paid_once(postgres, bank, Calls(hold, still, let_go), by=3)


async def test_a_function_that_holds_its_own_runs_row_is_run_alone(
    postgres: Stage, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runnerq.runtime.next_place.CROSSED", 0.2)
    gate = Gate()
    in_the_way = asyncio.Event()
    calls = 0

    async def hear(turns: Sequence[Turn], verdicts: list[Verdict]) -> None:
        if Verdict.BUSY in verdicts:
            in_the_way.set()

    tapped = Tapped(postgres.storage)
    tapped.after = hear

    async def hold(connection: Any) -> str:
        nonlocal calls
        calls += 1
        await pay(connection, f"call {calls}")
        # As a child that is started in the transaction does.
        await connection.execute("select from runnerq.live where run_id = $1 for key share", current().run_id)
        gate.come.set()
        await in_the_way.wait()
        return f"call {calls}"

    async def step() -> str:
        await gate.somebody()
        return "stepped"

    @workflow
    def buy(ctx: Context) -> Flow[list[str]]:
        return list((yield from ctx.all(ctx.transaction(hold), ctx.step(step))))

    async with postgres.on(tapped).serving(buy) as client:
        run = await client.start(buy)
        assert await run.result(timeout=SOON) == ["call 2", "stepped"]
    assert await bank.paid(run) == ["call 2"]
    assert (await entry(run, "1.0")).attempts == 1
    await postgres.no_gaps(run.id)


# --- at random --------------------------------------------------------------------------------------------------------


async def test_under_kills_and_conflicts_at_random_all_is_paid_once(postgres: Stage, bank: Bank) -> None:
    names = [await bank.open_account(f"{postgres.queue}{number}", 1000) for number in range(3)]
    backends: dict[str, int] = {}

    async def transfer(connection: Any, source: str, target: str) -> None:
        await connection.execute("set transaction isolation level serializable; set local deadlock_timeout = '5ms'")
        backends[current().idempotency_key] = await backend_of(connection)
        move = "update account set cents = cents + $2 where name = $1"
        await connection.execute(move, source, -1)
        await pay(connection, current().entry)
        await connection.execute(move, target, 1)
        backends.pop(current().idempotency_key, None)

    def branch(ctx: Context, start: int) -> Flow[None]:
        for number in range(3):
            source, target = names[(start + number) % 3], names[(start + 2 * number + 1) % 3]
            yield from ctx.options(retry=50).transaction(transfer, source, target)

    @workflow
    def buy(ctx: Context) -> Flow[None]:
        yield from ctx.all(branch(ctx, 0), branch(ctx, 1))

    async def kill() -> None:
        # So many and no more: where each takes longer than it is from one to the next, none would come to its end.
        kills = 0
        while kills < 20:
            await asyncio.sleep(0.02)
            for key, backend in list(backends.items())[:1]:
                del backends[key]
                kills += 1
                await bank.connection.fetchval("select pg_terminate_backend($1)", backend)

    async with postgres.serving(buy) as client:
        runs = [await client.start(buy) for _ in range(4)]
        killing = asyncio.create_task(kill())
        for run in runs:
            await run.result(timeout=2 * SOON)
        killing.cancel()
        await asyncio.wait({killing})
    for run in runs:
        assert await bank.paid(run) == sorted(f"1.{side}.{number}" for side in (0, 1) for number in (1, 2, 3))
        await postgres.no_gaps(run.id)
    assert sum([await bank.cents(name) for name in names]) == 3000
