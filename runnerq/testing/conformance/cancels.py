"""Cancel requests, in each state that a run can be in."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from runnerq.ids import new_run_id, new_token
from runnerq.persistence.records import Attempt, Back, Park, Sent, Stuck, Verdict
from runnerq.testing.conformance.world import AT, COMPLETED, Beating, World, a_child, a_holder, a_run, an_activity, look


class TestCancel:
    async def test_a_run_that_never_started_ends_at_once(self, world: World) -> None:
        new = a_run()
        await world.storage.start([new])
        assert await world.storage.cancel([new.id], "not needed") == [Sent.SENT]
        [outcome] = await world.storage.outcomes([new.id])
        assert (outcome.status, outcome.reason, outcome.cancel_requested) == ("cancelled", "not needed", True)
        assert await (await a_holder(world.storage)).ready() == []

    async def test_a_run_that_is_scheduled_ends_at_once(self, world: World) -> None:
        new = a_run(due_in=3600.0)
        await world.storage.start([new])
        assert await world.storage.cancel([new.id]) == [Sent.SENT]
        assert (await look(world.storage, new.id)).status == "cancelled"
        await world.advance(3601)
        assert await world.storage.wake_due(10) == 0

    async def test_a_child_that_never_started_tells_its_parent(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run, queue="elsewhere")
        await holder.commit(run, Park(children=(child.id,)), children=(child,))
        await world.storage.cancel([child.id], "x")
        again = await holder.take_again(run)
        assert [(each.run_id, each.status) for each in again.outcomes] == [(child.id, "cancelled")]
        assert again.seen == 1

    async def test_a_waiting_run_is_woken(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Park(signals=("go",), due_at=await _in(world, 3600)))
        assert await world.storage.cancel([run.id], "why") == [Sent.SENT]
        assert (await look(world.storage, run.id)).cancel_requested
        again = await holder.take_again(run)
        assert (again.cancel, again.seen) == ("why", 1)

    async def test_the_holder_of_a_running_run_hears_of_it(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        assert await world.storage.cancel([run.id], "why") == [Sent.SENT]
        assert (await look(world.storage, run.id)).status == "running"
        async with Beating(world.storage, holder) as heart:
            [arrival] = (await heart.beat()).arrivals
        assert (arrival.run_id, arrival.inbox, arrival.cancel) == (run.id, 1, "why")
        assert (await holder.inbox(run)).cancel == "why"
        assert await holder.commit(run, Park(signals=("go",))) is Verdict.AGAIN

    async def test_an_end_that_its_holder_wrote_before_hearing_of_it_is_marked(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        assert await world.storage.cancel([run.id], "too late") == [Sent.SENT]
        assert await holder.commit(run, COMPLETED) is Verdict.DONE
        [outcome] = await world.storage.outcomes([run.id])
        assert (outcome.status, outcome.cancel_requested) == ("completed", True)

    async def test_a_request_without_a_reason_is_a_request(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.storage.cancel([run.id])
        assert (await holder.inbox(run)).cancel is not None
        async with Beating(world.storage, holder) as heart:
            [arrival] = (await heart.beat()).arrivals
        assert arrival.cancel is not None
        await holder.commit(run, Back(), seen=1)
        assert (await holder.take_again(run)).cancel is not None

    async def test_a_started_run_that_was_given_back_is_left_to_a_worker(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Back())
        assert await world.storage.cancel([run.id], "why") == [Sent.SENT]
        assert (await look(world.storage, run.id)).status == "pending"
        assert (await holder.take_again(run)).cancel == "why"

    async def test_a_run_between_two_attempts_is_woken(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(an_activity())
        await holder.commit(run, Back(due_at=await _in(world, 3600)), attempts=(_failed(),))
        assert await world.storage.cancel([run.id], "why") == [Sent.SENT]
        assert (await holder.take_again(run)).cancel == "why"

    async def test_a_cancel_that_came_before_the_run_was_given_back_does_not_wait_for_the_next_attempt(
        self, world: World
    ) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(an_activity())
        await world.storage.cancel([run.id], "why")
        await holder.commit(run, Back(due_at=await _in(world, 3600)), attempts=(_failed(),))
        assert (await holder.take_again(run)).cancel == "why"

    async def test_a_blocked_run_keeps_the_request_until_it_is_taken_up(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Stuck(message="m", build="b1"))
        assert await world.storage.cancel([run.id], "why") == [Sent.SENT]
        assert (await look(world.storage, run.id)).status == "blocked"
        assert await holder.ready() == []
        await world.storage.unblock("b2", ["order@1"], 10)
        assert (await holder.take_again(run)).cancel == "why"

    async def test_a_finished_run_is_left_alone(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, COMPLETED)
        assert await world.storage.cancel([run.id]) == [Sent.FINISHED]
        assert not (await look(world.storage, run.id)).cancel_requested

    async def test_requests_are_answered_in_order(self, world: World) -> None:
        holder = await a_holder(world.storage)
        ended, held, fresh, unknown = await holder.start(a_run()), await holder.start(a_run()), a_run(), new_run_id()
        await holder.commit(ended, COMPLETED)
        await world.storage.start([fresh])
        answers = await world.storage.cancel([unknown, held.id, ended.id, fresh.id])
        assert answers == [Sent.UNKNOWN, Sent.SENT, Sent.FINISHED, Sent.SENT]
        assert await world.storage.cancel([]) == []

    async def test_a_second_request_is_a_duplicate_and_counts_for_nothing(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        assert await world.storage.cancel([run.id], "first") == [Sent.SENT]
        assert await world.storage.cancel([run.id], "second") == [Sent.DUPLICATE]
        box = await holder.inbox(run)
        assert (box.cancel, box.seen) == ("first", 1)

    async def test_requests_side_by_side_count_once(self, world: World) -> None:
        storages = (world.storage, await world.another())
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        calls = [storages[number % 2].cancel([run.id], str(number)) for number in range(10)]
        answers = [answer for [answer] in await asyncio.gather(*calls)]
        assert sorted(answers) == [Sent.DUPLICATE] * 9 + [Sent.SENT]
        assert (await holder.inbox(run)).seen == 1

    async def test_a_request_survives_a_crash(self, world: World) -> None:
        gone, reaper = await a_holder(world.storage, lease=1), await a_holder(world.storage)
        run = await gone.start(a_run())
        await world.storage.cancel([run.id], "why")
        await world.advance(2)
        await world.storage.reap(reaper.id, new_token(), 10)
        assert (await reaper.take_again(run)).cancel == "why"


def _failed() -> Attempt:
    return Attempt(position="", number=1, error="{}", at=AT, next_at=None)


async def _in(world: World, seconds: float) -> datetime:
    return await world.storage.now() + timedelta(seconds=seconds)
