"""Connecting, losing the connection, and what is said about it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from typing import TypeVar
from urllib.parse import parse_qs, urlsplit, urlunsplit

import asyncpg
import pytest

from runnerq.errors import ConfigurationError, SchemaError, StorageRefused, StorageUnavailable
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.postgres.faults import translated
from runnerq.persistence.postgres.greeting import STEADY_PLANS, place_of
from runnerq.persistence.records import GOING, Ask, End, Park, Stuck
from runnerq.testing.conformance.world import COMPLETED, a_child, a_holder, a_row, a_run, a_signal, look
from tests.persistence.postgres.watching import WAITS, backend_that

T = TypeVar("T")


@pytest.fixture
async def storage(database: str) -> AsyncIterator[PostgresStorage]:
    storage = PostgresStorage(database)
    await storage.open()
    yield storage
    await storage.close()


@pytest.fixture
async def other(database: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


class TestNoAnswer:
    async def test_an_address_where_nobody_listens_is_asked_for_a_while_and_named_without_the_password(self) -> None:
        with closing(socket.socket()) as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            storage = PostgresStorage(f"postgresql://me:secret@127.0.0.1:{port}/shop", connect_timeout=0.3)
            with pytest.raises(StorageUnavailable, match=rf"127\.0\.0\.1:{port}/shop has not answered for") as caught:
                await storage.open()
        assert "secret" not in str(caught.value)

    async def test_a_server_that_takes_the_call_and_says_nothing_is_given_up(self) -> None:
        with closing(socket.socket()) as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            port = silent.getsockname()[1]
            storage = PostgresStorage(f"postgresql://me@127.0.0.1:{port}/shop", connect_timeout=0.3)
            with pytest.raises(StorageUnavailable, match="has not answered"):
                await storage.open()

    async def test_a_server_that_hangs_up_at_first_is_asked_again(self, database: str) -> None:
        async with _hanging_up(database, times=3) as dsn:
            storage = PostgresStorage(dsn, connect_timeout=60)
            await storage.open()
            await storage.close()

    async def test_a_database_that_is_not_there_is_refused_at_once(self, database: str) -> None:
        dsn = urlunsplit(urlsplit(database)._replace(path="/nowhere"))
        with pytest.raises(StorageUnavailable, match=r'refuses the connection: database "nowhere" does not exist'):
            await PostgresStorage(dsn, connect_timeout=3600).open()

    async def test_text_that_is_no_dsn_is_a_configuration_error(self) -> None:
        with pytest.raises(ConfigurationError, match="cannot be read: expected postgresql://"):
            await PostgresStorage("http://127.0.0.1/shop").open()

    async def test_a_database_in_another_encoding_is_refused(self, database: str) -> None:
        connection = await asyncpg.connect(database)
        name = f"{await connection.fetchval('select current_database()')}_ascii"
        await connection.execute(
            f"create database {name} template template0 encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C'"
        )
        try:
            with pytest.raises(SchemaError, match="encoding UTF8; this one has SQL_ASCII"):
                await PostgresStorage(urlunsplit(urlsplit(database)._replace(path=f"/{name}"))).open()
        finally:
            await connection.execute(f"drop database {name} with (force)")
            await connection.close()

    async def test_a_storage_that_is_not_open_says_so(self, database: str) -> None:
        storage = PostgresStorage(database)
        with pytest.raises(StorageUnavailable, match="is not open"):
            await storage.now()
        await storage.open()
        await storage.close()
        with pytest.raises(StorageUnavailable, match="is not open"):
            await storage.now()


@pytest.mark.parametrize(
    ("dsn", "place"),
    [
        ("postgresql://me:secret@db.example:6000/shop", "db.example:6000/shop"),
        ("postgresql://me:secret@db.example/shop?sslmode=require", "db.example/shop"),
        ("postgresql://me:secret@/shop?host=/run/pg&port=5433", "/run/pg:5433/shop"),
        ("postgresql://me:secret@db.example:port/shop", "the given DSN"),
    ],
)
def test_a_place_is_told_without_user_and_password(dsn: str, place: str) -> None:
    assert place_of(dsn) == place


class TestLosingTheConnection:
    async def test_a_write_whose_backend_is_killed_is_unclear_and_the_next_one_works(
        self, storage: PostgresStorage, other: asyncpg.Connection
    ) -> None:
        holder = await a_holder(storage)
        run = await holder.start(a_run())
        async with other.transaction():
            await other.execute("select from runnerq.live where run_id = $1 for update", run.id)
            sending = asyncio.ensure_future(storage.send([a_signal(run.id)]))
            pid = await backend_that(other, WAITS)
            await other.execute("select pg_terminate_backend($1)", pid)
            with pytest.raises(StorageUnavailable):
                await sending
        assert (await holder.inbox(run)).seen == 0
        await storage.send([a_signal(run.id)])
        assert (await holder.inbox(run)).seen == 1

    async def test_after_all_backends_were_killed_everything_goes_on(
        self, storage: PostgresStorage, other: asyncpg.Connection
    ) -> None:
        holder = await a_holder(storage)
        run = await holder.start(a_run())
        await other.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        commit = await _at_last(lambda: holder.commit(run, COMPLETED))
        assert commit == "done"
        assert (await _at_last(lambda: look(storage, run.id))).status == "completed"

    async def test_a_heart_beats_again_over_a_new_connection(
        self, storage: PostgresStorage, other: asyncpg.Connection
    ) -> None:
        holder = await a_holder(storage)
        heart = storage.heart()
        await heart.open()
        await heart.beat(holder.id)
        pid = await other.fetchval("select backend_pid from runnerq.worker")
        await other.execute("select pg_terminate_backend($1)", pid)
        pulse = await _at_last(lambda: heart.beat(holder.id))
        assert pulse.alive
        assert await other.fetchval("select backend_pid from runnerq.worker") != pid
        await heart.close()

    async def test_a_heart_whose_beat_the_server_refuses_keeps_the_connection_that_its_worker_is_known_by(
        self, storage: PostgresStorage, other: asyncpg.Connection
    ) -> None:
        holder = await a_holder(storage)
        heart = storage.heart()
        await heart.open()
        await heart.beat(holder.id)
        pid = await other.fetchval("select backend_pid from runnerq.worker")
        await other.execute("alter table runnerq.worker add constraint full_disk check (false) not valid")
        with pytest.raises(StorageRefused):
            await heart.beat(holder.id)
        assert await other.fetchval("select count(*) from pg_stat_activity where pid = $1", pid) == 1
        await other.execute("alter table runnerq.worker drop constraint full_disk")
        assert (await heart.beat(holder.id)).alive
        assert await other.fetchval("select backend_pid from runnerq.worker") == pid
        await heart.close()

    async def test_a_call_that_is_cancelled_leaves_the_connection_to_others(
        self, storage: PostgresStorage, other: asyncpg.Connection
    ) -> None:
        holder = await a_holder(storage)
        run = await holder.start(a_run())
        async with other.transaction():
            await other.execute("select from runnerq.live where run_id = $1 for update", run.id)
            for _ in range(20):
                sending = asyncio.ensure_future(storage.send([a_signal(run.id)]))
                await backend_that(other, WAITS)
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        # Whether one that was called off came through after all is not known; this one does.
        before = (await holder.inbox(run)).seen
        assert await storage.send([a_signal(run.id)]) == ["sent"]
        assert (await holder.inbox(run)).seen > before

    async def test_closing_does_not_wait_for_a_lock_that_somebody_holds(
        self, database: str, other: asyncpg.Connection
    ) -> None:
        storage = PostgresStorage(database)
        await storage.open()
        holder = await a_holder(storage)
        run = await holder.start(a_run())
        async with other.transaction():
            await other.execute("select from runnerq.live where run_id = $1 for update", run.id)
            sending = asyncio.ensure_future(storage.send([a_signal(run.id)]))
            await backend_that(other, WAITS)
            await storage.close()
            with pytest.raises(StorageUnavailable):
                await sending


class TestSettings:
    async def test_plans_are_steady_and_only_claims_do_not_wait_for_the_disk(self, storage: PostgresStorage) -> None:
        pools = storage._connections._pools
        for pool, synchronous in ((pools.durable, "on"), (pools.quick, "off")):
            async with pool.connection() as connection:
                for name, setting in STEADY_PLANS.items():
                    assert await connection.fetchval("select current_setting($1)", name) == setting
                assert await connection.fetchval("select current_setting('synchronous_commit')") == synchronous

    async def test_every_statement_is_kept_prepared(self, storage: PostgresStorage) -> None:
        await storage.commit([])
        holder = await a_holder(storage)
        run = await holder.start(a_run())
        await holder.commit(run, GOING, children=(a_child(run),))
        async with storage._connections._pools.turns.connection() as connection:
            kept = await connection.fetchval(
                "select count(*) from pg_prepared_statements where statement like '-- Write many turns%'"
            )
        assert kept == 1

    async def test_without_prepared_statements_and_settings_everything_works(self, database: str) -> None:
        storage = PostgresStorage(database, pooled=True)
        await storage.open()
        holder = await a_holder(storage)
        run = await holder.start(a_run())
        await holder.commit(run, GOING, rows=(a_row(0),))
        await holder.commit(run, Park(signals=("go",)))
        await storage.send([a_signal(run.id)])
        await holder.commit(await holder.take_again(run), COMPLETED, seen=1)
        assert (await look(storage, run.id)).status == "completed"
        assert storage._connections._pools.durable is not None
        async with storage._connections._pools.durable.connection() as connection:
            [kept] = await connection.fetch("select count(*) from pg_prepared_statements where name <> ''")
        assert kept[0] == 0
        await storage.close()


class TestRefusedData:
    async def test_a_document_that_is_nested_too_deep_is_refused_and_nothing_is_written(
        self, storage: PostgresStorage
    ) -> None:
        new = a_run(input="[" * 100_000 + "]" * 100_000)
        with pytest.raises(StorageRefused):
            await storage.start([a_run(), new])
        assert await (await a_holder(storage)).ready() == []

    async def test_texts_for_people_are_kept_as_well_as_they_can_be(self, storage: PostgresStorage) -> None:
        holder = await a_holder(storage)
        stuck, ended = await holder.start(a_run()), await holder.start(a_run())
        odd = "a\0b\ud800c"
        await holder.commit(stuck, Stuck(message=odd, build="b1", traceback=odd, line=odd, recorded=odd, asked=odd))
        await holder.commit(ended, End(status="cancelled", reason=odd))
        block = await storage.block(stuck.id)
        assert block is not None
        assert block.message == block.traceback == "a\ufffdb\ufffdc"
        assert (await look(storage, ended.id)).reason == "a\ufffdb\ufffdc"
        await storage.cancel([stuck.id], odd)
        [box] = await storage.inbox([Ask(run_id=stuck.id)])
        assert box.cancel == "a\ufffdb\ufffdc"

    @pytest.mark.parametrize(
        ("state", "error"),
        [
            ("08006", StorageUnavailable),
            ("40P01", StorageUnavailable),
            ("53300", StorageUnavailable),
            ("55P03", StorageUnavailable),
            ("57014", StorageUnavailable),
            ("57P01", StorageUnavailable),
            ("25006", StorageUnavailable),
            ("22021", StorageRefused),
            ("23505", StorageRefused),
            ("54001", StorageRefused),
            ("42P01", SchemaError),
            ("42501", SchemaError),
        ],
    )
    def test_what_the_server_says_becomes_an_error_of_ours(self, state: str, error: type[Exception]) -> None:
        told = asyncpg.PostgresError.new({"C": state, "M": "words"})
        ours = translated(told)
        assert type(ours) is error
        assert "words" in str(ours)

    def test_errors_that_are_not_the_databases_are_left_alone(self) -> None:
        assert translated(ValueError("x")) is None
        assert translated(StorageRefused("x")) is None


async def _at_last(call: Callable[[], Awaitable[T]], tries: int = 20) -> T:
    """The answer of a call that may meet connections which have died meanwhile, each of them once."""
    for _ in range(tries - 1):
        try:
            return await call()
        except StorageUnavailable:
            continue
    return await call()


@asynccontextmanager
async def _hanging_up(dsn: str, times: int) -> AsyncIterator[str]:
    """An address that hangs up on the first callers, and puts the later ones through to the server."""
    where = urlsplit(dsn)
    query = parse_qs(where.query)
    calls = iter(range(1_000_000))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if next(calls) >= times:
                host, port = query.get("host", [where.hostname])[0], query.get("port", [where.port])[0]
                await _put_through(reader, writer, host, port)
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    user = where.netloc.rpartition("@")[0] or "postgres"
    async with server:
        yield urlunsplit(where._replace(netloc=f"{user}@127.0.0.1:{port}", query="sslmode=disable"))


async def _put_through(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str | None, port: object
) -> None:
    number = int(str(port or 5432))
    if host and host.startswith("/"):
        there, back = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{number}")
    else:
        there, back = await asyncio.open_connection(host, number)
    try:
        await asyncio.gather(_pour(reader, back), _pour(there, writer))
    finally:
        # Also where the test ends before whoever called has hung up.
        back.close()


async def _pour(source: asyncio.StreamReader, into: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await source.read(65536):
            into.write(data)
            await into.drain()
    into.close()
