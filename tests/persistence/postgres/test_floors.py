"""Where claims begin while dead rows slow the walk to what is ready, and how far they reach while somebody holds it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from runnerq.persistence.postgres.floors import DEAD, SLOW, SPAN, Floors
from runnerq.persistence.records import Priority
from runnerq.testing.conformance.world import Holder, a_holder, a_run
from tests.persistence.postgres.backend import PostgresWorld, a_world

PAIR, OTHER = ("q", "order@1"), ("q", "work")
AT = datetime(2025, 6, 1, tzinfo=UTC)
LONG = 2 * SLOW
MANY = 2 * DEAD


def _taken(rank: datetime, run_id: str) -> dict[str, object]:
    return {"queue": "q", "served": "order@1", "rank": rank, "run_id": run_id}


def test_claims_begin_at_the_beginning() -> None:
    floors = Floors()
    floors.took([_taken(AT, "a")])
    floors.walked(SLOW / 2, MANY, now=0.0)
    assert floors.begin([PAIR], now=0.0) == [None]


def test_a_walk_that_is_slow_for_no_dead_rows_changes_nothing() -> None:
    floors = Floors()
    floors.took([_taken(AT, "a")])
    floors.walked(LONG, DEAD, now=0.0)
    assert floors.begin([PAIR], now=0.0) == [None]


def test_after_a_slow_walk_they_begin_where_the_last_one_ended() -> None:
    floors = Floors()
    floors.walked(LONG, MANY, now=0.0)
    floors.took([_taken(AT, "a"), _taken(AT + timedelta(1), "b")])
    assert floors.begin([PAIR, OTHER], now=0.0) == [(AT + timedelta(1), "b"), None]


def test_they_begin_at_the_beginning_again_after_ten_times_as_long_as_the_walk_took() -> None:
    floors = Floors()
    floors.walked(LONG, MANY, now=100.0)
    floors.took([_taken(AT, "a")])
    assert floors.begin([PAIR], now=100.0 + SPAN * LONG * 0.99) == [(AT, "a")]
    assert floors.begin([PAIR], now=100.0 + SPAN * LONG) == [None]


def test_a_quick_walk_ends_it() -> None:
    floors = Floors()
    floors.took([_taken(AT, "a")])
    floors.walked(LONG, MANY, now=0.0)
    floors.walked(None, MANY, now=0.0)
    assert floors.begin([PAIR], now=0.0) == [None]


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

    async def test_a_claim_that_would_come_back_short_begins_anew(self, world: PostgresWorld, holder: Holder) -> None:
        first, second = a_run(), a_run()
        for run in (first, second):
            await world.storage.start([run])
        assert [run.id for run in (await holder.claim(1)).runs] == [first.id]
        world.postgres._floors.walked(1e9, MANY, now=0.0)
        urgent = a_run(priority=Priority.CRITICAL)
        await world.storage.start([urgent])
        claim = await holder.claim(5)
        assert [run.id for run in claim.runs] == [urgent.id, second.id]
        assert len({run.token for run in claim.runs}) == 1


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
