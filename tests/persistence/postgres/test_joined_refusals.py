"""Starts in a transaction that is none, is broken, leads elsewhere, or is set up in ways of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any

import asyncpg
import psycopg
import pytest
import pytest_asyncio
import sqlalchemy.exc
import sqlalchemy.orm
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from runnerq.client.client import Client
from runnerq.client.connect import connect
from runnerq.client.handle import Handle
from runnerq.errors import SchemaError, StorageRefused, UsageError
from runnerq.ids import new_run_id
from runnerq.persistence.postgres.adapters import of_texts
from runnerq.persistence.postgres.statements import Statements
from runnerq.persistence.records import RunFilter, Verdict
from runnerq.testing.conformance.world import COMPLETED, a_holder, a_run
from runnerq.workflow.declare import activity
from tests.persistence.postgres.borrowing import DRIVERS, WAYS, RollBack, engine_of
from tests.postgres import execute, fetch_value, fresh_database

pytestmark = pytest.mark.asyncio(loop_scope="module")

ABORTED = (
    asyncpg.InFailedSQLTransactionError,
    psycopg.errors.InFailedSqlTransaction,
    sqlalchemy.exc.DBAPIError,
)

each_driver = pytest.mark.parametrize("way", DRIVERS)


@activity
async def ship(order: str, cents: int = 0) -> str:
    return f"{order} shipped"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(module_database: str) -> AsyncIterator[Client]:
    async with connect(module_database) as client:
        yield client


@pytest.fixture
def queue() -> str:
    """Where nothing has been started yet."""
    return new_run_id()


async def started(client: Client, queue: str) -> int:
    return await client.count(RunFilter(queue=queue))


class TestNoTransaction:
    async def test_on_asyncpg_each_statement_would_be_a_commit_so_it_is_refused(
        self, client: Client, module_database: str, queue: str
    ) -> None:
        connection = await asyncpg.connect(module_database)
        with pytest.raises(UsageError, match="no open transaction.*async with connection.transaction"):
            await client.options(queue=queue, connection=connection).start(ship, "cup")
        await connection.close()
        assert await started(client, queue) == 0

    async def test_nor_on_psycopg_in_autocommit(self, client: Client, module_database: str) -> None:
        async with await psycopg.AsyncConnection.connect(module_database, autocommit=True) as connection:
            with pytest.raises(UsageError, match="autocommit.*async with connection.transaction"):
                await client.options(connection=connection).send(new_run_id(), "go", 1)

    @pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
    async def test_nor_on_sqlalchemy_in_autocommit(
        self, client: Client, module_database: str, queue: str, driver: str
    ) -> None:
        engine = engine_of(module_database, driver, isolation_level="AUTOCOMMIT")
        async with engine.connect() as connection, AsyncSession(engine) as session:
            for each in (connection, session):
                with pytest.raises(UsageError, match="AUTOCOMMIT"):
                    await client.options(queue=queue, connection=each).start(ship, "cup")
        await engine.dispose()
        assert await started(client, queue) == 0

    async def test_on_a_closed_connection_there_is_none(self, client: Client, module_database: str) -> None:
        engine = engine_of(module_database, "psycopg")
        one, other = await asyncpg.connect(module_database), await psycopg.AsyncConnection.connect(module_database)
        async with engine.connect() as third:
            pass
        await one.close()
        await other.close()
        for connection in (one, other, third):
            with pytest.raises(UsageError, match="closed"):
                await client.options(connection=connection).start(ship, "cup")
        await engine.dispose()

    async def test_nor_on_one_that_was_given_back_to_its_pool(self, client: Client, module_database: str) -> None:
        async with asyncpg.create_pool(module_database, min_size=0) as pool:
            async with pool.acquire() as connection:
                pass
            with pytest.raises(UsageError, match="given back"):
                await client.options(connection=connection).start(ship, "cup")


class TestNoConnection:
    @pytest.mark.parametrize(
        ("make", "said"),
        [
            (lambda dsn: dsn, "'str'"),
            (lambda dsn: asyncpg.create_pool(dsn, min_size=0), "pool.acquire"),
            (lambda dsn: create_async_engine("postgresql+psycopg://"), "engine.begin"),
            (lambda dsn: async_sessionmaker(), "sessions.begin"),
            (lambda dsn: sqlalchemy.orm.Session(), "AsyncSession"),
        ],
        ids=["text", "pool", "engine", "sessionmaker", "sync session"],
    )
    async def test_what_it_is_and_what_to_give_instead_are_said(
        self, client: Client, module_database: str, make: Callable[[str], Any], said: str
    ) -> None:
        with pytest.raises(UsageError, match=f"connection= takes .*{said}"):
            await client.options(connection=make(module_database)).start(ship, "cup")

    async def test_a_connection_for_threads_is_none(self, client: Client, module_database: str) -> None:
        with psycopg.connect(module_database) as connection, pytest.raises(UsageError, match="for threads"):
            await client.options(connection=connection).start(ship, "cup")

    async def test_only_starts_and_sends_are_part_of_a_transaction(self, client: Client, module_database: str) -> None:
        run = await client.start(ship, "cup")
        async with WAYS["asyncpg"](module_database) as mine:
            joined = client.options(connection=mine.connection)
            for asked in (joined.cancel(run.id), joined.info(run.id), joined.delete(run.id), joined.list()):
                with pytest.raises(UsageError, match="only start, start_many and send"):
                    await asked
            with pytest.raises(UsageError):
                await joined.open()
            with pytest.raises(UsageError):
                await joined.close()


class TestErrors:
    @each_driver
    async def test_in_an_aborted_transaction_the_drivers_own_error_is_raised(
        self, client: Client, module_database: str, queue: str, way: str
    ) -> None:
        with suppress(RollBack):
            async with WAYS[way](module_database) as mine:
                with pytest.raises(Exception, match="division by zero"):
                    await mine.execute("select 1/0")
                with pytest.raises(ABORTED):
                    await client.options(queue=queue, connection=mine.connection).start(ship, "cup")
                raise RollBack
        assert await started(client, queue) == 0

    @each_driver
    async def test_where_the_tables_are_not_it_is_said_where_the_connection_must_lead(
        self, client: Client, postgres_dsn: str, way: str
    ) -> None:
        # The server's own database, in which nobody has made the tables.
        with suppress(RollBack):
            async with WAYS[way](postgres_dsn) as mine:
                with pytest.raises(SchemaError, match="missing where connection= leads to.*client's own database"):
                    await client.options(connection=mine.connection).start(ship, "cup")
                raise RollBack

    async def test_a_connection_to_another_database_with_the_same_tables_is_refused(
        self, client: Client, postgres_dsn: str
    ) -> None:
        with fresh_database(postgres_dsn) as elsewhere:
            async with connect(elsewhere) as other:
                with pytest.raises(UsageError, match="leads to database .*nobody would take up"):
                    async with WAYS["psycopg"](elsewhere) as mine:
                        await client.options(connection=mine.connection).start(ship, "cup")
                assert await other.count() == 0

    async def test_data_that_postgres_refuses_is_storage_refused(self, client: Client, module_database: str) -> None:
        async with WAYS["session-asyncpg"](module_database) as mine:
            joined = client.options(connection=mine.connection)
            with pytest.raises(StorageRefused):
                await joined.send(new_run_id(), "nul \0", 1)

    async def test_a_serialization_failure_is_the_drivers_own_and_the_transaction_can_be_run_again(
        self, client: Client, module_database: str
    ) -> None:
        key = new_run_id()
        first: list[Handle[str]] = []

        async def overtaken() -> None:
            async with WAYS["asyncpg"](module_database) as mine:
                await mine.execute("set transaction isolation level repeatable read")
                await mine.execute("select 1")
                first.append(await client.options(key=key).start(ship, "cup"))
                await client.options(key=key, connection=mine.connection).start(ship, "cup")

        with pytest.raises(asyncpg.SerializationError):
            await overtaken()
        async with WAYS["asyncpg"](module_database) as mine:
            again = await client.options(key=key, connection=mine.connection).start(ship, "cup")
        assert (again.id, again.created) == (first[0].id, False)


class TestHeld:
    async def test_a_run_that_was_sent_to_is_written_once_the_sender_is_done(
        self, client: Client, module_database: str
    ) -> None:
        holder = await a_holder(client.storage)
        run = await holder.start(a_run())
        async with WAYS["psycopg"](module_database) as mine:
            await client.options(connection=mine.connection).send(run.id, "go", 1)
            assert await holder.commit(run, COMPLETED) is Verdict.BUSY
        assert await holder.commit(run, COMPLETED) is Verdict.DONE

    async def test_opposite_orders_are_a_deadlock_that_the_driver_tells(
        self, client: Client, module_database: str
    ) -> None:
        ids = [(await client.start(ship, "cup")).id for _ in range(2)]
        ready = asyncio.Barrier(2)

        async def send_to(first: str, second: str) -> None:
            async with WAYS["asyncpg"](module_database) as mine:
                await mine.execute("set local deadlock_timeout = '20ms'")
                joined = client.options(connection=mine.connection)
                await joined.send(first, "go", 1)
                await ready.wait()
                await joined.send(second, "go", 1)

        ends = await asyncio.gather(send_to(*ids), send_to(*reversed(ids)), return_exceptions=True)
        assert {type(end) for end in ends} == {type(None), asyncpg.DeadlockDetectedError}
        assert [len(await client.storage.mailbox(run_id)) for run_id in ids] == [1, 1]

    async def test_whoever_wants_a_key_that_is_being_claimed_waits_and_holds_up_nobody_else(
        self, client: Client, module_database: str
    ) -> None:
        key = new_run_id()
        async with WAYS["asyncpg"](module_database) as mine:
            first = await client.options(key=key, connection=mine.connection).start(ship, "cup")
            crowd = [asyncio.create_task(client.options(key=key).start(ship, "cup")) for _ in range(12)]
            for number in range(20):
                others = [
                    await client.options(key=f"{key}-{number}").start(ship, "mug"),
                    await client.start(ship, "jug"),
                ]
                assert all(run.created for run in others)
            assert not any(task.done() for task in crowd)
        found = await asyncio.gather(*crowd)
        assert {(run.id, run.created) for run in found} == {(first.id, False)}


class TestSetUps:
    async def test_codecs_of_the_callers_own_are_for_the_callers_statements(
        self, client: Client, module_database: str
    ) -> None:
        connection = await asyncpg.connect(module_database)
        for kind in ("json", "uuid", "timestamptz"):
            await connection.set_type_codec(kind, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
        async with connection.transaction():
            joined = client.options(connection=connection)
            runs = [
                await joined.options(metadata={"a": "1"}, delay=5).start(ship, "cup", cents=950),
                await joined.options(key=new_run_id(), signals=[("go", {"a": None})]).start(ship, "cup"),
            ]
        await connection.close()
        assert [(await run.info()).metadata for run in runs] == [{"a": "1"}, {}]

    async def test_a_pipeline_of_psycopgs_is_as_good(self, client: Client, module_database: str) -> None:
        async with await psycopg.AsyncConnection.connect(module_database) as connection, connection.pipeline():
            joined = client.options(connection=connection)
            runs = [await joined.start(ship, "cup"), await joined.options(key=new_run_id()).start(ship, "cup")]
        assert [(await run.info()).workflow for run in runs] == ["ship"] * 2

    @pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
    async def test_an_engine_may_have_rows_come_in_pieces(
        self, client: Client, module_database: str, driver: str
    ) -> None:
        engine = engine_of(module_database, driver, execution_options={"stream_results": True, "yield_per": 1})
        async with engine.begin() as connection:
            runs = await client.options(connection=connection).start_many(
                ship, [("cup",)] * 3, keys=[new_run_id() for _ in range(3)]
            )
        await engine.dispose()
        assert [run.created for run in runs] == [True] * 3

    @pytest.mark.parametrize("way", ["asyncpg", "sqlalchemy-psycopg"])
    async def test_a_schema_of_another_name_and_its_own_channel(self, module_database: str, way: str) -> None:
        async with connect(module_database, schema="shop_runs") as client:
            async with WAYS[way](module_database) as mine:
                await mine.execute("set local search_path to information_schema")
                run = await client.options(connection=mine.connection).start(ship, "100% cup")
            assert (await run.info()).workflow == "ship"
            found = await fetch_value(module_database, f"select count(*) from shop_runs.run where id = '{run.id}'")
            assert found == 1

    async def test_a_role_that_may_not_write_is_told_so(self, client: Client, module_database: str) -> None:
        role = f"guest_{new_run_id().replace('-', '')[:12]}"
        await execute(module_database, f"create role {role}")
        try:
            with suppress(RollBack):
                async with WAYS["asyncpg"](module_database) as mine:
                    await mine.execute(f"set local role {role}")
                    with pytest.raises(SchemaError, match="not open to its role"):
                        await client.options(connection=mine.connection).start(ship, "cup")
                    raise RollBack
        finally:
            await execute(module_database, f"drop role {role}")

    @pytest.mark.parametrize("name", ["start_alike", "start_runs", "start_runs_plain", "send_signals", "notify_joined"])
    async def test_a_statement_gives_every_parameter_a_type_so_that_texts_will_do(self, name: str) -> None:
        text = of_texts(Statements("runnerq")[name])
        numbers: Sequence[str] = text.split("$")[1:]
        assert numbers
        assert [number for number in numbers if not number.lstrip("0123456789").startswith("::text")] == []
