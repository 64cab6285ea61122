"""The schema: made, checked, refused, and made by several at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest

from runnerq.errors import ConfigurationError, SchemaError, StorageUnavailable
from runnerq.ids import new_run_id
from runnerq.persistence.postgres import PostgresStorage, schema
from runnerq.persistence.postgres.statements import migrations
from runnerq.persistence.records import Park, Reopen, Sent, Turn, Verdict, WorkerRow
from runnerq.testing.conformance.world import COMPLETED, a_holder, a_run, a_signal, look
from tests.persistence.postgres.watching import WAITS, backend_that
from tests.postgres import execute, fetch_value, run_apart

NEWEST = max(migrations())
A_FAILURE = (
    "insert into runnerq.outcome (run_id, token, ended_at, started_at, status)"
    " select gen_random_uuid(), 1, now(), now(), 'failed'"
)


@pytest.fixture
def database(empty_database: str) -> str:
    return empty_database


async def test_opening_makes_the_schema_and_opening_again_leaves_it(database: str) -> None:
    for _ in range(2):
        async with _opened(PostgresStorage(database)) as storage:
            await storage.start([a_run()])
    async with _connected(database) as connection:
        applied = await connection.fetch("select version, name from runnerq.migration order by version")
        assert [tuple(row) for row in applied] == [(number, file.stem) for number, file in migrations().items()]
        assert await connection.fetchval("select count(*) from runnerq.run") == 2


async def test_the_numbers_of_migrations_have_no_gap() -> None:
    assert list(migrations()) == list(range(1, NEWEST + 1))


async def test_first_starts_at_once_are_safe(database: str) -> None:
    storages = [PostgresStorage(database) for _ in range(5)]
    await asyncio.gather(*(storage.open() for storage in storages))
    await asyncio.gather(*(storage.start([a_run()]) for storage in storages))
    await asyncio.gather(*(storage.close() for storage in storages))


async def test_a_first_start_that_fails_leaves_nothing(database: str) -> None:
    # A table in the way of the last statements of the first migration.
    await execute(database, "create schema runnerq; create table runnerq.sweep (mine text)")
    with pytest.raises(SchemaError, match=r"could not be migrated.*sweep"):
        await PostgresStorage(database).open()
    async with _connected(database) as connection:
        tables = await connection.fetch("select tablename from pg_tables where schemaname = 'runnerq'")
        assert [row["tablename"] for row in tables] == ["sweep"]


async def test_two_schemas_of_one_database_have_nothing_in_common(database: str) -> None:
    one, other = PostgresStorage(database), PostgresStorage(database, schema="order")
    async with _opened(one), _opened(other):
        new = a_run(key="k")
        await one.start([new])
        assert await other.run(new.id) is None
        assert await other.by_key("order", "k") is None
        holder = await a_holder(other)
        run = await holder.start(a_run(key="k"))
        await holder.commit(run, COMPLETED)
        assert (await look(other, run.id)).status == "completed"
        assert (await look(one, new.id)).status == "pending"


async def test_a_schema_that_is_missing_is_an_error_where_it_may_only_be_checked(database: str) -> None:
    with pytest.raises(SchemaError, match=r"schema 'runnerq' is missing.*migrate=True"):
        await PostgresStorage(database, migrate=False).open()
    async with _connected(database) as connection:
        assert await connection.fetchval("select to_regnamespace('runnerq')") is None


async def test_a_schema_that_is_there_is_checked(database: str) -> None:
    async with _opened(PostgresStorage(database)):
        pass
    async with _opened(PostgresStorage(database, migrate=False)) as storage:
        await storage.start([a_run()])


@pytest.mark.parametrize("migrate", [True, False])
async def test_a_schema_newer_than_the_code_is_refused(database: str, migrate: bool) -> None:
    async with _opened(PostgresStorage(database)):
        pass
    await execute(database, f"insert into runnerq.migration (version, name) values ({NEWEST + 1}, 'later')")
    with pytest.raises(SchemaError, match=rf"at version {NEWEST + 1} .* none beyond {NEWEST}.*upgrade"):
        await PostgresStorage(database, migrate=migrate).open()


async def test_a_schema_older_than_the_code_is_an_error_where_it_may_only_be_checked(database: str) -> None:
    async with _opened(PostgresStorage(database)):
        pass
    await execute(database, "delete from runnerq.migration")
    with pytest.raises(SchemaError, match="migrate=True"):
        await PostgresStorage(database, migrate=False).open()


class TestFromTheFirstVersion:
    """A database that the first migration made, with rows in it, under this code."""

    PARKED, READY, HELD, BLOCKED, ENDED = (new_run_id() for _ in range(5))

    @pytest.fixture
    async def old(self, database: str) -> str:
        """Its DSN."""
        async with _connected(database) as connection:
            await connection.execute("create schema runnerq")
            await connection.execute(migrations()[1].read_text("utf-8"))
            await connection.execute(
                f"""
                create table runnerq.migration (
                    version integer primary key, name text not null, applied_at timestamptz not null default now());
                insert into runnerq.migration (version, name) values (1, '{migrations()[1].stem}');
                insert into runnerq.worker (id, beat_at, registered_at, lease, pid, host, build, queues, served)
                values (1, now(), now() - interval '1 day', 60, 1, 'h', 'b0', '{{}}', '{{}}'),
                       (2, now(), now() - interval '2 days', 60, 1, 'h', 'b0', '{{}}', '{{}}');
                insert into runnerq.run (id, version, priority, depth, kind, name, queue, input)
                select id, 1, 2, 0, 'workflow', 'order', 'q', '[]'
                from unnest('{{{self.PARKED},{self.READY},{self.HELD},{self.BLOCKED},{self.ENDED}}}'::uuid[]) as r(id);
                insert into runnerq.live (
                    run_id, token, worker_id, rank, priority, state, queue, served, wants_signals, parked_at)
                values ('{self.PARKED}', 5, null, now(), 2, 'waiting', 'q', 'order@1', '{{go}}', now()),
                       ('{self.READY}', 0, null, now(), 2, 'pending', 'q', 'order@1', null, null),
                       ('{self.HELD}', 7, 1, now(), 2, 'running', 'q', 'order@1', null, null),
                       ('{self.BLOCKED}', 8, null, now(), 2, 'blocked', 'q', 'order@1', null, null);
                insert into runnerq.block (run_id, at, builds, message) values ('{self.BLOCKED}', now(), '{{b0}}', 'm');
                insert into runnerq.outcome (run_id, token, ended_at, started_at, status, error)
                values ('{self.ENDED}', 9, now(), now(), 'failed', '{{}}');
                insert into runnerq.journal (run_id, token, at, generation, place, kind, position, value)
                select run_id, 7, now(), 1, 0, 'started', '', '"s"' from runnerq.live where state <> 'pending'
                """
            )
        return database

    async def test_what_is_open_goes_on(self, old: str) -> None:
        async with _opened(PostgresStorage(old)) as storage:
            holder = await a_holder(storage)
            assert await storage.send([a_signal(self.PARKED)]) == [Sent.SENT]
            assert await storage.unblock("b1", ["order@1"], 10) == 1
            claimed = {run.id: run for run in (await holder.claim()).runs}
            assert sorted(claimed) == sorted([self.PARKED, self.READY, self.BLOCKED])
            assert {run.faults for run in claimed.values()} == {0}
            for run in claimed.values():
                assert await holder.commit(run, Park(signals=("x",), stack=("here",))) in {Verdict.DONE, Verdict.AGAIN}
            turn = Turn(run_id=self.HELD, token=7, seen=0, move=COMPLETED)
            assert await storage.commit([turn]) == [Verdict.DONE]
            assert (await look(storage, self.HELD)).started == '"s"'

    async def test_what_has_failed_can_be_opened_again(self, old: str) -> None:
        async with _opened(PostgresStorage(old)) as storage:
            assert await storage.reopen(Reopen(run_id=self.ENDED, generation=1, status="failed"))
            assert self.ENDED in await (await a_holder(storage)).ready()

    async def test_a_build_is_as_old_as_its_first_worker_that_is_known(self, old: str) -> None:
        async with _opened(PostgresStorage(old)) as storage:
            row = WorkerRow(id=3, lease=60, host="h", pid=1, build="b0", queues=(), served=())
            registered = await storage.register(row, [])
            assert timedelta(days=2) <= registered.now - registered.build_seen < timedelta(days=3)


class TestIndexes:
    """A database in use, under this code, which wants more indexes of its tables."""

    INDEXES = ("live_unnamed", "outcome_unwell", "outcome_xid", "run_xid")

    @pytest.fixture
    async def old(self, database: str) -> str:
        """The DSN of one of version 2."""
        await _migrated(database, 2)
        return database

    @pytest.fixture
    async def altered(self, database: str) -> str:
        """The DSN of one that lacks nothing but the indexes."""
        await _migrated(database, 3)
        return database

    async def test_they_are_built_while_somebody_writes_into_their_tables(self, altered: str) -> None:
        async with _connected(altered) as writer, _connected(altered) as other, asyncio.timeout(30):
            async with writer.transaction():
                await writer.execute(A_FAILURE)
                building = asyncio.create_task(_open_and_close(altered))
                await _who_waits_to_build(other, "outcome_xid")
                # The build waits for that transaction, and nobody for the build.
                for table in ("run", "outcome", "live"):
                    await other.execute(f"begin; lock table runnerq.{table} in row exclusive mode nowait; rollback")
                assert not building.done()
            await building
        assert await _valid_indexes(altered, self.INDEXES) == list(self.INDEXES)

    async def test_one_whose_building_was_broken_off_is_built_anew(self, altered: str) -> None:
        async with (
            _connected(altered) as writer,
            _connected(altered) as other,
            asyncio.timeout(30),
            writer.transaction(),
        ):
            await writer.execute(A_FAILURE)
            stopped = asyncio.create_task(_open_and_close(altered))
            builder = await _who_waits_to_build(other, "outcome_xid")
            await other.execute("select pg_terminate_backend($1)", builder)
            with pytest.raises(StorageUnavailable):
                await stopped
        assert await fetch_value(altered, "select count(*) from pg_index where not indisvalid") == 1
        await _open_and_close(altered)
        assert await _valid_indexes(altered, self.INDEXES) == list(self.INDEXES)
        assert await fetch_value(altered, "select max(version) from runnerq.migration") == NEWEST

    async def test_several_at_once_build_them_once(self, old: str) -> None:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(_open_and_close(old))
        assert await _valid_indexes(old, self.INDEXES) == list(self.INDEXES)

    @pytest.mark.parametrize("broken", [False, True])
    async def test_a_person_does_the_same_with_plain_sql(self, old: str, broken: bool) -> None:
        statements = schema.script("runnerq", 2).split(";\n\n")
        async with _connected(old) as connection:
            for statement in statements:
                await connection.execute(statement)
                if broken and "outcome_unwell" in statement and statement.startswith("create"):
                    await connection.execute("update pg_index set indisvalid = false"
                                             " where indexrelid = 'runnerq.outcome_unwell'::regclass")  # fmt: skip
                    for again in statements[statements.index("commit") + 1 :]:
                        await connection.execute(again)
                    break
        async with _opened(PostgresStorage(old, migrate=False)):
            pass
        assert await _valid_indexes(old, self.INDEXES) == list(self.INDEXES)

    async def test_it_comes_to_the_same_schema_as_one_that_is_made_anew(self, old: str) -> None:
        async with _opened(PostgresStorage(old)), _opened(PostgresStorage(old, schema="other")):
            pass
        async with _connected(old) as connection:
            shapes = [await _shape(connection, name) for name in ("runnerq", "other")]
        assert shapes[0] == shapes[1]


class TestWhileOthersWork:
    """A migration yet to come, which changes the table that everything goes through."""

    @pytest.fixture
    async def there(self, database: str) -> AsyncIterator[PostgresStorage]:
        """Whoever works with the schema as it is."""
        async with _opened(PostgresStorage(database)) as storage:
            yield storage

    @pytest.fixture
    def to_come(self, there: PostgresStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = tmp_path / f"{NEWEST + 1:04}_to_come.sql"
        file.write_text("alter table runnerq.live add column later text")
        monkeypatch.setattr(schema, "migrations", lambda: {**migrations(), NEWEST + 1: file})
        monkeypatch.setattr(schema, "LOCK_TIMEOUT", "200ms")

    @pytest.mark.usefixtures("to_come")
    async def test_what_runs_goes_on_during_and_after_it(self, there: PostgresStorage, database: str) -> None:
        holder = await a_holder(there)
        held = await holder.start(a_run())
        done = asyncio.Event()

        async def work() -> int:
            count = 0
            while not done.is_set():
                run = await holder.start(a_run())
                assert await holder.commit(run, COMPLETED) is Verdict.DONE
                count += 1
            return count

        async with asyncio.TaskGroup() as group:
            working = group.create_task(work())
            async with _opened(PostgresStorage(database)), _opened(PostgresStorage(database)):
                done.set()
        assert working.result() > 0
        # Its statements were made for the schema as it was, and are kept.
        assert await holder.commit(held, COMPLETED) is Verdict.DONE
        assert await fetch_value(database, "select max(version) from runnerq.migration") == NEWEST + 1

    @pytest.mark.usefixtures("to_come")
    async def test_it_lets_the_others_by_while_a_long_transaction_holds_its_table(
        self, there: PostgresStorage, database: str
    ) -> None:
        holder = await a_holder(there)
        async with _connected(database) as long:
            async with long.transaction():
                await long.execute("select from runnerq.live")
                migrating = asyncio.create_task(PostgresStorage(database).open())
                await backend_that(long, WAITS)
                async with asyncio.timeout(20):
                    # Whoever comes after a migration that waits would wait with it, as long as the transaction lasts.
                    run = await holder.start(a_run())
                    assert await holder.commit(run, COMPLETED) is Verdict.DONE
                assert not migrating.done()
            await migrating
        assert await fetch_value(database, "select max(version) from runnerq.migration") == NEWEST + 1

    @pytest.mark.usefixtures("to_come")
    async def test_it_gives_up_in_the_end_and_leaves_everything_as_it_was(
        self, database: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(schema, "LOCK_PATIENCE", 0.0)
        async with _connected(database) as long, long.transaction():
            await long.execute("select from runnerq.live")
            with pytest.raises(
                StorageUnavailable, match=r"could not be migrated within 0 s, and was left as it is: .*"
            ):
                await PostgresStorage(database).open()
        assert await fetch_value(database, "select max(version) from runnerq.migration") == NEWEST

    @pytest.mark.usefixtures("to_come")
    async def test_two_that_migrate_wait_for_each_other_however_long_it_takes(self, database: str) -> None:
        async with _connected(database) as first:
            async with first.transaction():
                await first.execute("select pg_advisory_xact_lock($1, hashtext('runnerq'))", schema._LOCK)
                second = asyncio.create_task(PostgresStorage(database).open())
                await backend_that(first, WAITS)
                # Longer than it would wait for a table.
                await first.execute("select pg_sleep(0.5)")
                assert not second.done()
            await second
        assert await fetch_value(database, "select max(version) from runnerq.migration") == NEWEST + 1


class TestAnOrdinaryRole:
    """A role that may connect and nothing else."""

    @pytest.fixture
    def role(self, database: str) -> Iterator[str]:
        """Its DSN."""
        with _a_role(database) as dsn:
            yield dsn

    async def test_it_is_told_that_it_may_not_make_the_schema(self, role: str) -> None:
        with pytest.raises(SchemaError, match="may not create or change the tables of schema 'runnerq'"):
            await PostgresStorage(role).open()

    async def test_it_is_told_that_it_may_not_use_the_schema(self, role: str, database: str) -> None:
        async with _opened(PostgresStorage(database)):
            pass
        with pytest.raises(SchemaError, match="not open to this role"):
            await PostgresStorage(role, migrate=False).open()

    @pytest.mark.parametrize("migrate", [True, False])
    async def test_it_works_on_a_schema_that_is_there_without_the_right_to_create(
        self, role: str, database: str, migrate: bool
    ) -> None:
        async with _opened(PostgresStorage(database)):
            pass
        name = urlsplit(role).username
        await execute(
            database,
            f"grant usage on schema runnerq to {name};"
            f"grant select, insert, update, delete on all tables in schema runnerq to {name}",
        )
        async with _opened(PostgresStorage(role, migrate=migrate)) as storage:
            holder = await a_holder(storage)
            run = await holder.start(a_run())
            await holder.commit(run, COMPLETED)
            assert (await look(storage, run.id)).status == "completed"


@pytest.mark.parametrize("name", ["", "Orders", "1st", "a-b", "a.b", 'a"b', "pg_mine", "x" * 49, "naïve"])
def test_a_name_that_cannot_be_a_schemas_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be used"):
        PostgresStorage("postgresql://nowhere", schema=name)


@asynccontextmanager
async def _opened(storage: PostgresStorage) -> AsyncIterator[PostgresStorage]:
    await storage.open()
    try:
        yield storage
    finally:
        await storage.close()


@asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def _migrated(dsn: str, version: int) -> None:
    """Bring the schema to this version, and no farther; then have it used."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "migrations", lambda: {number: migrations()[number] for number in range(1, version + 1)})
        await _open_and_close(dsn)
    await execute(
        dsn,
        "insert into runnerq.run (id, version, priority, depth, kind, name, queue, input)"
        " select gen_random_uuid(), 1, 2, 0, 'workflow', 'order', 'q', '[]' from generate_series(1, 1000)",
    )


async def _open_and_close(dsn: str) -> None:
    async with _opened(PostgresStorage(dsn)):
        pass


async def _valid_indexes(dsn: str, names: tuple[str, ...]) -> list[str]:
    """Those of these indexes that are there and in use."""
    found = "select string_agg(relname, ',' order by relname) from pg_class join pg_index on oid = indexrelid"
    valid = await fetch_value(dsn, f"{found} where indisvalid and relname = any(array{list(names)})")
    return str(valid).split(",")


async def _who_waits_to_build(connection: asyncpg.Connection, index: str) -> int:
    """The process that builds this index, once it waits for somebody's transaction."""
    builds = "query like 'create index concurrently%' || $1 || ' %'"
    return await backend_that(connection, f"{WAITS} and {builds}", index)


async def _shape(connection: asyncpg.Connection, name: str) -> list[tuple[object, ...]]:
    """The columns and indexes of a schema, by name."""
    found = await connection.fetch(
        "select table_name, column_name, data_type, is_nullable, replace(column_default, $1, '') as more"
        " from information_schema.columns where table_schema = $1"
        " union all select tablename, indexname, replace(indexdef, $1 || '.', ''), null, null"
        " from pg_indexes where schemaname = $1 order by 1, 2",
        name,
    )
    return [tuple(record) for record in found]


@contextmanager
def _a_role(dsn: str) -> Iterator[str]:
    name = f"rqtest_{uuid4().hex[:12]}"
    run_apart(execute(dsn, f"create role {name} login password 'secret'"))
    parts = urlsplit(dsn)
    _, at, host = parts.netloc.rpartition("@")
    try:
        yield urlunsplit(parts._replace(netloc=f"{name}:secret{at or '@'}{host}"))
    finally:
        run_apart(execute(dsn, f"drop owned by {name}; drop role {name}"))
