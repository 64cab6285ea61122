"""The lock and the wake-up on Postgres, with the other transaction held open in between, in both orders.

A *held* write has done all but commit; a *stopped* write has its snapshot and no lock yet. Chance seldom makes either.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from runnerq.ids import new_token
from runnerq.persistence.records import (
    GOING,
    Back,
    End,
    Move,
    Park,
    Sent,
    Verdict,
)
from runnerq.testing.conformance.world import (
    COMPLETED,
    Beating,
    a_child,
    a_holder,
    a_row,
    a_run,
    a_signal,
    a_turn,
    an_activity,
    look,
    rows_of,
)
from tests.persistence.postgres.backend import PostgresWorld
from tests.persistence.postgres.interleaving import held_open, rolled_back, stopped, until_waiting
from tests.persistence.postgres.races import FOR_GO, a_family, a_request

pytestmark = pytest.mark.asyncio(loop_scope="module")


class TestSignalAgainstPark:
    async def test_the_signal_is_held_and_the_park_is_busy_then_too_late(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with held_open(world) as sender:
            assert await sender.send([a_signal(run.id)]) == [Sent.SENT]
            assert await holder.commit(run, FOR_GO, rows=(a_row(0),)) is Verdict.BUSY
            assert await rows_of(world.storage, run.id) == []
        assert await holder.commit(run, FOR_GO, rows=(a_row(0),)) is Verdict.AGAIN
        assert [mail.channel for mail in (await holder.inbox(run)).signals] == ["go"]

    async def test_the_park_is_held_and_the_signal_waits_for_it_and_wakes(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with held_open(world) as worker:
            assert await worker.commit([a_turn(run, FOR_GO)]) == [Verdict.DONE]
            sending = asyncio.create_task(world.storage.send([a_signal(run.id)]))
            await until_waiting(world)
        assert await sending == [Sent.SENT]
        assert await holder.ready() == [run.id]

    async def test_the_park_is_stopped_while_the_signal_is_sent(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with stopped(world, "commit") as gate:
            parking = await gate.begin(gate.writes.commit([a_turn(run, FOR_GO)]))
            await world.storage.send([a_signal(run.id)])
            await gate.go()
            assert await parking == [Verdict.AGAIN]
        assert (await look(world.storage, run.id)).status == "running"

    async def test_the_signal_is_stopped_while_the_run_parks(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with stopped(world, "send_signals") as gate:
            sending = await gate.begin(gate.writes.send([a_signal(run.id)]))
            assert await holder.commit(run, FOR_GO) is Verdict.DONE
            await gate.go()
            assert await sending == [Sent.SENT]
        assert await holder.ready() == [run.id]

    async def test_a_signal_that_is_rolled_back_has_never_come(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with rolled_back(world) as sender:
            assert await sender.send([a_signal(run.id)]) == [Sent.SENT]
        box = await holder.inbox(run)
        assert (box.seen, box.signals) == (0, ())
        assert await holder.commit(run, FOR_GO) is Verdict.DONE

    async def test_the_signal_is_stopped_while_the_run_ends(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with stopped(world, "send_signals") as gate:
            sending = await gate.begin(gate.writes.send([a_signal(run.id)]))
            await holder.commit(run, COMPLETED)
            await gate.go()
            assert await sending == [Sent.FINISHED]

    async def test_the_signal_is_stopped_while_the_run_is_claimed(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        new = a_run()
        await world.storage.start([new])
        async with stopped(world, "send_signals") as gate:
            sending = await gate.begin(gate.writes.send([a_signal(new.id)]))
            run = await holder.take(new)
            await gate.go()
            await sending
        assert (run.seen, run.signals) == (0, ())
        assert await holder.commit(run, FOR_GO) is Verdict.AGAIN

    async def test_the_claim_is_stopped_while_the_signal_is_sent(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        new = a_run()
        await world.storage.start([new])
        async with stopped(world, "claim_runs") as gate:
            claiming = await gate.begin(gate.writes.claim(a_request(holder)))
            await world.storage.send([a_signal(new.id)])
            await gate.go()
            [run] = (await claiming).runs
        # What the snapshot did not show is not seen, so that the park is too late.
        assert (run.seen, run.signals) == (0, ())
        assert await holder.commit(run, FOR_GO) is Verdict.AGAIN


class TestChildAgainstPark:
    async def test_the_childs_end_is_held_and_the_park_is_busy_then_too_late(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run, child = await a_family(holder)
        async with held_open(world) as worker:
            assert await worker.commit([a_turn(child, COMPLETED)]) == [Verdict.DONE]
            assert await holder.commit(run, Park(children=(child.id,))) is Verdict.BUSY
        assert await holder.commit(run, Park(children=(child.id,))) is Verdict.AGAIN

    async def test_the_park_is_held_and_the_childs_end_is_busy_then_wakes(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run, child = await a_family(holder)
        async with held_open(world) as worker:
            assert await worker.commit([a_turn(run, Park(children=(child.id,)))]) == [Verdict.DONE]
            assert await holder.commit(child, COMPLETED) is Verdict.BUSY
            assert await world.storage.outcomes([child.id]) == []
        assert await holder.commit(child, COMPLETED) is Verdict.DONE
        assert await holder.ready() == [run.id]

    async def test_the_park_is_stopped_while_the_child_ends(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run, child = await a_family(holder)
        async with stopped(world, "commit") as gate:
            parking = await gate.begin(gate.writes.commit([a_turn(run, Park(children=(child.id,)))]))
            await holder.commit(child, COMPLETED)
            await gate.go()
            assert await parking == [Verdict.AGAIN]

    async def test_the_childs_end_is_stopped_while_the_parent_parks(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run, child = await a_family(holder)
        async with stopped(world, "commit") as gate:
            ending = await gate.begin(gate.writes.commit([a_turn(child, COMPLETED)]))
            assert await holder.commit(run, Park(children=(child.id,))) is Verdict.DONE
            await gate.go()
            assert await ending == [Verdict.DONE]
        assert await holder.ready() == [run.id]

    async def test_the_childs_end_is_stopped_while_the_parent_ends(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run, child = await a_family(holder)
        async with stopped(world, "commit") as gate:
            ending = await gate.begin(gate.writes.commit([a_turn(child, COMPLETED)]))
            await holder.commit(run, COMPLETED)
            await gate.go()
            [verdict] = await ending
        if verdict is Verdict.BUSY:
            verdict = await holder.commit(child, COMPLETED)
        assert verdict is Verdict.DONE

    async def test_two_children_that_end_at_once_are_counted_both(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run, first = await a_family(holder)
        more = a_child(run, "2")
        await holder.commit(run, Park(children=(first.id, more.id), needs=2), children=(more,))
        second = await holder.take(more)
        async with stopped(world, "commit") as gate:
            ending = await gate.begin(gate.writes.commit([a_turn(first, COMPLETED)]))
            assert await holder.commit(second, COMPLETED) is Verdict.DONE
            await gate.go()
            assert await ending == [Verdict.DONE]
        again = await holder.take_again(run)
        assert (again.seen, len(again.outcomes)) == (2, 2)


class TestCancelAgainstPark:
    async def test_the_cancel_is_held_and_the_park_is_busy_then_too_late(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with held_open(world) as asker:
            assert await asker.cancel([run.id], "why") == [Sent.SENT]
            assert await holder.commit(run, FOR_GO) is Verdict.BUSY
        assert await holder.commit(run, FOR_GO) is Verdict.AGAIN
        assert (await holder.inbox(run)).cancel == "why"

    async def test_the_park_is_held_and_the_cancel_waits_for_it_and_wakes(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with held_open(world) as worker:
            await worker.commit([a_turn(run, FOR_GO)])
            cancelling = asyncio.create_task(world.storage.cancel([run.id], "why"))
            await until_waiting(world)
        assert await cancelling == [Sent.SENT]
        assert (await holder.take_again(run)).cancel == "why"

    async def test_the_park_is_stopped_while_the_cancel_is_asked(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with stopped(world, "commit") as gate:
            parking = await gate.begin(gate.writes.commit([a_turn(run, FOR_GO)]))
            await world.storage.cancel([run.id])
            await gate.go()
            assert await parking == [Verdict.AGAIN]

    async def test_the_cancel_is_stopped_while_the_run_parks(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with stopped(world, "cancel_runs") as gate:
            cancelling = await gate.begin(gate.writes.cancel([run.id], "why"))
            await holder.commit(run, FOR_GO)
            await gate.go()
            assert await cancelling == [Sent.SENT]
        assert (await holder.take_again(run)).cancel == "why"

    async def test_a_cancel_that_is_stopped_while_the_run_starts_is_left_to_the_run(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        new = a_run()
        await world.storage.start([new])
        async with stopped(world, "cancel_runs") as gate:
            cancelling = await gate.begin(gate.writes.cancel([new.id], "why"))
            run = await holder.take(new)
            await gate.go()
            assert await cancelling == [Sent.SENT]
        assert (await look(world.storage, new.id)).status == "running"
        assert (await holder.inbox(run)).cancel == "why"

    async def test_a_claim_that_is_stopped_while_the_run_is_cancelled_takes_nothing(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        new = a_run()
        await world.storage.start([new])
        async with stopped(world, "claim_runs") as gate:
            claiming = await gate.begin(gate.writes.claim(a_request(holder)))
            await world.storage.cancel([new.id])
            await gate.go()
            assert (await claiming).runs == ()
        assert (await look(world.storage, new.id)).status == "cancelled"

    async def test_a_cancel_that_is_stopped_while_the_run_is_given_back_until_later_wakes_it(
        self, world: PostgresWorld
    ) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(an_activity())
        later = await world.storage.now() + timedelta(hours=1)
        async with stopped(world, "cancel_runs") as gate:
            cancelling = await gate.begin(gate.writes.cancel([run.id], "why"))
            await holder.commit(run, Back(due_at=later))
            await gate.go()
            await cancelling
        assert (await holder.take_again(run)).cancel == "why"

    async def test_a_run_that_is_given_back_until_later_while_it_is_cancelled_is_ready(
        self, world: PostgresWorld
    ) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(an_activity())
        later = await world.storage.now() + timedelta(hours=1)
        async with stopped(world, "commit") as gate:
            giving = await gate.begin(gate.writes.commit([a_turn(run, Back(due_at=later))]))
            await world.storage.cancel([run.id], "why")
            await gate.go()
            assert await giving == [Verdict.DONE]
        assert (await holder.take_again(run)).cancel == "why"

    async def test_a_child_cancelled_before_its_start_waits_for_the_parents_park_and_wakes_it(
        self, world: PostgresWorld
    ) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run)
        await holder.commit(run, GOING, children=(child,))
        async with held_open(world) as worker:
            await worker.commit([a_turn(run, Park(children=(child.id,)))])
            cancelling = asyncio.create_task(world.storage.cancel([child.id]))
            await until_waiting(world)
        assert await cancelling == [Sent.SENT]
        assert await holder.ready() == [run.id]


class TestTimerAgainstPark:
    async def test_a_timer_that_is_due_at_the_park_is_found_once_the_park_is_committed(
        self, world: PostgresWorld
    ) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        due_at = await world.storage.now() - timedelta(seconds=1)
        async with held_open(world) as worker:
            assert await worker.commit([a_turn(run, Park(due_at=due_at))]) == [Verdict.DONE]
            assert await world.storage.wake_due(10) == 0
        assert await world.storage.wake_due(10) == 1
        assert await holder.ready() == [run.id]

    async def test_a_timer_that_is_held_by_one_waker_is_not_waited_for_by_another(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Park(due_at=await world.storage.now() - timedelta(seconds=1)))
        async with held_open(world) as waker:
            assert await waker.wake_due(10) == 1
            assert await world.storage.wake_due(10) == 0
        assert await holder.ready() == [run.id]

    async def test_a_waker_that_is_stopped_does_not_wake_a_later_park(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        now = await world.storage.now()
        await holder.commit(run, Park(signals=("go",), due_at=now - timedelta(seconds=1)))
        async with stopped(world, "wake_due") as gate:
            waking = await gate.begin(gate.writes.wake_due(10))
            await world.storage.send([a_signal(run.id)])
            again = await holder.take_again(run)
            await holder.commit(again, Park(signals=("go",), due_at=now + timedelta(hours=1)))
            await gate.go()
            assert await waking == 0
        assert (await look(world.storage, run.id)).status == "waiting"

    async def test_a_signal_waits_for_a_waker_that_is_held_and_wakes_nothing_twice(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Park(signals=("go",), due_at=await world.storage.now() - timedelta(seconds=1)))
        async with held_open(world) as waker:
            await waker.wake_due(10)
            sending = asyncio.create_task(world.storage.send([a_signal(run.id)]))
            await until_waiting(world)
        assert await sending == [Sent.SENT]
        [again] = (await holder.claim()).runs
        assert (again.seen, len(again.signals)) == (1, 1)


class TestStaleClaim:
    @pytest.mark.parametrize("move", [Back(), FOR_GO], ids=["given back", "parked and woken"])
    async def test_a_claim_older_than_a_whole_turn_of_another_worker_takes_nothing(
        self, world: PostgresWorld, move: Move
    ) -> None:
        late, other = await a_holder(world.storage), await a_holder(world.storage)
        new = a_run()
        await world.storage.start([new])
        async with stopped(world, "claim_runs") as gate:
            claiming = await gate.begin(gate.writes.claim(a_request(late)))
            run = await other.take(new)
            await other.commit(run, move, rows=(a_row(0),))
            await world.storage.send([a_signal(run.id)])
            await gate.go()
            assert (await claiming).runs == ()
        assert (await late.take(new)).rows == (a_row(0),)

    async def test_a_claim_older_than_a_crash_takes_nothing(self, world: PostgresWorld) -> None:
        late, gone = await a_holder(world.storage), await a_holder(world.storage, lease=1)
        new = a_run()
        await world.storage.start([new])
        async with stopped(world, "claim_runs") as gate:
            claiming = await gate.begin(gate.writes.claim(a_request(late)))
            run = await gone.take(new)
            await gone.commit(run, GOING, rows=(a_row(0),))
            await world.advance(2)
            await world.storage.reap(late.id, new_token(), 10)
            await gate.go()
            assert (await claiming).runs == ()
        assert (await late.take(new)).rows == (a_row(0),)

    async def test_a_claim_older_than_a_release_takes_nothing(self, world: PostgresWorld) -> None:
        late, other = await a_holder(world.storage), await a_holder(world.storage)
        new = a_run()
        await world.storage.start([new])
        async with stopped(world, "claim_runs") as gate:
            claiming = await gate.begin(gate.writes.claim(a_request(late)))
            await other.commit(await other.take(new), GOING, rows=(a_row(0),))
            await world.storage.release(other.id, ())
            await gate.go()
            assert (await claiming).runs == ()

    async def test_a_run_that_another_claim_holds_uncommitted_is_skipped(self, world: PostgresWorld) -> None:
        first, second = await a_holder(world.storage), await a_holder(world.storage)
        held, free = a_run(), a_run()
        await world.storage.start([held])
        async with held_open(world) as worker:
            assert len((await worker.claim(a_request(first))).runs) == 1
            await world.storage.start([free])
            assert await second.ready() == [free.id]


class TestLateClaim:
    async def test_a_claim_that_is_stopped_while_its_worker_is_reaped_takes_nothing(self, world: PostgresWorld) -> None:
        gone, reaper = await a_holder(world.storage, lease=1), await a_holder(world.storage)
        await world.storage.start([a_run()])
        async with stopped(world, "claim_runs") as gate:
            claiming = await gate.begin(gate.writes.claim(a_request(gone)))
            await world.advance(2)
            await world.storage.reap(reaper.id, new_token(), 10)
            await gate.go()
            assert (await claiming).runs == ()
        assert len(await reaper.ready()) == 1

    async def test_a_claim_that_is_stopped_while_its_worker_signs_off_takes_nothing(self, world: PostgresWorld) -> None:
        gone, other = await a_holder(world.storage), await a_holder(world.storage)
        await world.storage.start([a_run()])
        async with stopped(world, "claim_runs") as gate:
            claiming = await gate.begin(gate.writes.claim(a_request(gone)))
            await world.storage.give_back(gone.id)
            await gate.go()
            assert (await claiming).runs == ()
        assert len(await other.ready()) == 1

    async def test_what_a_held_claim_took_is_reaped_once_it_is_committed(self, world: PostgresWorld) -> None:
        gone, reaper = await a_holder(world.storage, lease=1), await a_holder(world.storage)
        new = a_run()
        await world.storage.start([new])
        async with held_open(world) as worker:
            [run] = (await worker.claim(a_request(gone))).runs
            await world.advance_workers(2)
            assert await world.storage.reap(reaper.id, new_token(), 10) == []
        assert [each.run_id for each in await world.storage.reap(reaper.id, new_token(), 10)] == [new.id]
        assert await gone.commit(run, COMPLETED) is Verdict.LOST

    async def test_signing_off_waits_for_a_held_claim_and_gives_back_what_it_took(self, world: PostgresWorld) -> None:
        gone, other = await a_holder(world.storage), await a_holder(world.storage)
        new = a_run()
        await world.storage.start([new])
        async with held_open(world) as worker:
            await worker.claim(a_request(gone))
            leaving = asyncio.create_task(world.storage.give_back(gone.id))
            await until_waiting(world)
        assert await leaving == 1
        assert await other.ready() == [new.id]

    async def test_a_claim_sent_twice_holds_nothing_that_is_not_released(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        await world.storage.start([a_run() for _ in range(4)])
        request = a_request(holder, limit=2)
        first, second = await world.storage.claim(request), await world.storage.claim(request)
        taken = {run.id for run in (*first.runs, *second.runs)}
        assert len(taken) == 4
        assert await world.storage.release(holder.id, ()) == 4


class TestReaperAgainstTheLiving:
    async def test_a_worker_that_beats_while_the_reaper_looks_is_not_reaped(self, world: PostgresWorld) -> None:
        holder, reaper = await a_holder(world.storage, lease=5), await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.advance(6)
        async with Beating(world.storage, holder) as heart, stopped(world, "reap_workers") as gate:
            reaping = await gate.begin(gate.writes.reap(reaper.id, new_token(), 10))
            assert (await heart.beat()).alive
            await gate.go()
            assert await reaping == []
            assert await holder.commit(run, COMPLETED) is Verdict.DONE

    async def test_a_turn_that_is_stopped_while_its_worker_is_reaped_is_lost(self, world: PostgresWorld) -> None:
        gone, reaper = await a_holder(world.storage, lease=1), await a_holder(world.storage)
        run = await gone.start(a_run())
        async with stopped(world, "commit") as gate:
            failed = End(status="failed", error="{}")
            writing = await gate.begin(gate.writes.commit([a_turn(run, failed, rows=(a_row(0),))]))
            await world.advance(2)
            await world.storage.reap(reaper.id, new_token(), 10)
            again = await reaper.take_again(run)
            await gate.go()
            assert await writing == [Verdict.LOST]
        assert await rows_of(world.storage, run.id) == []
        assert await reaper.commit(again, COMPLETED) is Verdict.DONE

    async def test_an_end_that_is_stopped_while_its_worker_is_reaped_is_lost(self, world: PostgresWorld) -> None:
        gone, reaper = await a_holder(world.storage, lease=1), await a_holder(world.storage)
        run = await gone.start(a_run())
        async with stopped(world, "end_runs") as gate:
            writing = await gate.begin(gate.writes.commit([a_turn(run, COMPLETED, rows=(a_row(0),))]))
            await world.advance(2)
            await world.storage.reap(reaper.id, new_token(), 10)
            again = await reaper.take_again(run)
            await gate.go()
            assert await writing == [Verdict.LOST]
        assert await world.storage.outcomes([run.id]) == []
        assert await rows_of(world.storage, run.id) == []
        assert await reaper.commit(again, COMPLETED) is Verdict.DONE

    async def test_an_end_that_is_stopped_while_a_cancel_is_asked_for_says_so(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with stopped(world, "end_runs") as gate:
            writing = await gate.begin(gate.writes.commit([a_turn(run, COMPLETED)]))
            assert await world.storage.cancel([run.id]) == [Sent.SENT]
            await gate.go()
            assert await writing == [Verdict.DONE]
        [outcome] = await world.storage.outcomes([run.id])
        assert outcome.cancel_requested

    @pytest.mark.parametrize(("statement", "places"), [("append_one", (0,)), ("append", (0, 1))])
    async def test_rows_that_are_stopped_while_their_worker_is_reaped_are_lost(
        self, world: PostgresWorld, statement: str, places: tuple[int, ...]
    ) -> None:
        gone, reaper = await a_holder(world.storage, lease=1), await a_holder(world.storage)
        run = await gone.start(a_run())
        async with stopped(world, statement) as gate:
            writing = await gate.begin(gate.writes.commit([a_turn(run, GOING, rows=tuple(map(a_row, places)))]))
            await world.advance(2)
            await world.storage.reap(reaper.id, new_token(), 10)
            await reaper.take_again(run)
            await gate.go()
            assert await writing == [Verdict.LOST]
        assert await rows_of(world.storage, run.id) == []

    async def test_a_run_that_somebody_holds_is_reaped_later(self, world: PostgresWorld) -> None:
        gone, reaper = await a_holder(world.storage, lease=1), await a_holder(world.storage)
        run = await gone.start(a_run())
        await world.advance(2)
        async with held_open(world) as sender:
            await sender.send([a_signal(run.id)])
            assert await world.storage.reap(reaper.id, new_token(), 10) == []
        assert [each.run_id for each in await world.storage.reap(reaper.id, new_token(), 10)] == [run.id]


class TestBusy:
    @pytest.mark.parametrize(
        "move", [GOING, FOR_GO, Back(), COMPLETED], ids=["goes on", "parks", "is given back", "ends"]
    )
    async def test_a_held_row_delays_that_run_and_its_childrens_ends_only(
        self, world: PostgresWorld, move: Move
    ) -> None:
        holder = await a_holder(world.storage)
        run, child = await a_family(holder)
        other, others_child = await a_family(holder)
        async with held_open(world) as sender:
            await sender.send([a_signal(run.id)])
            turns = [
                a_turn(run, move, rows=(a_row(0),)),
                a_turn(child, COMPLETED, rows=(a_row(0),)),
                a_turn(others_child, COMPLETED, rows=(a_row(0),)),
                a_turn(other, GOING, rows=(a_row(0),)),
            ]
            busy, done = Verdict.BUSY, Verdict.DONE
            assert await world.storage.commit(turns) == [busy, busy, done, done]
            assert await rows_of(world.storage, run.id) == []
            assert await world.storage.outcomes([child.id]) == []
        again = await world.storage.commit(turns)
        assert again == [Verdict.AGAIN if move is FOR_GO else done, done, done, done]

    async def test_a_childs_step_is_not_delayed_by_its_parents_held_row(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run, child = await a_family(holder)
        async with held_open(world) as sender:
            await sender.send([a_signal(run.id)])
            assert await holder.commit(child, GOING, rows=(a_row(0),)) is Verdict.DONE
            assert await holder.commit(child, FOR_GO) is Verdict.DONE

    async def test_a_held_row_delays_no_claim_of_others(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        held, free = a_run(), a_run()
        await world.storage.start([held, free])
        async with held_open(world) as sender:
            await sender.send([a_signal(held.id)])
            assert await holder.ready() == [free.id]
        assert await holder.ready() == [held.id]

    async def test_a_key_that_is_being_claimed_delays_only_the_turns_that_want_it(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run, other = await holder.start(a_run()), await holder.start(a_run())
        owner = a_run("child", key="k")
        child = a_child(run, key="k")
        async with held_open(world) as starter:
            await starter.start([owner])
            turns = [a_turn(run, GOING, children=(child,)), a_turn(other, COMPLETED)]
            assert await world.storage.commit(turns) == [Verdict.BUSY, Verdict.DONE]
        assert await world.storage.commit(turns) == [Verdict.DONE, Verdict.DONE]
        [outcome] = await world.storage.outcomes([child.id])
        assert outcome.status == "failed"

    async def test_batches_of_parents_and_children_in_opposite_order_do_not_deadlock(
        self, world: PostgresWorld
    ) -> None:
        holder = await a_holder(world.storage)
        families = [await a_family(holder) for _ in range(10)]
        second = await world.another()
        parents = [a_turn(run, Park(children=(child.id,)), rows=(a_row(0),)) for run, child in families]
        children = [a_turn(child, COMPLETED, rows=(a_row(0),)) for _, child in families]
        left = {turn.run_id: turn for turn in (*parents, *children)}
        verdicts: dict[str, Verdict] = {}
        while left:
            turns = list(left.values())
            here = [turn for turn in turns if turn.run_id in {each.run_id for each in parents}]
            there = [turn for turn in reversed(turns) if turn not in here]
            answers = await asyncio.gather(world.storage.commit(here), second.commit(there))
            for batch, found in zip((here, there), answers, strict=True):
                verdicts |= {turn.run_id: verdict for turn, verdict in zip(batch, found, strict=True)}
            left = {run_id: turn for run_id, turn in left.items() if verdicts[run_id] is Verdict.BUSY}
        assert {verdicts[child.id] for _, child in families} == {Verdict.DONE}
        too_late = [run for run, _ in families if verdicts[run.id] is Verdict.AGAIN]
        woken = set(await holder.ready())
        assert {run.id for run, _ in families} == woken | {run.id for run in too_late}
