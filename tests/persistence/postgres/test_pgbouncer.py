"""The storage through PgBouncer in transaction mode: what it relies on, what it leaves, and what it does without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
import pytest

from runnerq.errors import ConfigurationError, StorageError, StorageRefused, StorageUnavailable
from runnerq.ids import new_run_id
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.postgres.greeting import STEADY_PLANS
from runnerq.persistence.postgres.statements import migrations
from runnerq.persistence.records import GOING, Park, RunFilter, Sent, Wake
from runnerq.testing.conformance.world import COMPLETED, a_child, a_holder, a_row, a_run, a_signal, look
from tests.persistence.postgres.watching import WAITS
from tests.pgbouncer import pgbouncer
from tests.postgres import fetch_value, fresh_database

CLIENTS, ROUNDS = 12, 10

REFUSED: dict[str, object] = {}
IGNORED: dict[str, object] = {"ignore_startup_parameters": ",".join(STEADY_PLANS)}
OF_SESSIONS: dict[str, object] = {"pool_mode": "session", "default_pool_size": 50}


@pytest.fixture
def pooled(database: str) -> Iterator[str]:
    """The way to the database through a pooler with two connections to the server."""
    with pgbouncer(database, pool_size=2) as dsn:
        yield dsn


@pytest.fixture
def single(database: str) -> Iterator[str]:
    """The same with one: what somebody leaves in its session, everybody finds."""
    with pgbouncer(database, pool_size=1) as dsn:
        yield dsn


@asynccontextmanager
async def opened(dsn: str, **options: Any) -> AsyncIterator[PostgresStorage]:
    storage = PostgresStorage(dsn, **options)
    await storage.open()
    try:
        yield storage
    finally:
        await storage.close()


async def a_life(storage: PostgresStorage) -> None:
    """A run is started, worked on, parked, woken and ended."""
    holder = await a_holder(storage)
    run = await holder.start(a_run())
    await holder.commit(run, GOING, rows=(a_row(0),), children=(a_child(run, key=f"child of {run.id}"),))
    await holder.commit(run, Park(signals=("go",)))
    assert await storage.send([a_signal(run.id)]) == [Sent.SENT]
    await holder.commit(await holder.take_again(run), COMPLETED, seen=1)
    assert (await look(storage, run.id)).status == "completed"


class TestAnswers:
    async def test_many_clients_over_two_server_connections_get_their_own_answers(self, pooled: str) -> None:
        async with AsyncExitStack() as stack:
            storages = [await stack.enter_async_context(opened(pooled)) for _ in range(CLIENTS)]

            async def client(number: int, storage: PostgresStorage) -> None:
                for turn in range(ROUNDS):
                    mine = a_run(input=f'["{number}", {turn}]', key=f"{number}/{turn}", queue=f"q{number}")
                    [reply] = await storage.start([mine])
                    found = await asyncio.gather(
                        storage.run(mine.id),
                        storage.by_key(mine.name, f"{number}/{turn}"),
                        storage.list_runs(RunFilter(queue=f"q{number}"), 100),
                        storage.send([a_signal(mine.id)]),
                    )
                    record, holder, listed, sent = found
                    assert reply.id == mine.id == holder
                    assert record is not None
                    assert record.input == mine.input
                    assert [each.queue for each in listed.runs] == [f"q{number}"] * (turn + 1)
                    assert sent == [Sent.SENT]

            async with asyncio.TaskGroup() as group:
                for number, storage in enumerate(storages):
                    group.create_task(client(number, storage))

    async def test_a_call_that_is_cancelled_leaves_the_connections_to_others(self, database: str, pooled: str) -> None:
        other = await asyncpg.connect(database)
        async with opened(pooled) as storage:
            holder = await a_holder(storage)
            run = await holder.start(a_run())
            async with other.transaction():
                await other.execute("select from runnerq.live where run_id = $1 for update", run.id)
                for _ in range(5):
                    sending = asyncio.ensure_future(storage.send([a_signal(run.id)]))
                    await _who_waits_for_locks(other, tries=1)
                    sending.cancel()
                    await asyncio.gather(sending, return_exceptions=True)
            before = (await holder.inbox(run)).seen
            assert await storage.send([a_signal(run.id)]) == [Sent.SENT]
            assert (await holder.inbox(run)).seen > before
        await other.close()

    async def test_a_claim_that_is_cancelled_leaves_no_transaction_open(self, database: str, single: str) -> None:
        async with opened(single) as storage:
            holder = await a_holder(storage)
            await storage.start([a_run() for _ in range(10)])
            for pause in range(10):
                claiming = asyncio.ensure_future(holder.claim(limit=1))
                for _ in range(pause):
                    await asyncio.sleep(0)
                claiming.cancel()
                await asyncio.gather(claiming, return_exceptions=True)
            # The one connection to the server would be in that transaction still.
            await storage.release(holder.id, ())
            assert len((await holder.claim(limit=100)).runs) == 10


class TestTransactions:
    async def test_statements_that_were_sent_alone_before_are_still_one_in_a_transaction(self, pooled: str) -> None:
        async with opened(pooled) as storage:
            [first] = await storage.start([a_run(key="first")])
            await storage.send([a_signal(first.id)])
            with pytest.raises(StorageRefused):
                await storage.start_or_send(a_run(key="second"), [a_signal(first.id, channel="nul \0")])
            assert await storage.by_key(a_run().name, "second") is None

    async def test_a_lock_that_is_not_had_costs_no_connection(self, database: str) -> None:
        other = await asyncpg.connect(database)
        async with opened(database, pooled=True) as storage:
            [held] = await storage.start([a_run(key="held")])
            for call in (
                lambda: storage.send([a_signal(held.id)]),
                lambda: storage.start_or_send(a_run(key="held"), [a_signal(held.id)]),
            ):
                async with other.transaction():
                    await other.execute("select from runnerq.live where run_id = $1 for update", held.id)
                    waiting = asyncio.ensure_future(call())
                    assert len(await _who_waits_for_locks(other, tries=3)) == 1
                await waiting
        await other.close()


class TestTheSession:
    @pytest.mark.parametrize(
        "settings", [REFUSED, IGNORED, OF_SESSIONS], ids=["settings refused", "settings ignored", "pool of sessions"]
    )
    async def test_that_a_pooler_is_between_is_found_out_and_everything_works(
        self, database: str, settings: dict[str, object]
    ) -> None:
        with pgbouncer(database, pool_size=1, settings=settings) as dsn:
            async with opened(dsn) as storage:
                assert not storage._connections.has_sessions
                await a_life(storage)

    async def test_settings_that_hold_through_a_pooler_do_not_hide_it(self, database: str) -> None:
        set_all = "; ".join(f"set {name} = {setting}" for name, setting in STEADY_PLANS.items())
        with pgbouncer(database, pool_size=1, settings=IGNORED, connect_query=set_all) as dsn:
            async with opened(dsn) as storage:
                assert not storage._connections.has_sessions
                await a_life(storage)

    async def test_nothing_is_left_in_it(self, single: str) -> None:
        async with opened(single) as storage:
            await a_life(storage)
            await storage.sweep(10)
            other = await asyncpg.connect(single, statement_cache_size=0)
            left = await other.fetchrow(
                """
                select (select count(*) from pg_prepared_statements where name <> '') as statements,
                       (select count(*) from pg_listening_channels()) as channels,
                       (select count(*) from pg_locks where locktype = 'advisory') as locks,
                       (select array_agg(name) from pg_settings where source = 'session' and name <> all($1)) as set
                """,
                ["client_encoding", "application_name", "TimeZone", "DateStyle", "standard_conforming_strings"],
            )
            await other.close()
        assert dict(left) == {"statements": 0, "channels": 0, "locks": 0, "set": None}

    async def test_a_direct_connection_keeps_its_statements_and_a_pooled_one_is_planned_each_time(
        self, database: str
    ) -> None:
        count = "select count(*) from pg_prepared_statements where name <> ''"
        for options, kept in (({}, True), ({"pooled": True}, False)):
            async with opened(database, **options) as storage:
                await a_life(storage)
                async with storage._connections._pools.turns.connection() as connection:
                    [row] = await connection.fetch(count)
                assert (row[0] > 0) is kept

    async def test_only_claims_and_wake_ups_do_not_wait_for_the_disk(self, database: str, pooled: str) -> None:
        async with opened(pooled) as storage:
            connection = await asyncpg.connect(database)
            await connection.execute(
                """
                create table waits (state text, synchronous text, seqscan text);
                create function note() returns trigger language plpgsql as $$ begin
                    insert into waits values (
                        new.state, current_setting('synchronous_commit'), current_setting('enable_seqscan'));
                    return new;
                end $$;
                create trigger note before insert or update on runnerq.live for each row execute function note()
                """
            )
            holder = await a_holder(storage)
            run = await holder.start(a_run())
            await holder.commit(run, Park(signals=("go",)))
            noted = await connection.fetch("select state, synchronous, seqscan from waits")
            await connection.close()
        # Claims bring steady plans along.
        assert [tuple(row) for row in noted] == [
            ("pending", "on", "on"),
            ("running", "off", "off"),
            ("waiting", "on", "on"),
        ]


class TestSchema:
    @pytest.fixture
    def database(self, empty_database: str) -> str:
        return empty_database

    async def test_first_starts_at_once_through_the_pooler_are_safe(self, database: str, pooled: str) -> None:
        async with AsyncExitStack() as stack:
            openings = (stack.enter_async_context(opened(pooled)) for _ in range(5))
            storages = await asyncio.gather(*openings)
            await asyncio.gather(*(storage.start([a_run()]) for storage in storages))
        assert await fetch_value(database, "select count(*) from runnerq.migration") == len(migrations())
        assert await fetch_value(database, "select count(*) from runnerq.run") == 5


class TestBeats:
    async def test_behind_a_pooler_the_lease_alone_decides(self, database: str, pooled: str) -> None:
        async with opened(pooled) as storage:
            holder = await a_holder(storage)
            await holder.start(a_run())
            heart = storage.heart()
            await heart.open()
            assert (await heart.beat(holder.id)).alive
            await heart.close()
            backend = await fetch_value(database, "select backend_pid from runnerq.worker")
            assert backend is None
            reaper = await a_holder(storage)
            await _age(database, holder.id, 30)
            assert await storage.reap(reaper.id, 1, 10) == []
            await _age(database, holder.id, 31)
            assert len(await storage.reap(reaper.id, 2, 10)) == 1

    async def test_a_beat_over_the_direct_way_shows_when_its_worker_is_gone(self, database: str, pooled: str) -> None:
        async with opened(pooled, direct_dsn=database) as storage:
            holder = await a_holder(storage)
            run = await holder.start(a_run())
            heart = storage.heart()
            await heart.open()
            assert (await heart.beat(holder.id)).alive
            reaper = await a_holder(storage)
            await _age(database, holder.id, 4)
            assert await storage.reap(reaper.id, 1, 10) == []
            await heart.close()
            # Its backend goes a moment after the connection is closed.
            async with asyncio.timeout(60):
                while not (reaped := await storage.reap(reaper.id, 2, 10)):
                    await asyncio.sleep(0.01)
            assert [each.run_id for each in reaped] == [run.id]


class TestWakeUps:
    async def test_they_are_heard_over_the_direct_way(self, database: str, pooled: str) -> None:
        async with opened(pooled, direct_dsn=database) as here, opened(pooled, direct_dsn=database) as there:
            heard: asyncio.Queue[Wake] = asyncio.Queue()
            there.subscribe(heard.put_nowait)
            await here.start([a_run(queue="far")])
            async with asyncio.timeout(60):
                while "far" not in (await heard.get()).queues:
                    pass

    async def test_who_listens_without_a_pooler_hears_those_behind_one(self, database: str, pooled: str) -> None:
        async with opened(pooled) as here, opened(database) as there:
            heard: asyncio.Queue[Wake] = asyncio.Queue()
            there.subscribe(heard.put_nowait)
            await here.start([a_run(queue="far")])
            async with asyncio.timeout(60):
                while "far" not in (await heard.get()).queues:
                    pass

    async def test_without_a_direct_way_nobody_listens_and_one_hears_oneself(self, single: str, database: str) -> None:
        async with opened(single) as storage:
            heard: list[Wake] = []
            storage.subscribe(heard.append)
            await storage.start([a_run(queue="near")])
            assert heard == [Wake(queues=frozenset({"near"}))]
            listening = "select count(*) from pg_stat_activity where query ilike 'listen%'"
            assert await fetch_value(database, f"{listening} and datname = current_database()") == 0


class TestTheDirectWay:
    async def test_one_that_leads_to_another_database_is_refused(self, postgres_dsn: str, pooled: str) -> None:
        with (
            fresh_database(postgres_dsn) as elsewhere,
            pytest.raises(ConfigurationError, match=r"direct_dsn leads elsewhere than the pooler"),
        ):
            await PostgresStorage(pooled, direct_dsn=elsewhere).open()

    async def test_one_that_leads_through_the_pooler_is_refused(self, pooled: str) -> None:
        with pytest.raises(ConfigurationError, match=r"direct_dsn leads to a pooler, too.*Postgres itself"):
            await PostgresStorage(pooled, direct_dsn=pooled).open()

    async def test_one_where_nobody_answers_is_said(self, pooled: str) -> None:
        nowhere = "postgresql://me:secret@127.0.0.1:1/nowhere"
        with pytest.raises(StorageUnavailable, match=r"127\.0\.0\.1:1/nowhere has not answered"):
            await PostgresStorage(pooled, direct_dsn=nowhere, connect_timeout=0.2).open()


class TestTrouble:
    async def test_a_client_takes_no_more_connections_than_the_guide_says(self, database: str, pooled: str) -> None:
        async with opened(database, pooled=True) as storage:
            holder = await a_holder(storage)
            run = await holder.start(a_run())
            new = [a_run() for _ in range(40)]
            calls = [
                *(storage.start([each]) for each in new),
                *(holder.claim(limit=1) for _ in range(20)),
                *(holder.commit(run, GOING) for _ in range(20)),
                *(storage.list_runs(RunFilter(), 10) for _ in range(20)),
                *(storage.wake_due(10) for _ in range(20)),
                *(storage.send([a_signal(run.id)]) for _ in range(20)),
                *(storage.start_or_send(a_run(key="one"), [a_signal(run.id)]) for _ in range(20)),
                *(storage.outcomes([run.id]) for _ in range(20)),
            ]
            await asyncio.gather(*calls)
            # Autovacuum may look in, too.
            everybody = (
                "select count(*) - 1 from pg_stat_activity"
                " where datname = current_database() and backend_type = 'client backend'"
            )
            assert await fetch_value(database, everybody) == 20

    async def test_a_held_key_is_busy_and_leaves_no_impatience_behind(self, database: str, single: str) -> None:
        other = await asyncpg.connect(database)
        async with opened(single) as storage:
            holder = await a_holder(storage)
            run = await holder.start(a_run())
            child = a_child(run, key="held")
            async with other.transaction():
                await other.execute(
                    "insert into runnerq.key (name, key, run_id) values ($1, 'held', $2)", child.name, new_run_id()
                )
                assert await holder.commit(run, GOING, children=(child,)) == "busy"
                assert await fetch_value(single, "select current_setting('lock_timeout')") == "0"
        await other.close()

    async def test_after_the_poolers_connections_were_killed_everything_goes_on(
        self, database: str, pooled: str
    ) -> None:
        async with opened(pooled, direct_dsn=database) as storage:
            holder = await a_holder(storage)
            run = await holder.start(a_run())
            other = await asyncpg.connect(database)
            await other.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
            await other.close()
            async with asyncio.timeout(30):
                while True:
                    try:
                        assert await holder.commit(run, COMPLETED) == "done"
                        break
                    except StorageUnavailable:
                        continue
            assert (await look(storage, run.id)).status == "completed"

    async def test_who_waits_too_long_for_a_server_connection_is_told_and_goes_on_later(self, database: str) -> None:
        with pgbouncer(database, pool_size=1, settings={"query_wait_timeout": 1}) as dsn:
            async with opened(dsn) as storage:
                hog = await asyncpg.connect(dsn, statement_cache_size=0)
                async with hog.transaction():
                    await hog.execute("select 1")
                    with pytest.raises(StorageError):
                        await storage.start([a_run()])
                await hog.close()
                async with asyncio.timeout(60):
                    # A second is soon over where a machine stands still: then it is told so once more.
                    while not await _lives(storage):
                        pass


async def _lives(storage: PostgresStorage) -> bool:
    try:
        await a_life(storage)
    except StorageError:
        return False
    return True


async def _age(database: str, worker_id: int, seconds: float) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute(
        "update runnerq.worker set beat_at = beat_at - $2 * interval '1 s' where id = $1", worker_id, seconds
    )
    await connection.close()


async def _who_waits_for_locks(connection: asyncpg.Connection, tries: int) -> set[int]:
    """The backends that were seen to wait for a lock, once so many statements have."""
    waits = f"select pid, query_start from pg_stat_activity where datname = current_database() and {WAITS}"
    seen: set[tuple[int, object]] = set()
    async with asyncio.timeout(20):
        while len(seen) < tries:
            await connection.execute("select pg_stat_clear_snapshot()")
            seen.update((row["pid"], row["query_start"]) for row in await connection.fetch(waits))
    return {pid for pid, _ in seen}
