"""What a console asks of Postgres: counts that miss nothing, twins of what Python says, answers that are called off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
import pytest

from runnerq.client.client import Client
from runnerq.client.patience import patience
from runnerq.errors import ReadTimeout
from runnerq.ids import derived_run_id, new_run_id
from runnerq.persistence.postgres.tallying import _LONGEST
from runnerq.persistence.records import BUCKETS, AuditFilter, NewAudit, RunFilter, bucket_of, fingerprint
from runnerq.testing.conformance.world import COMPLETED, a_holder, a_run, a_turn
from tests.persistence.postgres.backend import PostgresWorld
from tests.persistence.postgres.interleaving import held_open
from tests.persistence.postgres.watching import WAITS, backend_that, nobody_that

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXTS = (
    None,
    "{}",
    "null",
    '"\\u007erq1:aes=k1:AAAA"',
    '{"type":"E","module":"m","message":""}',
    '{"type" : "E" , "message" : "a \\"b\\" 12 \\\\ \\u0000 \\ud800 end"}',
    '{"type":"Tÿp","message":"Straße 7, order-12_x and 0xdeadbeef, café9"}',
    '{"type":"E","message":"' + "word 1 " * 400 + '","stack":"s"}',
    '{"message":"no type here","args":["type"]}',
)
SECONDS = (-5.0, 0.0, 0.0004, 0.0012, 0.0019, 0.5, 1.1, 59.0, 3600.5, 5e5, 1e9)


class TestTwins:
    async def test_python_and_sql_tell_failures_apart_alike(self, world: PostgresWorld) -> None:
        for error in TEXTS:
            for reason in (None, "attempts", "gone at 12:30"):
                said = await world.connection.fetchval("select runnerq.fingerprint($1::text::json, $2)", error, reason)
                assert said == fingerprint(error, reason), (error, reason)

    async def test_python_and_sql_count_durations_in_the_same_slots(self, world: PostgresWorld) -> None:
        runs = [a_run() for _ in SECONDS]
        await world.storage.start(runs)
        await _tallied(world)
        await world.connection.executemany(
            """
            insert into runnerq.outcome (run_id, token, ended_at, started_at, status)
            values ($1, 0, now(), now() - $2 * interval '1 second', 'completed')
            """,
            [(run.id, seconds) for run, seconds in zip(runs, SECONDS, strict=True)],
        )
        assert await _durations(world) == _slots(SECONDS)


class TestTally:
    async def test_what_commits_late_is_counted_then_and_once(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        late, early = await holder.start(a_run()), await holder.start(a_run())
        await _tallied(world)
        async with held_open(world) as worker:
            await worker.commit([a_turn(late, COMPLETED)])
            await holder.commit(early, COMPLETED)
            await _tallied(world)
            assert await _counted(world) == (2, 1)
        await _tallied(world)
        await _tallied(world)
        assert await _counted(world) == (2, 2)

    async def test_those_who_count_at_the_same_time_count_once(self, world: PostgresWorld) -> None:
        other = await world.another()
        for nth in range(1, 6):
            await world.storage.start([a_run() for _ in range(20)])
            await _due(world)
            await asyncio.gather(*(each.tally() for each in (world.storage, other, world.storage, other)))
            await _tallied(world)
            assert (await _counted(world))[0] == 20 * nth

    async def test_much_that_happened_is_counted_in_several_looks(self, world: PostgresWorld) -> None:
        await _tallied(world)
        for _ in range(40):
            await world.storage.start([a_run()])
        await _due(world)
        world.postgres._stride = 16
        looks = 1
        while await world.storage.tally():
            looks += 1
        assert looks > 1
        assert (await _counted(world))[0] == 40

    async def test_looks_that_come_to_the_end_do_not_make_the_next_ones_longer(self, world: PostgresWorld) -> None:
        await _tallied(world)
        world.postgres._stride = 256
        for _ in range(10):
            await world.storage.start([a_run()])
            await _tallied(world)
        assert world.postgres._stride == 256

    async def test_quiet_times_make_looks_longer_but_not_without_a_bound(self, world: PostgresWorld) -> None:
        await _tallied(world)
        world.postgres._stride = 1
        for _ in range(40):
            await world.storage.start([a_run()])
        await _tallied(world)
        assert world.postgres._stride > 1
        world.postgres._stride = _LONGEST
        await world.connection.execute(
            f"do $$ begin for n in 1..{_LONGEST + 10} loop perform pg_current_xact_id(); commit; end loop; end $$"
        )
        await _tallied(world)
        assert world.postgres._stride == _LONGEST

    async def test_a_look_that_fails_is_followed_by_shorter_ones_until_they_succeed(self, world: PostgresWorld) -> None:
        await _tallied(world)
        for _ in range(20):
            await world.storage.start([a_run() for _ in range(50)])
        await _due(world)
        world.postgres._stride = 64
        strides = []
        async with held_open_minutes(world) as holder:
            for _ in range(5):
                looking = asyncio.create_task(world.storage.tally())
                await backend_that(holder, WAITS)
                looking.cancel()
                await asyncio.wait({looking})
                await nobody_that(holder, WAITS)
                strides.append(world.postgres._stride)
        assert strides == [16, 4, 1, 1, 1]
        await _tallied(world)
        assert (await _counted(world))[0] == 1000

    async def test_nothing_is_looked_at_again_before_its_time(self, world: PostgresWorld) -> None:
        await _tallied(world)
        await world.storage.start([a_run()])
        assert not await world.storage.tally()
        assert await _counted(world) == (0, 0)

    async def test_a_cursor_of_another_server_is_begun_anew(self, world: PostgresWorld) -> None:
        await _tallied(world)
        await world.storage.start([a_run()])
        await world.connection.execute("update runnerq.tally set seen = '99999999999:99999999999:'")
        await _tallied(world)
        assert await _counted(world) == (0, 0)
        await world.storage.start([a_run()])
        await _tallied(world)
        assert await _counted(world) == (1, 0)

    async def test_a_database_without_a_cursor_counts_nothing(self, world: PostgresWorld) -> None:
        await world.connection.execute("delete from runnerq.tally")
        assert not await world.storage.tally()
        await world.connection.execute("insert into runnerq.tally (seen) values (pg_current_snapshot()::text)")


class TestCapped:
    async def test_queues_and_stats_say_that_more_is_open_than_they_counted(self, world: PostgresWorld) -> None:
        await world.storage.start([a_run(queue=queue) for queue in ("a", "a", "b")])
        for most, ready in ((2, 3), (3, 3)):
            for statement in ("read_queues", "read_depths"):
                found = await world.postgres._fresh(statement, most)
                assert {row["capped"] for row in found} == {ready > most}, (statement, most)
        assert [(each.name, each.ready, each.capped) for each in await world.storage.queues()] == [
            ("a", 2, False),
            ("b", 1, False),
        ]


class TestKept:
    async def test_minutes_and_what_people_did_are_forgotten_in_time(self, world: PostgresWorld) -> None:
        await world.storage.start([a_run()])
        await _tallied(world)
        long_ago = await world.storage.now() - timedelta(days=91)
        ids = {"old": derived_run_id(long_ago, "audit"), "new": new_run_id()}
        await world.storage.write_audit(
            [NewAudit(id=entry_id, principal="ann", action=action, outcome="done") for action, entry_id in ids.items()]
        )
        await world.connection.execute("update runnerq.audit set at = at - interval '91 days' where action = 'old'")
        await world.storage.sweep(10)
        assert [each.entry.action for each in await world.storage.read_audit(AuditFilter(), 10)] == ["new"]
        assert (await _counted(world))[0] == 1
        await world.connection.execute("update runnerq.minute set at = at - interval '193 hours'")
        await world.storage.sweep(10)
        assert await world.connection.fetchval("select count(*) from runnerq.minute") == 0


class TestPatience:
    async def test_an_answer_that_takes_too_long_is_called_off_in_the_database_too(self, world: PostgresWorld) -> None:
        client = Client(world.storage)
        holder = await asyncpg.connect(world.dsn)
        try:
            async with holder.transaction():
                await holder.execute("lock table runnerq.run in access exclusive mode")
                with pytest.raises(ReadTimeout, match="was told to stop"):
                    async with patience(0.2):
                        await client.storage.list_runs(RunFilter(), 10)
                # It is called off by a message of its own, which comes when it comes.
                await nobody_that(holder, f"{WAITS} and query like '%ahead%'")
        finally:
            await holder.close()
        assert (await client.storage.list_runs(RunFilter(), 10)).runs == ()


@asynccontextmanager
async def held_open_minutes(world: PostgresWorld) -> AsyncIterator[asyncpg.Connection]:
    """Nobody can write a minute: whoever counts gets no answer."""
    holder = await asyncpg.connect(world.dsn)
    try:
        async with holder.transaction():
            await holder.execute("lock table runnerq.minute in access exclusive mode")
            yield holder
    finally:
        await holder.close()


async def _due(world: PostgresWorld) -> None:
    """Let a while pass since the last look; ``advance`` would wait for runs that a test holds."""
    await world.connection.execute("update runnerq.tally set at = at - interval '60 seconds'")


async def _tallied(world: PostgresWorld) -> None:
    await _due(world)
    while await world.storage.tally():
        pass


async def _counted(world: PostgresWorld) -> tuple[int, int]:
    """How many were started, and completed."""
    now = (await world.storage.now()).replace(second=0, microsecond=0)
    found = await world.storage.activity(now - timedelta(days=1), now + timedelta(days=1), 2880)
    return (found[0].started, found[0].completed) if found else (0, 0)


async def _durations(world: PostgresWorld) -> list[int]:
    await _tallied(world)
    now = (await world.storage.now()).replace(second=0, microsecond=0)
    [found] = await world.storage.activity(now - timedelta(days=1), now + timedelta(days=1), 2880)
    return [*found.durations, *[0] * (BUCKETS - len(found.durations))]


def _slots(seconds: tuple[float, ...]) -> list[int]:
    slots = [0] * BUCKETS
    for each in seconds:
        slots[bucket_of(each)] += 1
    return slots
