"""Committing turns: what is written, under whose token, and what a turn that is sent again gets."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, get_args

import pytest

from runnerq.errors import StorageRefused
from runnerq.ids import new_run_id, new_token
from runnerq.persistence.records import (
    GOING,
    Attempt,
    Back,
    Claimed,
    End,
    Ended,
    Move,
    Park,
    Status,
    Stuck,
    Turn,
    Verdict,
)
from runnerq.testing.conformance.world import (
    AT,
    COMPLETED,
    Beating,
    World,
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

STUCK = Stuck(
    message="no way", build="b1", position="3", recorded="step 'a'", asked="step 'b'", line="x.py:3", traceback="t"
)
MOVES: dict[str, Move] = {
    "goes on": GOING,
    "parks": Park(signals=("go",)),
    "is given back": Back(),
    "is blocked": STUCK,
    "ends": COMPLETED,
}
every_move = pytest.mark.parametrize("move", MOVES.values(), ids=MOVES.keys())


class TestTurns:
    @every_move
    async def test_a_turn_writes_all_that_it_holds(self, world: World, move: Move) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.storage.send([a_signal(run.id, "a"), a_signal(run.id, "b")])
        box = await holder.inbox(run)
        child = a_child(run)
        turn = _full(run, move, seen=box.seen, children=(child,), consumed=(box.signals[0].id,))
        assert await world.storage.commit([turn]) == [Verdict.DONE]
        assert await rows_of(world.storage, run.id) == list(turn.rows)
        assert await world.storage.state(run.id) == '{"at":1}'
        assert (await look(world.storage, child.id)).parent_id == run.id

    async def test_rows_of_later_turns_follow(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        rows = [a_row(place, str(place)) for place in range(5)]
        await holder.commit(run, GOING, rows=tuple(rows[:2]))
        await holder.commit(run, GOING, rows=tuple(rows[2:3]))
        await holder.commit(run, COMPLETED, rows=tuple(rows[3:]))
        assert await rows_of(world.storage, run.id) == rows

    async def test_consumed_signals_are_gone_and_no_others(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.storage.send([a_signal(run.id, "a", str(number)) for number in range(3)])
        box = await holder.inbox(run)
        await holder.commit(run, GOING, seen=box.seen, consumed=(box.signals[1].id,))
        assert [mail.value for mail in (await holder.inbox(run)).signals] == ["0", "2"]

    async def test_a_signal_of_another_run_cannot_be_consumed(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run, other = await holder.start(a_run()), await holder.start(a_run())
        await world.storage.send([a_signal(other.id)])
        theirs = (await holder.inbox(other)).signals[0].id
        await holder.commit(run, GOING, consumed=(theirs,))
        assert len((await holder.inbox(other)).signals) == 1

    async def test_attempts_stay_until_they_are_settled(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        kept, gone = (Attempt(position=position, number=1, error="{}", at=AT, next_at=AT) for position in ("1", "2"))
        more = Attempt(position="1", number=2, error='{"e":2}', at=AT, next_at=None)
        await holder.commit(run, GOING, attempts=(kept, gone))
        await holder.commit(run, GOING, attempts=(more,), settled=("2",))
        journal = await world.storage.journal(run.id)
        assert journal is not None
        assert journal.attempts == (more,)
        await holder.commit(run, Back())
        assert (await holder.take_again(run)).attempts == (more,)

    async def test_an_end_drops_what_was_attempted(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, GOING, attempts=(Attempt(position="1", number=1, error="{}", at=AT, next_at=None),))
        await holder.commit(run, COMPLETED)
        journal = await world.storage.journal(run.id)
        assert journal is not None
        assert journal.attempts == ()

    async def test_the_published_state_is_replaced_whole_and_outlives_the_run(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        assert await world.storage.state(run.id) is None
        await holder.commit(run, GOING, published='{"a": 1}')
        await holder.commit(run, GOING)
        assert await world.storage.state(run.id) == '{"a": 1}'
        await holder.commit(run, COMPLETED, published='{"b": 2}')
        assert await world.storage.state(run.id) == '{"b": 2}'

    @pytest.mark.parametrize("status", get_args(Ended))
    async def test_an_ended_run_has_its_outcome(self, world: World, status: Ended) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        before = await world.storage.now()
        end = End(status=status, result="[1]", error='{"type":"E"}', reason="why", cancel_requested=True)
        assert await holder.commit(run, end) is Verdict.DONE
        [outcome] = await world.storage.outcomes([run.id])
        assert (outcome.run_id, outcome.status, outcome.result) == (run.id, status, "[1]")
        assert (outcome.error, outcome.reason, outcome.cancel_requested) == ('{"type":"E"}', "why", True)
        assert before <= outcome.ended_at <= await world.storage.now()
        record = await look(world.storage, run.id)
        assert (record.status, record.result, record.error, record.reason) == (status, "[1]", '{"type":"E"}', "why")
        assert (record.ended_at, record.cancel_requested) == (outcome.ended_at, True)
        assert await holder.ready() == []

    async def test_a_result_of_null_is_a_result(self, world: World) -> None:
        holder = await a_holder(world.storage)
        nothing, none = await holder.start(a_run()), await holder.start(a_run())
        await holder.commit(nothing, End(status="completed", result="null"))
        await holder.commit(none, End(status="cancelled"))
        found = {outcome.run_id: outcome.result for outcome in await world.storage.outcomes([nothing.id, none.id])}
        assert found == {nothing.id: "null", none.id: None}

    async def test_a_run_given_back_is_ready_for_anyone(self, world: World) -> None:
        holder, other = await a_holder(world.storage), await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Back())
        assert await other.ready() == [run.id]

    async def test_a_run_given_back_until_later_is_shown_as_retrying(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(an_activity())
        claim = await holder.claim()
        failed = Attempt(position="", number=1, error="{}", at=AT, next_at=None)
        await holder.commit(run, Back(due_at=claim.now + timedelta(seconds=60)), attempts=(failed,))
        assert await holder.ready() == []
        assert (await look(world.storage, run.id)).status is Status.RETRYING
        await world.advance(61)
        assert await world.storage.wake_due(10) == 1
        assert (await holder.take_again(run)).attempts == (failed,)

    async def test_verdicts_come_in_the_order_of_the_turns(self, world: World) -> None:
        holder = await a_holder(world.storage)
        runs = [await holder.start(a_run()) for _ in range(6)]
        await world.storage.send([a_signal(runs[1].id)])
        turns = [
            a_turn(runs[5], GOING),
            a_turn(runs[0], COMPLETED, token=new_token()),
            a_turn(runs[3], COMPLETED),
            a_turn(runs[1], Park(signals=("x",))),
            a_turn(runs[2], Park(signals=("x",))),
        ]
        done, lost, again = Verdict.DONE, Verdict.LOST, Verdict.AGAIN
        assert await world.storage.commit(turns) == [done, lost, done, again, done]

    @pytest.mark.parametrize("move", [GOING, COMPLETED, STUCK], ids=["going", "end", "stuck"])
    @pytest.mark.parametrize("beside", [0, 1])
    async def test_a_row_at_a_place_that_holds_another_one_is_refused(
        self, world: World, move: Move, beside: int
    ) -> None:
        # An answer that is on record stays the answer, and whoever has another one is told.
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        others = [await holder.start(a_run()) for _ in range(beside)]
        assert await holder.commit(run, GOING, rows=(a_row(0), a_row(1, "2"))) is Verdict.DONE
        more = [a_turn(other, GOING, rows=(a_row(0),)) for other in others]
        for other in (a_row(1, "2", kind="failed"), a_row(1, "3")):
            with pytest.raises(StorageRefused, match="on record as"):
                await world.storage.commit([a_turn(run, move, rows=(other,)), *more])
        assert await rows_of(world.storage, run.id) == [a_row(0), a_row(1, "2")]
        assert await holder.commit(run, move, rows=(a_row(1, "2"), a_row(2, "3"))) is Verdict.DONE

    async def test_committing_nothing_answers_nothing(self, world: World) -> None:
        assert await world.storage.commit([]) == []

    async def test_batches_in_opposite_order_do_not_deadlock(self, world: World) -> None:
        storages = (world.storage, await world.another())
        holder = await a_holder(world.storage)
        await world.storage.start([a_run() for _ in range(50)])
        runs = (await holder.claim()).runs
        for place in range(10):
            turns = [a_turn(run, GOING, rows=(a_row(place),)) for run in runs]
            await asyncio.gather(storages[0].commit(turns), storages[1].commit(list(reversed(turns))))
        for run in runs:
            verdict = await holder.commit(run, COMPLETED, rows=tuple(a_row(place) for place in range(10)))
            assert verdict is Verdict.DONE
            assert len(await rows_of(world.storage, run.id)) == 10


class TestFence:
    @every_move
    async def test_a_turn_under_another_token_is_lost_and_changes_nothing(self, world: World, move: Move) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await _is_refused(world, run, move, token=new_token())
        assert await holder.commit(run, COMPLETED) is Verdict.DONE

    async def test_rows_alone_under_an_old_token_are_lost(self, world: World) -> None:
        gone, reaper = await a_holder(world.storage, lease=1), await a_holder(world.storage)
        run = await gone.start(a_run())
        await world.advance(2)
        await world.storage.reap(reaper.id, new_token(), 10)
        again = await reaper.take_again(run)
        assert await gone.commit(run, GOING, rows=(a_row(0),)) is Verdict.LOST
        assert await rows_of(world.storage, run.id) == []
        assert await reaper.commit(again, GOING, rows=(a_row(0, "2"),)) is Verdict.DONE
        assert await gone.commit(run, GOING, rows=(a_row(0),)) is Verdict.LOST
        assert await rows_of(world.storage, run.id) == [a_row(0, "2")]

    async def test_a_lost_turn_stops_no_other_of_its_batch(self, world: World) -> None:
        holder = await a_holder(world.storage)
        runs = [await holder.start(a_run()) for _ in range(3)]
        turns = [a_turn(run, COMPLETED) for run in runs]
        turns[1] = a_turn(runs[1], COMPLETED, token=new_token())
        assert await world.storage.commit(turns) == [Verdict.DONE, Verdict.LOST, Verdict.DONE]
        assert (await look(world.storage, runs[1].id)).status == "running"

    async def test_a_turn_of_an_unknown_run_is_lost(self, world: World) -> None:
        turn = Turn(run_id=new_run_id(), token=new_token(), seen=0, move=COMPLETED)
        assert await world.storage.commit([turn]) == [Verdict.LOST]

    @every_move
    async def test_a_turn_after_the_end_under_another_token_is_lost(self, world: World, move: Move) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, COMPLETED)
        assert await world.storage.commit([_full(run, move, token=new_token())]) == [Verdict.LOST]
        assert await rows_of(world.storage, run.id) == []

    @every_move
    async def test_a_worker_that_was_reaped_writes_nothing_more(self, world: World, move: Move) -> None:
        gone, reaper = await a_holder(world.storage, lease=1), await a_holder(world.storage)
        run = await gone.start(a_run())
        await world.advance(2)
        assert len(await world.storage.reap(reaper.id, new_token(), 10)) == 1
        await _is_refused(world, run, move)
        again = await reaper.take_again(run)
        await _is_refused(world, run, move)
        assert await reaper.commit(again, COMPLETED) is Verdict.DONE

    @every_move
    async def test_a_worker_that_gave_back_writes_nothing_more(self, world: World, move: Move) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.storage.give_back(holder.id)
        await _is_refused(world, run, move)

    @every_move
    async def test_a_claim_that_was_released_writes_nothing(self, world: World, move: Move) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.storage.release(holder.id, ())
        await _is_refused(world, run, move)


class TestSentAgain:
    @every_move
    async def test_a_turn_sent_again_gets_its_verdict_and_is_written_once(self, world: World, move: Move) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.storage.send([a_signal(run.id, "a")])
        box = await holder.inbox(run)
        child = a_child(run)
        turn = _full(run, move, seen=box.seen, children=(child,), consumed=(box.signals[0].id,))
        for _ in range(3):
            assert await world.storage.commit([turn]) == [Verdict.DONE]
        assert await rows_of(world.storage, run.id) == list(turn.rows)
        ready = await holder.ready()
        assert ready.count(child.id) == 1
        assert (run.id in ready) == isinstance(move, Back)

    async def test_a_park_that_was_too_late_is_too_late_again(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.storage.send([a_signal(run.id)])
        turn = a_turn(run, Park(signals=("go",)), rows=(a_row(0),))
        for _ in range(3):
            assert await world.storage.commit([turn]) == [Verdict.AGAIN]
        assert (await look(world.storage, run.id)).status == "running"
        assert await rows_of(world.storage, run.id) == [a_row(0)]

    async def test_a_park_that_was_too_late_stays_so_after_its_holder_went_on(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.storage.send([a_signal(run.id)])
        park = a_turn(run, Park(signals=("go",)))
        assert await world.storage.commit([park]) == [Verdict.AGAIN]
        box = await holder.inbox(run)
        await holder.commit(run, GOING, seen=box.seen, rows=(a_row(0),), consumed=(box.signals[0].id,))
        assert await world.storage.commit([park]) == [Verdict.AGAIN]

    async def test_a_park_is_recognised_after_the_run_was_woken(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        turn = _full(run, MOVES["parks"])
        await world.storage.commit([turn])
        await world.storage.send([a_signal(run.id)])
        assert await world.storage.commit([turn]) == [Verdict.DONE]
        assert await holder.ready() == [run.id]

    @pytest.mark.parametrize("move", [MOVES["parks"], MOVES["is given back"]], ids=["parks", "is given back"])
    async def test_a_turn_is_recognised_after_another_claim_and_does_not_disturb_it(
        self, world: World, move: Move
    ) -> None:
        holder, other = await a_holder(world.storage), await a_holder(world.storage)
        run = await holder.start(a_run())
        turn = _full(run, move)
        await world.storage.commit([turn])
        await world.storage.send([a_signal(run.id)])
        again = await other.take_again(run)
        assert await world.storage.commit([turn]) == [Verdict.DONE]
        assert (await look(world.storage, run.id)).status == "running"
        end = {"rows": (a_row(2),), "consumed": (again.signals[0].id,)}
        assert await other.commit(again, COMPLETED, **end) is Verdict.DONE
        assert len(await rows_of(world.storage, run.id)) == 3

    async def test_an_end_tells_the_parent_once(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run)
        await holder.commit(run, GOING, children=(child,))
        turn = a_turn(await holder.take(child), COMPLETED)
        for _ in range(3):
            assert await world.storage.commit([turn]) == [Verdict.DONE]
        assert (await holder.inbox(run)).seen == 1

    async def test_an_end_is_recognised_while_it_is_beaten_for(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, COMPLETED)
        async with Beating(world.storage, holder) as heart:
            assert (await heart.beat()).arrivals == ()
        assert await holder.commit(run, COMPLETED) is Verdict.DONE


def _full(run: Claimed, move: Move, **given: Any) -> Turn:
    """A turn that writes rows, an attempt and a state beside its move."""
    attempt = Attempt(position="2", number=1, error="{}", at=AT, next_at=None)
    return a_turn(
        run,
        move,
        rows=(a_row(0, "", '{"seed":"s"}', "started"), a_row(1)),
        attempts=(attempt,),
        published='{"at":1}',
        **given,
    )


async def _is_refused(world: World, run: Claimed, move: Move, **given: Any) -> None:
    """The turn is lost, and the run is as it was."""
    before = await look(world.storage, run.id)
    child = a_child(run)
    assert await world.storage.commit([_full(run, move, children=(child,), **given)]) == [Verdict.LOST]
    assert await rows_of(world.storage, run.id) == []
    assert await world.storage.state(run.id) is None
    assert await world.storage.run(child.id) is None
    assert await world.storage.outcomes([run.id]) == []
    assert (await look(world.storage, run.id)).status == before.status
