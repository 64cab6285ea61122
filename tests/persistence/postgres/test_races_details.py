"""What attempts say of themselves, against the turns of their own worker: neither waits for the other."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from runnerq.persistence.postgres.documents import details_parameters
from runnerq.persistence.postgres.upkeep import Upkeep
from runnerq.persistence.records import GOING, Attempt, Back, Claimed, Details, End, Renew, Reopen, Verdict
from runnerq.testing.conformance.world import (
    AT,
    COMPLETED,
    Beating,
    Holder,
    a_holder,
    a_row,
    a_run,
    a_turn,
    details_of,
)
from tests.persistence.postgres.backend import PostgresWorld
from tests.persistence.postgres.interleaving import stopped

pytestmark = pytest.mark.asyncio(loop_scope="module")

FAILED = End(status="failed", error="{}")
RENEW = Renew(started=a_row(0, "", kind="started"))
ATTEMPT = Attempt(position="1", number=1, error="{}", at=AT, next_at=AT)


class TestBeatIsLate:
    """The beat stands between its snapshot and its locks while the worker writes."""

    async def test_the_step_is_answered_and_stays_so(self, world: PostgresWorld) -> None:
        holder, run = await _held(world)
        async with stopped(world, "keep_details") as gate:
            beat = await gate.begin(_keep(gate.writes, details_of(run, "1", "1"), details_of(run, "2", "2")))
            await holder.commit(run, GOING, rows=(a_row(0),), settled=("1",))
            await gate.go()
            assert await beat == []
        assert [kept.position for kept in await _attempts(world, run)] == ["2"]

    async def test_the_step_had_failed_before_and_is_answered(self, world: PostgresWorld) -> None:
        holder, run = await _held(world)
        await holder.commit(run, GOING, attempts=(ATTEMPT,))
        async with stopped(world, "keep_details") as gate:
            beat = await gate.begin(_keep(gate.writes, details_of(run, "1", failures=1)))
            await holder.commit(run, GOING, rows=(a_row(0),), settled=("1",))
            await gate.go()
            await beat
        assert await _attempts(world, run) == ()

    async def test_the_attempt_fails_with_newer_words(self, world: PostgresWorld) -> None:
        holder, run = await _held(world)
        failed = Attempt(position="1", number=1, error="{}", at=AT, next_at=AT, details='"last"')
        async with stopped(world, "keep_details") as gate:
            beat = await gate.begin(_keep(gate.writes, details_of(run, '"late"')))
            await holder.commit(run, GOING, attempts=(failed,))
            await gate.go()
            await beat
        assert await _attempts(world, run) == (failed,)

    async def test_the_run_ends(self, world: PostgresWorld) -> None:
        holder, run = await _held(world)
        async with stopped(world, "keep_details") as gate:
            beat = await gate.begin(_keep(gate.writes, details_of(run, "1")))
            await holder.commit(run, COMPLETED)
            await gate.go()
            await beat
        assert await _rows(world, run) == []

    async def test_the_generation_ends(self, world: PostgresWorld) -> None:
        holder, run = await _held(world)
        async with stopped(world, "keep_details") as gate:
            beat = await gate.begin(_keep(gate.writes, details_of(run, "1")))
            await holder.commit(run, RENEW)
            await gate.go()
            await beat
        assert await _rows(world, run) == []

    async def test_somebody_else_holds_the_run(self, world: PostgresWorld) -> None:
        holder, run = await _held(world)
        async with stopped(world, "keep_details") as gate:
            beat = await gate.begin(_keep(gate.writes, details_of(run, "1")))
            await holder.commit(run, Back())
            again = await holder.take_again(run)
            await gate.go()
            await beat
        assert again.token != run.token
        assert await _rows(world, run) == []


class TestBeatIsUnseen:
    """The turn stands between its snapshot and its locks while the beat writes: it does not see what that wrote."""

    async def test_the_answer_takes_it_away_nevertheless(self, world: PostgresWorld) -> None:
        holder, run = await _held(world)
        turn = a_turn(run, GOING, rows=(a_row(0),), settled=("1",))
        async with stopped(world, "commit") as gate, Beating(world.storage, holder) as heart:
            commit = await gate.begin(gate.writes.commit([turn]))
            await heart.beat(details_of(run, "1"))
            await gate.go()
            assert await commit == [Verdict.DONE]
        assert await _attempts(world, run) == ()

    async def test_the_answer_takes_away_what_it_changed(self, world: PostgresWorld) -> None:
        holder, run = await _held(world)
        await holder.commit(run, GOING, attempts=(ATTEMPT,))
        turn = a_turn(run, GOING, rows=(a_row(0),), settled=("1",))
        async with stopped(world, "commit") as gate, Beating(world.storage, holder) as heart:
            commit = await gate.begin(gate.writes.commit([turn]))
            await heart.beat(details_of(run, "1", failures=1))
            await gate.go()
            assert await commit == [Verdict.DONE]
        assert await _attempts(world, run) == ()

    async def test_a_failed_attempt_replaces_it(self, world: PostgresWorld) -> None:
        holder, run = await _held(world)
        async with stopped(world, "commit") as gate, Beating(world.storage, holder) as heart:
            commit = await gate.begin(gate.writes.commit([a_turn(run, GOING, attempts=(ATTEMPT,))]))
            await heart.beat(details_of(run, "1"))
            await gate.go()
            assert await commit == [Verdict.DONE]
        assert await _attempts(world, run) == (ATTEMPT,)

    async def test_an_ended_run_shows_none_and_is_opened_without_any(self, world: PostgresWorld) -> None:
        holder, run = await _held(world)
        async with stopped(world, "commit") as gate, Beating(world.storage, holder) as heart:
            commit = await gate.begin(gate.writes.commit([a_turn(run, FAILED)]))
            await heart.beat(details_of(run, "1"))
            await gate.go()
            assert await commit == [Verdict.DONE]
        assert await _attempts(world, run) == ()
        assert await world.storage.reopen(Reopen(run_id=run.id, generation=1, status="failed"))
        assert (await holder.take_again(run)).attempts == ()
        assert await _rows(world, run) == []

    async def test_the_next_generation_has_none_and_may_speak(self, world: PostgresWorld) -> None:
        holder, run = await _held(world)
        async with stopped(world, "commit") as gate, Beating(world.storage, holder) as heart:
            commit = await gate.begin(gate.writes.commit([a_turn(run, RENEW)]))
            await heart.beat(details_of(run, '"old"'))
            await gate.go()
            assert await commit == [Verdict.DONE]
            assert await _attempts(world, run) == ()
            await holder.commit(run, Back(), generation=2)
            again = await holder.take_again(run)
            assert (again.generation, again.attempts) == (2, ())
            await heart.beat(details_of(again, '"new"'))
        assert [(kept.number, kept.details) for kept in await _attempts(world, run)] == [(0, '"new"')]


class TestBeatIsInTheWay:
    async def test_those_of_a_held_row_are_named_and_the_others_kept(self, world: PostgresWorld) -> None:
        holder, run = await _held(world)
        other = await holder.start(a_run())
        async with Beating(world.storage, holder) as heart:
            async with world.connection.transaction():
                await world.connection.execute("select from runnerq.live where run_id = $1 for update", run.id)
                pulse = await heart.beat(details_of(run, "1"), details_of(run, "2", "2"), details_of(other, "3"))
                assert (pulse.alive, pulse.held_back) == (True, (run.id,))
            assert await _attempts(world, run) == ()
            assert [kept.details for kept in await _attempts(world, other)] == ["3"]
            assert (await heart.beat(details_of(run, "1"))).held_back == ()
        assert [kept.details for kept in await _attempts(world, run)] == ["1"]

    async def test_while_a_beat_writes_a_turn_is_busy_and_loses_nothing(self, world: PostgresWorld) -> None:
        _, run = await _held(world)
        connection = await asyncpg.connect(world.dsn)
        try:
            async with connection.transaction():
                keep = world.postgres._statements["keep_details"]
                await connection.fetch(keep, *details_parameters([details_of(run, "1")]))
                turn = a_turn(run, GOING, rows=(a_row(0),), settled=("1",))
                assert await world.storage.commit([turn]) == [Verdict.BUSY]
            assert await world.storage.commit([turn]) == [Verdict.DONE]
        finally:
            await connection.close()
        assert await _attempts(world, run) == ()

    async def test_a_refused_text_costs_neither_the_lease_nor_the_others(
        self, world: PostgresWorld, caplog: pytest.LogCaptureFixture
    ) -> None:
        holder, run = await _held(world)
        async with Beating(world.storage, holder) as heart:
            with caplog.at_level(logging.WARNING, "runnerq.postgres"):
                pulse = await heart.beat(details_of(run, "no json", "1"), details_of(run, "2", "2"))
            assert (pulse.alive, pulse.held_back) == (True, ())
        assert f"run {run.id}: the details of '1' are refused" in caplog.text
        assert [kept.position for kept in await _attempts(world, run)] == ["2"]

    async def test_details_that_the_server_cannot_write_now_cost_neither_the_beat_nor_its_connection(
        self, world: PostgresWorld, caplog: pytest.LogCaptureFixture
    ) -> None:
        holder, run = await _held(world)
        async with Beating(world.storage, holder) as heart:
            await heart.beat()
            presence = "select backend_pid, beat_at from runnerq.worker where id = $1"
            before = await world.connection.fetchrow(presence, holder.id)
            async with _full(world):
                with caplog.at_level(logging.WARNING, "runnerq.postgres"):
                    pulse = await heart.beat(details_of(run, "1"))
            after = await world.connection.fetchrow(presence, holder.id)
            assert (pulse.alive, pulse.held_back) == (True, (run.id,))
            assert before["backend_pid"] == after["backend_pid"]
            assert before["beat_at"] < after["beat_at"]
            assert "the details of 1 runs were not kept" in caplog.text
            assert (await heart.beat(details_of(run, "1"))).held_back == ()
        assert [kept.details for kept in await _attempts(world, run)] == ["1"]


class TestRows:
    @pytest.mark.parametrize("move", [COMPLETED, FAILED, RENEW])
    async def test_a_generation_that_is_over_leaves_none(self, world: PostgresWorld, move: End | Renew) -> None:
        holder, run = await _held(world)
        async with Beating(world.storage, holder) as heart:
            await heart.beat(details_of(run, "2", "2"))
        await holder.commit(run, GOING, rows=(a_row(0),), attempts=(ATTEMPT,), settled=("3",))
        assert sorted(await _rows(world, run)) == ["1", "2", "3"]
        await holder.commit(run, move)
        assert await _rows(world, run) == []


@asynccontextmanager
async def _full(world: PostgresWorld) -> AsyncIterator[None]:
    """The disk has no place for another attempt."""
    await world.connection.execute(
        "create function runnerq.full() returns trigger language plpgsql as"
        " $$ begin raise exception 'no space left' using errcode = '53100'; end $$;"
        "create trigger is_full before insert on runnerq.attempt execute function runnerq.full()"
    )
    try:
        yield
    finally:
        await world.connection.execute("drop function runnerq.full() cascade")


async def _held(world: PostgresWorld) -> tuple[Holder, Claimed]:
    holder = await a_holder(world.storage)
    return holder, await holder.start(a_run())


async def _keep(writes: Upkeep, *details: Details) -> list[str]:
    """What a beat does with them."""
    statement = writes._statements["keep_details"]
    return [record["run_id"] for record in await writes._connections.fetch(statement, *details_parameters(details))]


async def _attempts(world: PostgresWorld, run: Claimed) -> tuple[Attempt, ...]:
    journal = await world.storage.journal(run.id)
    assert journal is not None
    return journal.attempts


async def _rows(world: PostgresWorld, run: Claimed) -> list[str]:
    """The positions of all rows that are there, whether or not they are shown."""
    found = await world.connection.fetch("select position from runnerq.attempt where run_id = $1", run.id)
    return [record["position"] for record in found]
