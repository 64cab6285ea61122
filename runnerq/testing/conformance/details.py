"""What attempts say of themselves with the beat: kept until they are answered, and never brought back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runnerq.ids import new_token
from runnerq.persistence.records import GOING, Attempt, Back, Claimed, End, Park, Renew, Reopen, Turn, Verdict
from runnerq.testing.conformance.world import (
    AT,
    COMPLETED,
    Beating,
    World,
    a_holder,
    a_row,
    a_run,
    a_turn,
    an_activity,
    details_of,
)


class TestDetails:
    async def test_they_are_there_for_the_next_attempt_also_after_a_crash(self, world: World) -> None:
        gone, reaper = await a_holder(world.storage, lease=5), await a_holder(world.storage)
        run, work = await gone.start(a_run()), await gone.start(an_activity())
        before = await world.storage.now()
        async with Beating(world.storage, gone) as heart:
            await heart.beat(details_of(run, '"row 6"'), details_of(work, "6", ""))
            pulse = await heart.beat(details_of(run, '"row  7"'), details_of(work, '{"a": 7}', ""))
        assert (pulse.alive, pulse.held_back) == (True, ())
        await world.advance(6)
        await world.storage.reap(reaper.id, new_token(), 10)
        claimed = {each.id: each for each in (await reaper.claim()).runs}
        [kept] = claimed[run.id].attempts
        assert (kept.position, kept.number, kept.error, kept.next_at) == ("1", 0, None, None)
        assert kept.details == '"row  7"'
        assert before <= kept.at <= await world.storage.now()
        [kept] = claimed[work.id].attempts
        assert (kept.position, kept.number, kept.details) == ("", 0, '{"a": 7}')

    async def test_they_keep_the_number_of_failures_and_the_last_error(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        failed = Attempt(position="1", number=2, error='{"e":2}', at=AT, next_at=AT, details="1")
        await holder.commit(run, GOING, attempts=(failed,))
        async with Beating(world.storage, holder) as heart:
            await heart.beat(details_of(run, "2", failures=2))
        assert await _attempts(world, run) == (
            Attempt(position="1", number=2, error='{"e":2}', at=AT, next_at=AT, details="2"),
        )

    async def test_what_an_earlier_attempt_said_changes_nothing(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        failed = Attempt(position="1", number=1, error="{}", at=AT, next_at=AT, details='"last"')
        await holder.commit(run, GOING, attempts=(failed,))
        async with Beating(world.storage, holder) as heart:
            await heart.beat(details_of(run, '"late"', failures=0))
        assert await _attempts(world, run) == (failed,)

    async def test_a_failed_attempt_replaces_what_was_said(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with Beating(world.storage, holder) as heart:
            await heart.beat(details_of(run, "1"))
        failed = Attempt(position="1", number=1, error="{}", at=AT, next_at=AT, details="2")
        await holder.commit(run, GOING, attempts=(failed,))
        assert await _attempts(world, run) == (failed,)

    async def test_they_go_with_the_answer(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with Beating(world.storage, holder) as heart:
            await heart.beat(details_of(run, "1", "1"), details_of(run, "2", "2"))
            await holder.commit(run, GOING, rows=(a_row(0),), settled=("1",))
        [kept] = await _attempts(world, run)
        assert (kept.position, kept.details) == ("2", "2")
        await holder.commit(run, COMPLETED)
        assert await _attempts(world, run) == ()

    async def test_one_that_comes_after_the_answer_does_not_bring_the_attempt_back(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with Beating(world.storage, holder) as heart:
            await holder.commit(run, GOING, rows=(a_row(0),), settled=("1",))
            assert (await heart.beat(details_of(run, "1", "1"), details_of(run, "2", "2"))).held_back == ()
            await heart.beat(details_of(run, "1", "1"))
        assert [kept.position for kept in await _attempts(world, run)] == ["2"]
        await holder.commit(run, Back())
        assert [kept.position for kept in (await holder.take_again(run)).attempts] == ["2"]

    async def test_a_turn_that_fails_an_attempt_and_answers_it_leaves_nothing(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        failed = Attempt(position="1", number=1, error="{}", at=AT, next_at=None)
        await holder.commit(run, GOING, rows=(a_row(0),), attempts=(failed,), settled=("1", "1"))
        assert await _attempts(world, run) == ()

    @pytest.mark.parametrize("move", [Back(), Park(signals=("go",)), COMPLETED])
    async def test_a_run_that_was_left_takes_none(self, world: World, move: Back | Park | End) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, move)
        async with Beating(world.storage, holder) as heart:
            await heart.beat(details_of(run, "1"))
        assert await _attempts(world, run) == ()

    async def test_those_of_another_token_change_nothing(self, world: World) -> None:
        stale, holder = await a_holder(world.storage), await a_holder(world.storage)
        run = await stale.start(a_run())
        await stale.commit(run, Back())
        again = await holder.take_again(run)
        async with Beating(world.storage, stale) as late, Beating(world.storage, holder) as heart:
            await heart.beat(details_of(again, '"mine"'))
            assert (await late.beat(details_of(run, '"stale"'))).held_back == ()
        [kept] = await _attempts(world, run)
        assert kept.details == '"mine"'

    async def test_those_of_an_earlier_generation_change_nothing(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with Beating(world.storage, holder) as heart:
            await heart.beat(details_of(run, "1"))
            assert await holder.commit(run, Renew(started=a_row(0, "", kind="started"))) is Verdict.DONE
            await heart.beat(details_of(run, '"late"'))
            assert await _attempts(world, run) == ()
            await heart.beat(details_of(run, '"new"', generation=2))
        [kept] = await _attempts(world, run)
        assert kept.details == '"new"'

    async def test_what_was_answered_in_one_generation_may_speak_in_the_next(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, GOING, rows=(a_row(0),), settled=("1",))
        await holder.commit(run, Renew(started=a_row(0, "", kind="started")))
        async with Beating(world.storage, holder) as heart:
            await heart.beat(details_of(run, "1", generation=2))
        [kept] = await _attempts(world, run)
        assert kept.details == "1"

    async def test_a_run_that_is_opened_again_has_none_and_may_speak_again(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with Beating(world.storage, holder) as heart:
            await heart.beat(details_of(run, "1"))
            await holder.commit(run, GOING, rows=(a_row(0),), settled=("1",))
            await holder.commit(run, End(status="failed", error="{}"))
            assert await world.storage.reopen(Reopen(run_id=run.id, generation=1, status="failed"))
            again = await holder.take_again(run)
            assert again.attempts == ()
            await heart.beat(details_of(again, "2"))
        [kept] = await _attempts(world, run)
        assert (kept.number, kept.details) == (0, "2")

    async def test_of_two_at_one_position_the_last_counts(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with Beating(world.storage, holder) as heart:
            await heart.beat(details_of(run, "1"), details_of(run, "2"))
        [kept] = await _attempts(world, run)
        assert kept.details == "2"

    async def test_a_reaped_worker_keeps_none(self, world: World) -> None:
        gone, reaper = await a_holder(world.storage, lease=5), await a_holder(world.storage)
        run = await gone.start(a_run())
        async with Beating(world.storage, gone) as heart:
            await world.advance(6)
            await world.storage.reap(reaper.id, new_token(), 10)
            assert not (await heart.beat(details_of(run, "1"))).alive
        assert await _attempts(world, run) == ()

    async def test_a_run_that_only_said_something_is_between_attempts(self, world: World) -> None:
        holder = await a_holder(world.storage)
        now = await world.storage.now()
        ran = await holder.start(an_activity())
        fresh = an_activity(due_at=now + timedelta(hours=1))
        await world.storage.start([fresh])
        async with Beating(world.storage, holder) as heart:
            await heart.beat(details_of(ran, "1", ""))
        turn: Turn = a_turn(ran, Back(due_at=now + timedelta(hours=1)))
        assert await world.storage.commit([turn]) == [Verdict.DONE]
        shown = [await world.storage.run(run_id) for run_id in (ran.id, fresh.id)]
        assert [record and record.status for record in shown] == ["retrying", "scheduled"]


async def _attempts(world: World, run: Claimed) -> tuple[Attempt, ...]:
    journal = await world.storage.journal(run.id)
    assert journal is not None, f"run {run.id} is known"
    return journal.attempts
