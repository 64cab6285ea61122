"""Workers that live, stop, are gone or lost a reply; and what becomes of the runs they held."""

from __future__ import annotations

from runnerq.ids import new_token
from runnerq.persistence.records import (
    CRASH_CAP,
    GOING,
    Attempt,
    Back,
    Changed,
    End,
    Park,
    Status,
    Turn,
    Verdict,
)
from runnerq.testing.conformance.world import (
    AT,
    COMPLETED,
    Beating,
    Holder,
    World,
    a_child,
    a_holder,
    a_row,
    a_run,
    a_signal,
    an_activity,
    look,
)


class TestBeat:
    async def test_a_registered_worker_lives(self, world: World) -> None:
        holder = await a_holder(world.storage)
        before = await world.storage.now()
        async with Beating(world.storage, holder) as heart:
            pulse = await heart.beat()
        assert (pulse.alive, pulse.arrivals) == (True, ())
        assert before <= pulse.now <= await world.storage.now()

    async def test_a_worker_that_never_registered_does_not(self, world: World) -> None:
        async with Beating(world.storage, Holder(world.storage, 4711)) as heart:
            assert not (await heart.beat()).alive

    async def test_a_worker_that_signed_off_does_not(self, world: World) -> None:
        holder = await a_holder(world.storage)
        await world.storage.give_back(holder.id)
        async with Beating(world.storage, holder) as heart:
            assert not (await heart.beat()).alive

    async def test_beats_keep_the_leases(self, world: World) -> None:
        holder, reaper = await a_holder(world.storage, lease=10), await a_holder(world.storage, lease=3600)
        run = await holder.start(a_run())
        async with Beating(world.storage, holder) as heart:
            for _ in range(3):
                await world.advance(8)
                assert (await heart.beat()).alive
                assert await world.storage.reap(reaper.id, new_token(), 10) == []
        assert await holder.commit(run, COMPLETED) is Verdict.DONE

    async def test_a_beat_never_revives_a_worker_that_was_reaped(self, world: World) -> None:
        gone, reaper = await a_holder(world.storage, lease=1), await a_holder(world.storage)
        async with Beating(world.storage, gone) as heart:
            await heart.beat()
            await world.advance(4)
            await world.storage.reap(reaper.id, new_token(), 10)
            for _ in range(2):
                assert not (await heart.beat()).alive
        await world.storage.start([a_run()])
        assert await gone.ready() == []

    async def test_a_worker_with_nothing_held_is_reaped_too(self, world: World) -> None:
        gone, reaper = await a_holder(world.storage, lease=1), await a_holder(world.storage)
        await world.advance(2)
        assert await world.storage.reap(reaper.id, new_token(), 10) == []
        async with Beating(world.storage, gone) as heart:
            assert not (await heart.beat()).alive


class TestDrain:
    async def test_the_beats_of_a_worker_that_is_to_drain_say_so_and_those_of_others_do_not(self, world: World) -> None:
        holder, other = await a_holder(world.storage), await a_holder(world.storage)
        async with Beating(world.storage, holder) as heart, Beating(world.storage, other) as bystander:
            assert not (await heart.beat()).drain
            assert await world.storage.drain(holder.id) is Changed.CHANGED
            assert await world.storage.drain(holder.id) is Changed.UNCHANGED
            for _ in range(2):
                assert (await heart.beat()).drain
            assert not (await bystander.beat()).drain
        asked = {worker.id: worker.drain_at is not None for worker in await world.storage.workers()}
        assert asked == {holder.id: True, other.id: False}

    async def test_one_that_has_gone_or_never_was_cannot_be_asked(self, world: World) -> None:
        holder = await a_holder(world.storage)
        await world.storage.give_back(holder.id)
        assert await world.storage.drain(holder.id) is Changed.UNKNOWN
        assert await world.storage.drain(4711) is Changed.UNKNOWN


class TestArrivals:
    async def test_a_signal_to_a_held_run_is_in_the_pulse(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run, quiet = await holder.start(a_run()), await holder.start(a_run())
        await world.storage.send([a_signal(run.id), a_signal(run.id)])
        async with Beating(world.storage, holder) as heart:
            [arrival] = (await heart.beat()).arrivals
        assert (arrival.run_id, arrival.inbox, arrival.cancel) == (run.id, 2, None)
        assert (await holder.inbox(quiet)).seen == 0

    async def test_a_childs_end_is_in_the_pulse_of_the_parents_holder(self, world: World) -> None:
        holder, other = await a_holder(world.storage), await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run)
        await holder.commit(run, GOING, children=(child,))
        await other.commit(await other.take(child), COMPLETED)
        async with Beating(world.storage, holder) as mine, Beating(world.storage, other) as theirs:
            [arrival] = (await mine.beat()).arrivals
            assert (await theirs.beat()).arrivals == ()
        assert (arrival.run_id, arrival.inbox) == (run.id, 1)

    async def test_a_childs_cancel_before_its_start_is_in_the_pulse_of_the_parents_holder(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run)
        await holder.commit(run, GOING, children=(child,))
        await world.storage.cancel([child.id])
        async with Beating(world.storage, holder) as heart:
            [arrival] = (await heart.beat()).arrivals
        assert (arrival.run_id, arrival.inbox, arrival.cancel) == (run.id, 1, None)

    async def test_what_came_while_the_pulse_was_not_read_is_in_the_next(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with Beating(world.storage, holder) as heart:
            for count in range(1, 4):
                await world.storage.send([a_signal(run.id)])
                [arrival] = (await heart.beat()).arrivals
                assert arrival.inbox == count

    async def test_a_run_that_is_no_longer_held_is_in_no_pulse(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Park(signals=("go",)))
        await world.storage.send([a_signal(run.id, "else")])
        async with Beating(world.storage, holder) as heart:
            assert (await heart.beat()).arrivals == ()


class TestReap:
    async def test_a_run_whose_lease_ran_out_goes_to_another_worker(self, world: World) -> None:
        gone, reaper = await a_holder(world.storage, lease=5), await a_holder(world.storage)
        run = await gone.start(a_run())
        await gone.commit(run, GOING, rows=(a_row(0),))
        await world.advance(4)
        assert await world.storage.reap(reaper.id, new_token(), 10) == []
        await world.advance(2)
        [reaped] = await world.storage.reap(reaper.id, new_token(), 10)
        assert (reaped.run_id, reaped.crashes, reaped.token) == (run.id, 1, None)
        again = await reaper.take_again(run)
        assert again.token != run.token
        assert (again.rows, again.crashes) == ((a_row(0),), 1)

    async def test_a_worker_that_beats_no_more_and_whose_connection_is_gone_is_reaped_before_its_lease(
        self, world: World
    ) -> None:
        gone, reaper = await a_holder(world.storage, lease=60), await a_holder(world.storage)
        run = await gone.start(a_run())
        async with Beating(world.storage, gone) as heart:
            await heart.beat()
            await world.advance(4)
            assert await world.storage.reap(reaper.id, new_token(), 10) == []
        [reaped] = await world.storage.reap(reaper.id, new_token(), 10)
        assert reaped.run_id == run.id

    async def test_a_connection_that_is_gone_for_less_than_three_seconds_is_waited_for(self, world: World) -> None:
        holder, reaper = await a_holder(world.storage, lease=60), await a_holder(world.storage)
        await holder.start(a_run())
        async with Beating(world.storage, holder) as heart:
            await heart.beat()
        await world.advance(1)
        assert await world.storage.reap(reaper.id, new_token(), 10) == []
        async with Beating(world.storage, holder) as heart:
            assert (await heart.beat()).alive

    async def test_a_worker_that_has_not_beaten_yet_counts_as_present(self, world: World) -> None:
        holder, reaper = await a_holder(world.storage, lease=60), await a_holder(world.storage)
        await holder.start(a_run())
        await world.advance(30)
        assert await world.storage.reap(reaper.id, new_token(), 10) == []

    async def test_only_what_is_held_is_reaped(self, world: World) -> None:
        gone, reaper = await a_holder(world.storage, lease=1), await a_holder(world.storage)
        runs = [await gone.start(a_run()) for _ in range(4)]
        await gone.commit(runs[0], Park(signals=("go",)))
        await gone.commit(runs[1], Back())
        await gone.commit(runs[2], COMPLETED)
        await world.advance(2)
        assert [each.run_id for each in await world.storage.reap(reaper.id, new_token(), 10)] == [runs[3].id]
        assert (await look(world.storage, runs[0].id)).status == "waiting"

    async def test_a_reaper_takes_no_more_than_its_limit_and_the_rest_later(self, world: World) -> None:
        gone, reaper = await a_holder(world.storage, lease=1), await a_holder(world.storage, lease=3600)
        runs = [await gone.start(a_run()) for _ in range(5)]
        await world.advance(2)
        reaped = [await world.storage.reap(reaper.id, new_token(), 2) for _ in range(4)]
        assert [len(each) for each in reaped] == [2, 2, 1, 0]
        assert {each.run_id for part in reaped for each in part} == {run.id for run in runs}

    async def test_the_first_crash_waits_for_nothing_and_the_next_ones_longer_and_longer(self, world: World) -> None:
        run = an_activity()
        await world.storage.start([run])
        for crashes, delay in enumerate((0.0, 1.0, 2.0, 4.0), start=1):
            reaper = await _crash(world, run.id)
            if delay:
                assert await reaper.ready() == [], f"crash {crashes} must wait"
                assert (await look(world.storage, run.id)).status is Status.RETRYING
                await world.advance(delay / 4)
                assert await world.storage.wake_due(10) == 0, f"crash {crashes} waited too short"
                await world.advance(delay * 1.25)
                assert await world.storage.wake_due(10) == 1, f"crash {crashes} waited too long"
            [again] = (await reaper.claim()).runs
            assert again.crashes == crashes
            await world.storage.give_back(reaper.id)

    async def test_at_the_cap_the_reaper_holds_the_run_to_end_it(self, world: World) -> None:
        run = a_run()
        await world.storage.start([run])
        for _ in range(CRASH_CAP - 1):
            await _crash(world, run.id)
            await world.advance(10)
            await world.storage.wake_due(10)
        gone, reaper = await a_holder(world.storage, lease=1), await a_holder(world.storage)
        await gone.take(run)
        await world.advance(2)
        token = new_token()
        [reaped] = await world.storage.reap(reaper.id, token, 10)
        assert (reaped.run_id, reaped.crashes, reaped.token) == (run.id, CRASH_CAP, token)
        assert (await look(world.storage, run.id)).status == "running"
        assert await reaper.ready() == []
        end = End(status="dead_letter", reason="crash_loop")
        turn = Turn(run_id=run.id, token=token, seen=0, move=end)
        assert await world.storage.commit([turn]) == [Verdict.DONE]
        assert (await look(world.storage, run.id)).reason == "crash_loop"

    async def test_a_run_at_the_cap_whose_reaper_is_gone_is_reaped_again(self, world: World) -> None:
        run = a_run()
        await world.storage.start([run])
        for _ in range(CRASH_CAP - 1):
            await _crash(world, run.id)
            await world.advance(10)
            await world.storage.wake_due(10)
        gone, first, second = [await a_holder(world.storage, lease=lease) for lease in (1, 3, 60)]
        await gone.take(run)
        await world.advance(2)
        assert len(await world.storage.reap(first.id, new_token(), 10)) == 1
        await world.advance(2)
        token = new_token()
        [reaped] = await world.storage.reap(second.id, token, 10)
        assert (reaped.run_id, reaped.token) == (run.id, token)

    async def test_an_answer_makes_earlier_crashes_count_for_nothing(self, world: World) -> None:
        run = a_run()
        await world.storage.start([run])
        await _crash(world, run.id)
        await _crash(world, run.id)
        await world.advance(10)
        await world.storage.wake_due(10)
        gone, reaper = await a_holder(world.storage, lease=1), await a_holder(world.storage)
        claimed = await gone.take(run)
        assert claimed.crashes == 2
        await gone.commit(claimed, GOING, rows=(a_row(0),), recovered=True)
        await world.advance(2)
        [reaped] = await world.storage.reap(reaper.id, new_token(), 10)
        assert (reaped.crashes, await reaper.ready()) == (1, [run.id])

    async def test_a_crash_keeps_attempts_and_their_number(self, world: World) -> None:
        gone, reaper = await a_holder(world.storage, lease=1), await a_holder(world.storage)
        run = await gone.start(an_activity())
        attempt = Attempt(position="", number=2, error="{}", at=AT, next_at=None, details='"row 7"')
        await gone.commit(run, GOING, attempts=(attempt,))
        await world.advance(2)
        await world.storage.reap(reaper.id, new_token(), 10)
        assert (await reaper.take_again(run)).attempts == (attempt,)


class TestGivingBack:
    async def test_an_orderly_stop_gives_everything_back_and_burns_nothing(self, world: World) -> None:
        holder, other = await a_holder(world.storage), await a_holder(world.storage)
        runs = [await holder.start(a_run()) for _ in range(3)]
        theirs = await other.start(a_run())
        assert await world.storage.give_back(holder.id) == 3
        again = (await other.claim()).runs
        assert {run.id for run in again} == {run.id for run in runs}
        assert {run.crashes for run in again} == {0}
        assert (await look(world.storage, theirs.id)).status == "running"

    async def test_runs_given_back_keep_their_place_in_the_queue(self, world: World) -> None:
        holder, other = await a_holder(world.storage), await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.advance(1)
        await world.storage.start([a_run()])
        await world.storage.give_back(holder.id)
        assert [claimed.id for claimed in (await other.claim(1)).runs] == [run.id]

    async def test_a_worker_that_signed_off_is_not_reaped(self, world: World) -> None:
        holder, reaper = await a_holder(world.storage, lease=1), await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.storage.give_back(holder.id)
        await world.advance(2)
        assert await world.storage.reap(reaper.id, new_token(), 10) == []
        assert (await reaper.take_again(run)).crashes == 0

    async def test_giving_back_nothing_is_nothing(self, world: World) -> None:
        holder = await a_holder(world.storage)
        assert await world.storage.give_back(holder.id) == 0
        assert await world.storage.give_back(holder.id) == 0

    async def test_a_claim_whose_reply_was_lost_is_released(self, world: World) -> None:
        holder = await a_holder(world.storage)
        kept = await holder.start(a_run())
        await world.storage.start([a_run()])
        await holder.claim()
        assert await world.storage.release(holder.id, (kept.token,)) == 1
        assert await world.storage.release(holder.id, (kept.token,)) == 0
        [again] = (await holder.claim()).runs
        assert (again.crashes, again.resumed) == (0, False)
        assert await holder.commit(kept, COMPLETED) is Verdict.DONE
        assert await holder.commit(again, COMPLETED) is Verdict.DONE

    async def test_nothing_of_another_worker_is_released(self, world: World) -> None:
        holder, other = await a_holder(world.storage), await a_holder(world.storage)
        await other.start(a_run())
        assert await world.storage.release(holder.id, ()) == 0

    async def test_nothing_parked_is_released(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Park(signals=("go",)))
        assert await world.storage.release(holder.id, ()) == 0
        assert (await look(world.storage, run.id)).status == "waiting"


async def _crash(world: World, run_id: str) -> Holder:
    """A new worker claims this run, which is ready or soon due, and is gone; the worker that reaped it."""
    await world.advance(10)
    await world.storage.wake_due(10)
    gone, reaper = await a_holder(world.storage, lease=1), await a_holder(world.storage)
    claimed = (await gone.claim()).runs
    assert [run.id for run in claimed] == [run_id]
    await world.advance(2)
    [reaped] = await world.storage.reap(reaper.id, new_token(), 10)
    assert (reaped.run_id, reaped.token) == (run_id, None)
    return reaper
