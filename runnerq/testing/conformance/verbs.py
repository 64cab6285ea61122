"""What a person asks of one run: that it goes on now, at another time, or before others."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from runnerq.ids import new_run_id
from runnerq.persistence.records import (
    GOING,
    HEAD_START,
    Attempt,
    Back,
    Changed,
    Claimed,
    Move,
    Park,
    Priority,
    Status,
    Stuck,
    Verdict,
)
from runnerq.testing.conformance.world import (
    AT,
    COMPLETED,
    Holder,
    World,
    a_holder,
    a_row,
    a_run,
    a_signal,
    an_activity,
    look,
)

CHANGED, UNCHANGED, REFUSED, UNKNOWN = Changed.CHANGED, Changed.UNCHANGED, Changed.REFUSED, Changed.UNKNOWN


class TestRunNow:
    async def test_a_delayed_run_is_ready(self, world: World) -> None:
        new = a_run(due_in=3600.0)
        await world.storage.start([new])
        assert await world.storage.run_now(new.id) is CHANGED
        record = await look(world.storage, new.id)
        assert (record.status, record.due_at) == (Status.PENDING, None)
        assert await (await a_holder(world.storage)).ready() == [new.id]

    async def test_it_queues_up_from_then_on(self, world: World) -> None:
        now = await world.storage.now()
        waiting, delayed = a_run(due_at=now - timedelta(seconds=60)), a_run(due_at=now + timedelta(seconds=60))
        await world.storage.start([delayed, waiting])
        await world.storage.run_now(delayed.id)
        later = a_run(due_at=await world.storage.now() + timedelta(milliseconds=1))
        await world.storage.start([later])
        await world.advance(1)
        await world.storage.wake_due(10)
        holder = await a_holder(world.storage)
        assert [(await holder.claim(1)).runs[0].id for _ in range(3)] == [waiting.id, delayed.id, later.id]

    async def test_an_activity_between_two_attempts_is_ready_and_keeps_its_attempts(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(an_activity())
        await _failed(holder, run, "", Back(due_at=await _in(world, 3600)))
        assert (await look(world.storage, run.id)).status is Status.RETRYING
        assert await world.storage.run_now(run.id) is CHANGED
        [attempt] = (await holder.take_again(run)).attempts
        assert (attempt.number, attempt.next_at is not None and attempt.next_at <= await world.storage.now()) == (
            1,
            True,
        )

    async def test_a_parked_run_between_two_attempts_of_a_step_has_the_next_one_due_now(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        next_at = await _in(world, 3600)
        await _failed(holder, run, "1", Park(signals=("go",), due_at=next_at))
        assert await world.storage.run_now(run.id) is CHANGED
        again = await holder.take_again(run)
        [attempt] = again.attempts
        assert (attempt.position, attempt.number, attempt.details) == ("1", 1, '"half"')
        assert attempt.next_at is not None
        assert attempt.next_at <= await world.storage.now() < next_at
        assert await holder.commit(again, Park(signals=("go",))) is Verdict.DONE

    async def test_whoever_keeps_its_generator_goes_on_with_that(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await _failed(holder, run, "1", Park(due_at=await _in(world, 3600)))
        await world.storage.run_now(run.id)
        [again] = (await holder.claim(held={run.id: run.token})).runs
        assert (again.id, again.resumed, again.rows) == (run.id, True, ())
        [attempt] = again.attempts
        assert attempt.next_at is not None
        assert attempt.next_at <= await world.storage.now()

    async def test_an_attempt_that_is_due_before_now_stays_so(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        next_at = await _in(world, -10)
        await _failed(holder, run, "1", Park(due_at=await _in(world, 10)), next_at=next_at)
        assert await world.storage.run_now(run.id) is CHANGED
        assert (await holder.take_again(run)).attempts[0].next_at == next_at

    async def test_a_run_that_crashed_does_not_wait_for_its_backoff(self, world: World) -> None:
        run_id = await _crashed_twice(world)
        assert (await look(world.storage, run_id)).status is Status.RETRYING
        assert await world.storage.run_now(run_id) is CHANGED
        [run] = (await (await a_holder(world.storage)).claim()).runs
        assert (run.id, run.crashes) == (run_id, 2)

    @pytest.mark.parametrize("move", [Park(signals=("go",)), Park(children=None), Stuck(message="m", build="b1")])
    async def test_a_run_that_waits_for_something_else_is_refused(self, world: World, move: Move) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, move, rows=(a_row(0),))
        assert await world.storage.run_now(run.id) is REFUSED
        assert await holder.ready() == []

    async def test_a_plain_sleep_is_not_cut_short(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        due_at = await _in(world, 60)
        details = Attempt(position="2", number=1, error="{}", at=AT, next_at=None)
        await holder.commit(run, Park(due_at=due_at), attempts=(details,))
        assert await world.storage.run_now(run.id) is REFUSED
        assert (await look(world.storage, run.id)).due_at == due_at

    async def test_ready_and_running_runs_are_as_they_should_be(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        new = a_run()
        await world.storage.start([new])
        before = await look(world.storage, new.id)
        assert [await world.storage.run_now(each) for each in (run.id, new.id)] == [UNCHANGED] * 2
        assert await look(world.storage, new.id) == before
        assert await holder.commit(run, COMPLETED) is Verdict.DONE

    async def test_ended_and_unknown_runs_are_told_apart(self, world: World) -> None:
        run_id = await _ended(world)
        assert await world.storage.run_now(run_id) is REFUSED
        assert await world.storage.run_now(new_run_id()) is UNKNOWN

    async def test_fifty_callers_at_once_change_it_once(self, world: World) -> None:
        new = a_run(due_in=3600.0)
        await world.storage.start([new])
        storages = (world.storage, await world.another())
        answers = await asyncio.gather(*(storages[number % 2].run_now(new.id) for number in range(50)))
        assert sorted(answers) == [CHANGED] + [UNCHANGED] * 49


class TestReschedule:
    async def test_a_delayed_run_becomes_due_at_the_other_time(self, world: World) -> None:
        new = a_run(due_in=10.0)
        await world.storage.start([new])
        at = await _in(world, 60)
        assert await world.storage.reschedule(new.id, at) is CHANGED
        record = await look(world.storage, new.id)
        assert (record.status, record.due_at) == (Status.SCHEDULED, at)
        await world.advance(11)
        assert await world.storage.wake_due(10) == 0
        await world.advance(50)
        assert await world.storage.wake_due(10) == 1

    async def test_a_ready_run_is_put_off(self, world: World) -> None:
        new = a_run()
        await world.storage.start([new])
        assert await world.storage.reschedule(new.id, await _in(world, 60)) is CHANGED
        holder = await a_holder(world.storage)
        assert await holder.ready() == []
        await world.advance(61)
        await world.storage.wake_due(10)
        assert await holder.ready() == [new.id]

    async def test_a_time_in_the_past_makes_it_ready_and_counts_for_its_rank(self, world: World) -> None:
        old, new = a_run(due_at=await _in(world, -60)), a_run(due_in=60.0)
        await world.storage.start([old, new])
        assert await world.storage.reschedule(new.id, await _in(world, -120)) is CHANGED
        assert (await look(world.storage, new.id)).due_at is None
        holder = await a_holder(world.storage)
        assert [(await holder.claim(1)).runs[0].id for _ in range(2)] == [new.id, old.id]

    async def test_the_next_attempt_of_an_activity_is_put_off(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(an_activity())
        await _failed(holder, run, "", Back(due_at=await _in(world, 10)))
        at = await _in(world, 60)
        assert await world.storage.reschedule(run.id, at) is CHANGED
        record, journal = await look(world.storage, run.id), await world.storage.journal(run.id)
        assert (record.status, record.due_at) == (Status.RETRYING, at)
        assert journal is not None
        assert [each.next_at for each in journal.attempts] == [at]

    async def test_the_same_time_again_changes_nothing(self, world: World) -> None:
        new, at = a_run(), await _in(world, 60)
        await world.storage.start([new])
        assert [await world.storage.reschedule(new.id, at) for _ in range(2)] == [CHANGED, UNCHANGED]

    async def test_a_time_beyond_all_calendars_stops_no_claim(self, world: World) -> None:
        new, other = a_run(), a_run()
        await world.storage.start([new, other])
        assert await world.storage.reschedule(new.id, datetime.max.replace(tzinfo=AT.tzinfo)) is CHANGED
        holder = await a_holder(world.storage)
        assert await holder.ready() == [other.id]
        assert (await holder.claim()).next_due is not None

    async def test_a_time_in_the_first_year_stops_no_claim(self, world: World) -> None:
        new, other = a_run(), a_run(priority=Priority.NORMAL)
        await world.storage.start([new, other])
        first = datetime.min.replace(tzinfo=AT.tzinfo) + timedelta(seconds=1)
        assert await world.storage.reschedule(new.id, first) is CHANGED
        assert await world.storage.set_priority(new.id, Priority.HIGH) is CHANGED
        holder = await a_holder(world.storage)
        assert await holder.ready() == [new.id, other.id]

    @pytest.mark.parametrize("move", [GOING, Park(signals=("go",)), Stuck(message="m", build="b1"), COMPLETED])
    async def test_a_run_that_is_not_pending_is_refused(self, world: World, move: Move) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, move, rows=(a_row(0),))
        before = await look(world.storage, run.id)
        assert await world.storage.reschedule(run.id, await _in(world, 60)) is REFUSED
        assert await look(world.storage, run.id) == before

    async def test_a_run_that_is_to_cancel_is_not_put_off(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(an_activity())
        await holder.commit(run, Back(due_at=await _in(world, 60)))
        await world.storage.cancel([run.id])
        assert await world.storage.reschedule(run.id, await _in(world, 60)) is REFUSED
        assert await holder.ready() == [run.id]

    async def test_an_unknown_run_is_unknown(self, world: World) -> None:
        assert await world.storage.reschedule(new_run_id(), AT) is UNKNOWN

    async def test_fifty_callers_at_once_leave_it_with_one_of_their_times(self, world: World) -> None:
        new, now = a_run(), await world.storage.now()
        await world.storage.start([new])
        times = [now + timedelta(seconds=100 + number) for number in range(50)]
        storages = (world.storage, await world.another())
        work = (storages[number % 2].reschedule(new.id, at) for number, at in enumerate(times))
        assert await asyncio.gather(*work) == [CHANGED] * 50
        assert (await look(world.storage, new.id)).due_at in times


class TestPriority:
    async def test_a_run_goes_before_others_that_were_before_it(self, world: World) -> None:
        first, second = a_run(), a_run()
        await world.storage.start([first])
        await world.storage.start([second])
        assert await world.storage.set_priority(second.id, Priority.HIGH) is CHANGED
        holder = await a_holder(world.storage)
        claimed = [(await holder.claim(1)).runs[0] for _ in range(2)]
        assert [(run.id, run.priority) for run in claimed] == [(second.id, Priority.HIGH), (first.id, Priority.NORMAL)]

    @pytest.mark.parametrize("priority", [Priority.CRITICAL, Priority.HIGH, Priority.LOW])
    async def test_its_head_start_is_that_of_the_new_priority_from_when_it_became_ready(
        self, world: World, priority: Priority
    ) -> None:
        now = await world.storage.now()
        start = timedelta(seconds=HEAD_START[priority])
        changed = a_run(due_at=now - timedelta(seconds=3600))
        before = a_run(due_at=now - timedelta(seconds=3601) - start)
        behind = a_run(due_at=now - timedelta(seconds=3599) - start)
        await world.storage.start([behind, changed, before])
        await world.advance(7200)
        await world.storage.wake_due(10)
        await world.storage.set_priority(changed.id, priority)
        holder = await a_holder(world.storage)
        order = [(await holder.claim(1)).runs[0].id for _ in range(3)]
        assert order == [before.id, changed.id, behind.id]

    async def test_a_delayed_run_has_it_when_it_is_due(self, world: World) -> None:
        first, second = a_run(due_in=10.0), a_run(due_in=11.0)
        await world.storage.start([first, second])
        await world.storage.set_priority(second.id, Priority.HIGH)
        await world.advance(20)
        await world.storage.wake_due(10)
        assert [run.id for run in (await (await a_holder(world.storage)).claim(1)).runs] == [second.id]

    async def test_a_parked_run_has_it_when_it_is_woken_and_when_it_is_opened_again(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Park(signals=("go",)))
        assert await world.storage.set_priority(run.id, Priority.LOW) is CHANGED
        await world.storage.send([a_signal(run.id)])
        assert (await holder.take_again(run)).priority == Priority.LOW
        assert (await look(world.storage, run.id)).priority == Priority.LOW

    async def test_a_running_run_goes_on_and_has_it_at_its_next_claim(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        assert await world.storage.set_priority(run.id, Priority.HIGH) is CHANGED
        assert await holder.commit(run, Back()) is Verdict.DONE
        assert (await holder.take_again(run)).priority == Priority.HIGH

    async def test_the_same_priority_changes_nothing(self, world: World) -> None:
        new = a_run(priority=Priority.HIGH)
        await world.storage.start([new])
        assert await world.storage.set_priority(new.id, Priority.HIGH) is UNCHANGED

    async def test_ended_and_unknown_runs_are_told_apart(self, world: World) -> None:
        run_id = await _ended(world)
        assert await world.storage.set_priority(run_id, Priority.HIGH) is REFUSED
        assert await world.storage.set_priority(new_run_id(), Priority.HIGH) is UNKNOWN
        assert (await look(world.storage, run_id)).priority == Priority.NORMAL

    async def test_fifty_callers_at_once_leave_rank_and_priority_of_one_kind(self, world: World) -> None:
        now = await world.storage.now()
        new, other = a_run(due_at=now - timedelta(seconds=60)), a_run(due_at=now - timedelta(seconds=30))
        await world.storage.start([new, other])
        storages = (world.storage, await world.another())
        work = (storages[number % 2].set_priority(new.id, number % 4) for number in range(50))
        assert REFUSED not in await asyncio.gather(*work)
        await world.storage.set_priority(new.id, Priority.NORMAL)
        holder = await a_holder(world.storage)
        assert [(await holder.claim(1)).runs[0].id for _ in range(2)] == [new.id, other.id]


async def _in(world: World, seconds: float) -> datetime:
    return await world.storage.now() + timedelta(seconds=seconds)


async def _failed(
    holder: Holder, run: Claimed, position: str, move: Park | Back, next_at: datetime | None = None
) -> None:
    """An attempt has failed, and the next one is due when the run is, or then."""
    attempt = Attempt(position=position, number=1, error="{}", at=AT, next_at=next_at or move.due_at, details='"half"')
    rows = (a_row(0),) if position else ()
    assert await holder.commit(run, move, rows=rows, attempts=(attempt,)) is Verdict.DONE


async def _crashed_twice(world: World) -> str:
    new = a_run()
    await world.storage.start([new])
    for _ in range(2):
        lost = await a_holder(world.storage, lease=10)
        assert await lost.ready() == [new.id]
        await world.advance(11)
        reaper = await a_holder(world.storage)
        assert len(await world.storage.reap(reaper.id, 1, 10)) == 1
    return new.id


async def _ended(world: World) -> str:
    holder = await a_holder(world.storage)
    run = await holder.start(a_run())
    await holder.commit(run, COMPLETED)
    return run.id
