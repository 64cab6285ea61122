"""Where claims begin while dead rows slow the walk to what is ready, and how far they reach while somebody holds it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from runnerq.persistence.postgres.floors import DEAD, LATE, SLOW, SPAN, DueFloor, Floors
from runnerq.persistence.records import Priority
from runnerq.testing.conformance.world import Holder, a_holder, a_run
from tests.persistence.postgres.backend import PostgresWorld, a_world

PAIR, OTHER = ("q", "order@1"), ("q", "work")
AT = datetime(2025, 6, 1, tzinfo=UTC)
LONG = 2 * SLOW
MANY = 2 * DEAD


def _taken(rank: datetime, run_id: str) -> dict[str, object]:
    return {"rank": rank, "run_id": run_id}


def test_claims_begin_at_the_beginning() -> None:
    floors = Floors()
    floors.took([PAIR], _taken(AT, "a"), None)
    floors.walked(SLOW / 2, MANY, now=0.0)
    assert floors.begin([PAIR], now=0.0) == [None]


def test_a_walk_that_is_slow_for_no_dead_rows_changes_nothing() -> None:
    floors = Floors()
    floors.took([PAIR], _taken(AT, "a"), None)
    floors.walked(LONG, DEAD, now=0.0)
    assert floors.begin([PAIR], now=0.0) == [None]


def test_after_a_slow_walk_they_begin_where_the_last_one_ended() -> None:
    floors = Floors()
    floors.walked(LONG, MANY, now=0.0)
    floors.took([PAIR], _taken(AT, "a"), None)
    floors.took([PAIR], _taken(AT + timedelta(1), "b"), None)
    assert floors.begin([PAIR, OTHER], now=0.0) == [(AT + timedelta(1), "b"), None]


def test_one_place_serves_all_that_were_claimed_for_together() -> None:
    floors = Floors()
    floors.walked(LONG, MANY, now=0.0)
    floors.took([PAIR, OTHER], _taken(AT, "a"), None)
    assert floors.begin([PAIR, OTHER], now=0.0) == [(AT, "a"), (AT, "a")]


def test_after_a_claim_that_took_all_they_begin_a_little_before_it() -> None:
    floors = Floors()
    floors.walked(LONG, MANY, now=0.0)
    floors.took([PAIR], None, AT)
    [place] = floors.begin([PAIR], now=0.0)
    assert place is not None
    assert place[0] == AT - LATE
    floors.took([PAIR], _taken(AT, "a"), AT + LATE / 2)
    assert floors.begin([PAIR], now=0.0) == [(AT, "a")]


def test_they_begin_at_the_beginning_again_after_ten_times_as_long_as_the_walk_took() -> None:
    floors = Floors()
    floors.walked(LONG, MANY, now=100.0)
    floors.took([PAIR], _taken(AT, "a"), None)
    assert floors.begin([PAIR], now=100.0 + SPAN * LONG * 0.99) == [(AT, "a")]
    assert floors.begin([PAIR], now=100.0 + SPAN * LONG) == [None]


def test_a_quick_walk_ends_it() -> None:
    floors = Floors()
    floors.took([PAIR], _taken(AT, "a"), None)
    floors.walked(LONG, MANY, now=0.0)
    floors.walked(SLOW / 2, MANY, now=0.0)
    assert floors.begin([PAIR], now=0.0) == [None]


def test_a_wake_up_looks_from_ever_while_walks_are_quick() -> None:
    floor = DueFloor()
    floor.walked(None, AT, SLOW / 2, MANY, now=0.0)
    assert floor.begin(now=0.0) is None
    assert floor.known is None


def test_after_a_slow_walk_wake_ups_look_a_little_before_where_it_ended() -> None:
    floor = DueFloor()
    floor.walked(None, AT, LONG, MANY, now=0.0)
    assert floor.begin(now=SPAN * LONG * 0.99) == floor.known == AT - LATE
    floor.walked(AT - LATE, AT + timedelta(1), SLOW / 2, MANY, now=0.0)
    assert floor.known == AT + timedelta(1) - LATE


def test_after_ten_times_as_long_a_wake_up_looks_from_ever_and_claims_do_not() -> None:
    floor = DueFloor()
    floor.walked(None, AT, LONG, MANY, now=100.0)
    assert floor.begin(now=100.0 + SPAN * LONG) is None
    assert floor.known == AT - LATE
    floor.walked(None, AT, SLOW / 2, MANY, now=200.0)
    assert floor.known is None


class TestClaims:
    """Claims after one whose walk was so slow that its floor holds for ever."""

    @pytest.fixture
    async def world(self, database: str) -> AsyncIterator[PostgresWorld]:
        async with a_world(database) as world:
            yield world

    @pytest.fixture
    async def holder(self, world: PostgresWorld) -> Holder:
        return await a_holder(world.storage)

    async def test_a_claim_goes_on_where_the_last_one_ended(self, world: PostgresWorld, holder: Holder) -> None:
        first, second, third = (a_run() for _ in range(3))
        for run in (first, second, third):
            await world.storage.start([run])
        assert [run.id for run in (await holder.claim(1)).runs] == [first.id]
        world.postgres._floors.walked(1e9, MANY, now=0.0)
        urgent = a_run(priority=Priority.CRITICAL)
        await world.storage.start([urgent])
        assert [run.id for run in (await holder.claim(1)).runs] == [second.id]

    async def test_a_claim_that_comes_back_short_names_the_time_of_the_next_walk(
        self, world: PostgresWorld, holder: Holder
    ) -> None:
        first, second = a_run(), a_run()
        for run in (first, second):
            await world.storage.start([run])
        assert [run.id for run in (await holder.claim(1)).runs] == [first.id]
        world.postgres._floors.walked(60.0, MANY, now=time.monotonic())
        urgent = a_run(priority=Priority.CRITICAL)
        await world.storage.start([urgent])
        claim = await holder.claim(5)
        assert [run.id for run in claim.runs] == [second.id]
        assert claim.next_due is not None
        assert timedelta(0) < claim.next_due - claim.now <= timedelta(seconds=60 * SPAN)
        world.postgres._floors.walked(SLOW / 2, MANY, now=time.monotonic())
        assert [run.id for run in (await holder.claim(5)).runs] == [urgent.id]

    async def test_a_queue_that_was_paused_begins_where_it_was(self, world: PostgresWorld, holder: Holder) -> None:
        world.postgres._floors.walked(1e9, MANY, now=0.0)
        await world.storage.pause("q")
        waiting = a_run(due_in=-60.0)
        await world.storage.start([waiting])
        assert await holder.ready() == []
        await world.storage.resume("q")
        assert await holder.ready() == [waiting.id]

    async def test_what_falls_due_is_found_behind_the_floor(self, world: PostgresWorld, holder: Holder) -> None:
        now = (await holder.claim(5)).now
        world.postgres._due_floor.walked(None, now, 1e9, MANY, now=time.monotonic())
        late = a_run(due_in=-1.0)
        soon = a_run(due_in=3600.0)
        await world.storage.start([late, soon])
        claim = await holder.claim(5)
        assert [run.id for run in claim.runs] == [late.id]
        assert claim.next_due is not None
        assert timedelta(0) < claim.next_due - claim.now <= timedelta(hours=1)
        assert await world.storage.wake_due(10) == 0


class TestReach:
    """Ready runs that somebody's open transaction holds delay themselves and nobody else."""

    @pytest.fixture
    async def world(self, database: str) -> AsyncIterator[PostgresWorld]:
        async with a_world(database) as world:
            yield world

    @pytest.mark.parametrize("held", [2, 40, 300])
    async def test_a_claim_reaches_behind_what_somebody_holds(self, world: PostgresWorld, held: int) -> None:
        holder = await a_holder(world.storage)
        await world.storage.start([a_run() for _ in range(held)])
        free = a_run()
        await world.storage.start([free])
        async with world.connection.transaction():
            await world.connection.execute("select from runnerq.live where run_id <> $1 for update", free.id)
            assert [run.id for run in (await holder.claim(1)).runs] == [free.id]
            assert await holder.ready() == []
        assert len((await holder.claim(500)).runs) == held

    async def test_runs_come_by_rank_however_many_reaches_it_took(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        first, *held, last = new = [a_run() for _ in range(30)]
        for run in new:
            await world.storage.start([run])
        async with world.connection.transaction():
            ids = [run.id for run in held]
            await world.connection.execute("select from runnerq.live where run_id = any($1) for update", ids)
            assert [run.id for run in (await holder.claim(2)).runs] == [first.id, last.id]
