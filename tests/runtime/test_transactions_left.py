"""What a transaction's function leaves behind: in its session, at its commit, and where its worker is no more."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from runnerq.errors import RunFailed
from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from tests.persistence.postgres.interleaving import writes_on
from tests.runtime.bank import Bank, backend_of, bank, opened, pay, postgres
from tests.runtime.stage import SOON, Gate, Stage
from tests.runtime.test_transactions import SOON_AGAIN

__all__ = ["bank", "opened", "postgres"]

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Left:
    """Two transactions, one after the other, and on one session if that is kept: what one leaves, and what is found."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def found(self, leave: Any, look: Any) -> tuple[bool, Any]:
        """Whether the session was kept, and what the second function found."""

        async def first(connection: Any) -> int:
            await leave(connection)
            return await backend_of(connection)

        async def second(connection: Any) -> list[Any]:
            return [await backend_of(connection), await look(connection)]

        @workflow
        def both(ctx: Context) -> Flow[list[Any]]:
            one = yield from ctx.options(retry=1).transaction(first)
            return [one, *(yield from ctx.options(retry=1).transaction(second))]

        one, two, found = await self._stage.answer(both)
        return one == two, found


@pytest.fixture
def left(postgres: Stage, bank: Bank) -> Left:
    return Left(postgres)


async def test_a_role_a_table_and_a_statement_that_it_leaves_are_gone(left: Left, bank: Bank) -> None:
    async def leave(connection: Any) -> None:
        await connection.execute("create temp table left_over (x int); prepare left_statement as select 1")
        await connection.execute("set role tenant; set session authorization tenant; reset role")

    async def look(connection: Any) -> list[Any]:
        return [
            await connection.fetchval("select current_user = session_user and current_user <> 'tenant'"),
            await connection.fetchval("select to_regclass('left_over')::text"),
            await connection.fetchval("select count(*) from pg_prepared_statements where from_sql"),
        ]

    await bank.connection.execute("create role tenant")
    await bank.connection.execute("grant all on schema runnerq to tenant")
    await bank.connection.execute("grant all on all tables in schema runnerq to tenant")
    try:
        assert await left.found(leave, look) == (True, [True, None, 0])
    finally:
        await bank.connection.execute("drop owned by tenant; drop role tenant")


async def test_codecs_that_it_sets_are_its_own_and_so_are_listeners(left: Left) -> None:
    async def codecs(connection: Any) -> None:
        for name in ("jsonb", "int4", "bool"):
            await connection.set_type_codec(name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")

    async def listen(connection: Any) -> None:
        await connection.add_listener("left_over", print)

    async def look(connection: Any) -> list[Any]:
        return [
            type(await connection.fetchval("select '{}'::jsonb")).__name__,
            await connection.fetchval("select count(*) from pg_listening_channels()"),
        ]

    # What only the driver could undo costs a new connection.
    for leave in (codecs, listen):
        assert await left.found(leave, look) == (False, ["str", 0])


async def test_a_statement_that_it_has_prepared_is_of_no_use_to_anybody_later(left: Left) -> None:
    kept: list[Any] = []

    async def leave(connection: Any) -> None:
        kept.append(await connection.prepare("insert into payment (run, note) values ('', 'a stranger')"))
        kept.append(connection.transaction())

    async def look(connection: Any) -> int:
        with pytest.raises(asyncpg.InterfaceError, match="released back to the pool"):
            await kept[0].fetch()
        with pytest.raises(asyncpg.InterfaceError, match="released back to the pool"):
            await kept[1].start()
        return int(await connection.fetchval("select count(*) from payment where note = 'a stranger'"))

    assert await left.found(leave, look) == (True, 0)


async def test_a_role_in_which_its_entry_cannot_be_written_is_told(postgres: Stage, bank: Bank) -> None:
    back = False

    async def narrow(connection: Any) -> None:
        await connection.execute("set local role pg_monitor")
        if back:
            await connection.execute("reset role")

    @workflow
    def buy(ctx: Context) -> Flow[None]:
        yield from ctx.options(retry=1).transaction(narrow)

    with pytest.raises(RunFailed, match="`reset role` before it returns"):
        await postgres.answer(buy)
    back = True
    assert await postgres.answer(buy) is None


async def test_a_transaction_that_was_made_read_only_is_told_so(postgres: Stage, bank: Bank) -> None:
    async def look(connection: Any) -> None:
        await connection.execute("set transaction read only")

    @workflow
    def buy(ctx: Context) -> Flow[None]:
        yield from ctx.options(retry=1).transaction(look)

    with pytest.raises(RunFailed, match="the function has made it read-only"):
        await postgres.answer(buy)


@pytest.mark.parametrize("state", ["UE001", "42703", "57014", "55P03", "53100"])
async def test_an_error_of_a_trigger_at_the_commit_is_a_failure_of_the_function_whatever_its_code(
    postgres: Stage, bank: Bank, state: str
) -> None:
    attempts: list[int] = []
    await bank.connection.execute(f"""
        create table strict (x int);
        create function refuse() returns trigger language plpgsql as $$
        begin
            raise exception 'not allowed' using errcode = '{state}';
        end $$;
        create constraint trigger strictly after insert on strict
            deferrable initially deferred for each row execute function refuse();
    """)

    async def forge(connection: Any) -> None:
        attempts.append(current().attempt)
        await pay(connection, "never")
        await connection.execute("insert into strict values (1)")

    @workflow
    def buy(ctx: Context) -> Flow[None]:
        yield from ctx.options(retry=SOON_AGAIN).transaction(forge)

    try:
        async with postgres.serving(buy) as client:
            run = await client.start(buy)
            with pytest.raises(RunFailed, match="not allowed"):
                await run.result(timeout=SOON)
    finally:
        await bank.connection.execute("drop table strict; drop function refuse")
    assert attempts == [1, 2, 3]
    assert await bank.paid(run) == []


@pytest.mark.parametrize("how", ["terminate", "cancel"])
async def test_rows_that_a_worker_which_stands_still_has_locked_are_free_when_its_run_is_not_its_own(
    postgres: Stage, bank: Bank, how: str
) -> None:
    # Nobody repeats the transaction: the run is over without it.
    account = await bank.open_account(f"{postgres.queue}")
    gate = Gate()

    async def hold(connection: Any) -> None:
        await connection.execute("update account set cents = 0 where name = $1", account)
        await gate.pass_through()

    @workflow
    def buy(ctx: Context) -> Flow[None]:
        yield from ctx.transaction(hold)

    stale = postgres.worker(buy, beat=60)
    async with stale:
        run = await postgres.client.start(buy)
        await gate.somebody()
        assert stale.worker_id is not None
        if how == "terminate":
            await postgres.storage.terminate([run.id])
        else:
            # Without a word to the worker, which does not stand still in truth.
            await writes_on(postgres.storage, bank.connection).cancel([run.id])
            await bank.connection.execute(
                "update runnerq.worker set beat_at = now() - interval '1 day' where id = $1", stale.worker_id
            )
            assert [reaped.run_id for reaped in await postgres.storage.reap(1, 1, 100)] == [run.id]
        async with asyncio.timeout(SOON):
            await bank.connection.execute("update account set cents = 7 where name = $1", account)
        gate.open()
    assert await bank.cents(account) == 7
