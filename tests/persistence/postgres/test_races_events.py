"""The tail of events, against transactions that are held open and commit late."""

from __future__ import annotations

import asyncpg
import pytest

from runnerq.persistence.postgres import tail
from runnerq.persistence.records import End, Event
from runnerq.testing.conformance.world import COMPLETED, a_holder, a_run, a_turn
from tests.persistence.postgres.backend import PostgresWorld
from tests.persistence.postgres.interleaving import held_open, rolled_back

pytestmark = pytest.mark.asyncio(loop_scope="module")


class TestLateCommits:
    async def test_a_start_that_commits_late_is_told_then_and_once(self, world: PostgresWorld) -> None:
        cursor = await _now(world)
        late, early = a_run(), [a_run() for _ in range(3)]
        async with held_open(world) as client:
            await client.start([late])
            for run in early:
                await world.storage.start([run])
            told, cursor = await _read(world, cursor, 2)
            assert [event.run_id for event in told] == [run.id for run in early]
            nothing, cursor = await _read(world, cursor, 2)
            assert nothing == []
        told, cursor = await _read(world, cursor, 2)
        assert [(event.kind, event.run_id) for event in told] == [("started", late.id)]
        assert (await _read(world, cursor, 2))[0] == []

    async def test_an_end_that_commits_late_is_told_then_and_once(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        late, early = await holder.start(a_run()), await holder.start(a_run())
        cursor = await _now(world)
        async with held_open(world) as worker:
            await worker.commit([a_turn(late, End(status="failed", error="{}"))])
            await holder.commit(early, COMPLETED)
            told, cursor = await _read(world, cursor, 10)
            assert [(event.kind, event.run_id) for event in told] == [("completed", early.id)]
        told, cursor = await _read(world, cursor, 10)
        assert [(event.kind, event.run_id) for event in told] == [("failed", late.id)]
        assert (await _read(world, cursor, 10))[0] == []

    async def test_a_termination_that_commits_late_is_told_then_and_once(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        cursor = await _now(world)
        async with held_open(world) as person:
            await person.terminate([run.id])
            new = a_run()
            await world.storage.start([new])
            told, cursor = await _read(world, cursor, 10)
            assert [event.run_id for event in told] == [new.id]
        told, _ = await _read(world, cursor, 1)
        assert [(event.kind, event.run_id) for event in told] == [("terminated", run.id), ("cancelled", run.id)]

    async def test_several_that_commit_in_another_order_than_they_began_are_each_told_once(
        self, world: PostgresWorld
    ) -> None:
        cursor = await _now(world)
        first, second, third = a_run(), a_run(), a_run()
        told: list[Event] = []
        async with held_open(world) as one:
            await one.start([first])
            async with held_open(world) as two:
                await two.start([second])
                await world.storage.start([third])
                told, cursor = await _read(world, cursor, 10)
                assert [event.run_id for event in told] == [third.id]
            told, cursor = await _read(world, cursor, 10)
            assert [event.run_id for event in told] == [second.id]
        told, cursor = await _read(world, cursor, 10)
        assert [event.run_id for event in told] == [first.id]
        assert (await _read(world, cursor, 10))[0] == []

    async def test_what_is_rolled_back_is_never_told(self, world: PostgresWorld) -> None:
        cursor = await _now(world)
        async with rolled_back(world) as client:
            await client.start([a_run()])
            nothing, cursor = await _read(world, cursor, 10)
            assert nothing == []
        assert (await _read(world, cursor, 10))[0] == []

    async def test_one_that_commits_between_two_pages_is_told_after_them(self, world: PostgresWorld) -> None:
        cursor = await _now(world)
        late, early = a_run(), [a_run() for _ in range(5)]
        async with held_open(world) as client:
            await client.start([late])
            await world.storage.start(early)
            page = await world.storage.events(cursor, 2)
            assert len(page.events) == 2
        rest, cursor = await _read(world, page.cursor, 2)
        told = [event.run_id for event in (*page.events, *rest)]
        assert told == [*sorted(run.id for run in early), late.id]

    async def test_one_that_began_later_than_what_the_pages_hold_is_not_told_twice(self, world: PostgresWorld) -> None:
        cursor = await _now(world)
        late, early, last = a_run(), [a_run() for _ in range(5)], a_run()
        await world.storage.start(early)
        async with held_open(world) as client:
            await client.start([late])
            await world.storage.start([last])
            page = await world.storage.events(cursor, 2)
            assert len(page.events) == 2
        rest, cursor = await _read(world, page.cursor, 2)
        told = [event.run_id for event in (*page.events, *rest)]
        assert told == [*sorted(run.id for run in early), last.id, late.id]

    async def test_a_tail_that_begins_beside_an_open_transaction_tells_only_of_it(self, world: PostgresWorld) -> None:
        late, before = a_run(), a_run()
        async with held_open(world) as client:
            await client.start([late])
            await world.storage.start([before])
            cursor = await _now(world)
            nothing, cursor = await _read(world, cursor, 10)
            assert nothing == []
        told, _ = await _read(world, cursor, 10)
        assert [event.run_id for event in told] == [late.id]

    async def test_a_savepoint_changes_nothing_about_it(self, world: PostgresWorld) -> None:
        cursor = await _now(world)
        late, early = a_run(), a_run()
        connection = await asyncpg.connect(world.dsn)
        try:
            async with connection.transaction():
                async with connection.transaction():
                    await _insert(connection, late.id)
                await world.storage.start([early])
                told, cursor = await _read(world, cursor, 10)
                assert [event.run_id for event in told] == [early.id]
        finally:
            await connection.close()
        told, _ = await _read(world, cursor, 10)
        assert [event.run_id for event in told] == [late.id]


class TestFarBehind:
    async def test_a_reader_behind_many_transactions_comes_to_the_present(self, world: PostgresWorld) -> None:
        cursor = await _now(world)
        first, last = a_run(), a_run()
        await world.storage.start([first])
        await _spend(world.connection, 7 * tail.STEP)
        await world.storage.start([last])
        told, cursor = await _read(world, cursor, 10)
        assert [event.run_id for event in told] == [first.id, last.id]
        assert cursor.count(":") == 2

    async def test_a_page_is_filled_however_many_transactions_of_others_are_between(self, world: PostgresWorld) -> None:
        cursor = await _now(world)
        runs = [a_run() for _ in range(6)]
        for run in runs:
            await world.storage.start([run])
            await _spend(world.connection, 3 * tail.STEP)
        page = await world.storage.events(cursor, 5)
        assert [event.run_id for event in page.events] == [run.id for run in runs[:5]]
        assert [event.run_id for event in (await world.storage.events(page.cursor, 5)).events] == [runs[5].id]

    async def test_pages_that_end_in_the_midst_of_far_more_tell_everything_once(self, world: PostgresWorld) -> None:
        cursor = await _now(world)
        late, batches = a_run(), [[a_run() for _ in range(7)] for _ in range(4)]
        async with held_open(world) as client:
            await client.start([late])
            for batch in batches:
                await world.storage.start(batch)
                await _spend(world.connection, 2 * tail.STEP)
            page = await world.storage.events(cursor, 5)
        rest, cursor = await _read(world, page.cursor, 5)
        told = [event.run_id for event in (*page.events, *rest)]
        first, *others = (sorted(run.id for run in batch) for batch in batches)
        # Its id is the lowest of what is left when it is over.
        assert told == [*first, late.id, *(run_id for batch in others for run_id in batch)]
        assert (await _read(world, cursor, 5))[0] == []

    async def test_one_that_is_open_since_before_the_steps_is_told_once(self, world: PostgresWorld) -> None:
        cursor = await _now(world)
        late, new = a_run(), a_run()
        async with held_open(world) as client:
            await client.start([late])
            await _spend(world.connection, 3 * tail.STEP)
            await world.storage.start([new])
            told, cursor = await _read(world, cursor, 10)
            assert [event.run_id for event in told] == [new.id]
        told, cursor = await _read(world, cursor, 10)
        assert [event.run_id for event in told] == [late.id]
        assert (await _read(world, cursor, 10))[0] == []


class TestOldRows:
    async def test_rows_older_than_the_tail_or_copied_from_another_server_are_no_events(
        self, world: PostgresWorld
    ) -> None:
        cursor = await _now(world)
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, COMPLETED)
        await world.storage.pause("q")
        for table in ("run", "outcome", "event"):
            await world.connection.execute(f"update runnerq.{table} set xid = null")
        assert (await _read(world, cursor, 10))[0] == []

    async def test_events_are_forgotten_after_a_week(self, world: PostgresWorld) -> None:
        await world.storage.pause("old")
        await world.connection.execute("update runnerq.event set at = now() - interval '8 days'")
        await world.storage.pause("new")
        await world.storage.sweep(10)
        assert [row["queue"] for row in await world.connection.fetch("select queue from runnerq.event")] == ["new"]


async def _now(world: PostgresWorld) -> str:
    return (await world.storage.events(None, 10)).cursor


async def _read(world: PostgresWorld, cursor: str, limit: int) -> tuple[list[Event], str]:
    """All that happened behind the cursor, in pages, and the cursor behind it."""
    told: list[Event] = []
    while True:
        page = await world.storage.events(cursor, limit)
        told += page.events
        cursor = page.cursor
        if not page.events:
            return told, cursor


async def _insert(connection: asyncpg.Connection, run_id: str) -> None:
    await connection.execute(
        "insert into runnerq.run (id, version, priority, depth, kind, name, queue, input)"
        " values ($1, 1, 2, 0, 'workflow', 'order', 'q', '[]')",
        run_id,
    )


async def _spend(connection: asyncpg.Connection, how_many: int) -> None:
    """Let so many transaction ids be given out: one a savepoint that writes."""
    await connection.execute("create temp table if not exists spent (n integer)")
    await connection.execute(
        f"do $$ begin for n in 1..{how_many} loop begin insert into spent values (n);"
        " exception when division_by_zero then null; end; end loop; end $$"
    )
