"""What keeps runs moving: timers, blocks, and the sweep that mends what must not be."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from runnerq.persistence.records import GOING, Back, Claimed, End, Move, Park, Renew, Status, Stuck, Verdict
from runnerq.testing.conformance.world import (
    COMPLETED,
    Holder,
    World,
    a_child,
    a_holder,
    a_row,
    a_run,
    a_signal,
    look,
    swept,
)

SERVED = ("order@1",)


class TestTimers:
    async def test_a_parked_run_is_woken_when_it_is_due(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        due_at = await _in(world, 60)
        await holder.commit(run, Park(due_at=due_at), rows=(a_row(0),))
        assert (await look(world.storage, run.id)).due_at == due_at
        assert await world.storage.wake_due(10) == 0
        assert await holder.ready() == []
        await world.advance(61)
        assert await world.storage.wake_due(10) == 1
        assert (await holder.take_again(run)).rows == (a_row(0),)

    async def test_a_park_that_is_due_already_is_woken_by_the_next_look(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        assert await holder.commit(run, Park(due_at=await _in(world, -60))) is Verdict.DONE
        await world.storage.wake_due(10)
        assert await holder.ready() == [run.id]

    async def test_a_signal_before_the_timer_wakes_once(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Park(signals=("go",), due_at=await _in(world, 60)))
        await world.storage.send([a_signal(run.id)])
        again = await holder.take_again(run)
        await world.advance(61)
        assert await world.storage.wake_due(10) == 0
        assert await holder.commit(again, COMPLETED) is Verdict.DONE

    async def test_a_run_parked_anew_has_only_its_new_timer(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Park(signals=("go",), due_at=await _in(world, 60)))
        await world.storage.send([a_signal(run.id)])
        await holder.commit(await holder.take_again(run), Park(signals=("go",)))
        await world.advance(61)
        assert await world.storage.wake_due(10) == 0
        assert (await look(world.storage, run.id)).due_at is None

    async def test_what_is_longest_due_is_woken_first_and_no_more_than_the_limit(self, world: World) -> None:
        new = [a_run(due_at=await _in(world, 10 + number)) for number in range(5)]
        await world.storage.start(list(reversed(new)))
        holder = await a_holder(world.storage)
        await world.advance(30)
        assert await world.storage.wake_due(2) == 2
        assert sorted(await holder.ready()) == sorted(run.id for run in new[:2])
        assert [await world.storage.wake_due(2) for _ in range(3)] == [2, 1, 0]

    async def test_thousands_that_are_due_at_one_instant_are_woken_in_batches(self, world: World) -> None:
        due_at = await _in(world, 10)
        for _ in range(3):
            await world.storage.start([a_run(due_at=due_at) for _ in range(700)])
        await world.advance(11)
        assert [await world.storage.wake_due(1000) for _ in range(4)] == [1000, 1000, 100, 0]

    async def test_a_held_run_has_no_timer(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Park(due_at=await _in(world, 60)))
        await world.advance(61)
        await world.storage.wake_due(10)
        await holder.take_again(run)
        assert (await holder.claim()).next_due is None


class TestBlocks:
    async def test_a_blocked_run_says_why_and_cannot_be_claimed(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        stuck = Stuck(
            message="another step\nis asked for",
            build="b1",
            position="5.1",
            recorded="step 'a'",
            asked="step 'b'",
            line="shop.py:12",
            traceback="Traceback ...",
        )
        before = await world.storage.now()
        await holder.commit(run, stuck, rows=(a_row(0),))
        assert (await look(world.storage, run.id)).status is Status.BLOCKED
        assert await holder.ready() == []
        block = await world.storage.block(run.id)
        assert block is not None
        assert (block.run_id, block.message, block.builds) == (run.id, stuck.message, ("b1",))
        assert (block.position, block.recorded, block.asked) == ("5.1", "step 'a'", "step 'b'")
        assert (block.line, block.traceback, block.retry_at) == ("shop.py:12", "Traceback ...", None)
        assert before <= block.at <= await world.storage.now()

    async def test_a_run_that_is_not_blocked_has_no_block(self, world: World) -> None:
        new = a_run()
        await world.storage.start([new])
        assert await world.storage.block(new.id) is None
        assert await world.storage.block(a_run().id) is None

    async def test_the_build_that_could_not_follow_does_not_get_it_again(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Stuck(message="m", build="b1"))
        assert await world.storage.unblock("b1", SERVED, 10) == 0
        assert await world.storage.unblock("b2", ("other@1",), 10) == 0
        assert await world.storage.unblock("b2", SERVED, 10) == 1
        assert await holder.ready() == [run.id]

    async def test_a_run_that_two_builds_could_not_follow_is_kept_from_both(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Stuck(message="m1", build="b1"))
        await world.storage.unblock("b2", SERVED, 10)
        await holder.commit(await holder.take_again(run), Stuck(message="m2", build="b2"))
        block = await world.storage.block(run.id)
        assert block is not None
        assert (block.message, sorted(block.builds)) == ("m2", ["b1", "b2"])
        assert await world.storage.unblock("b1", SERVED, 10) == 0
        assert await world.storage.unblock("b2", SERVED, 10) == 0
        assert await world.storage.unblock("b3", SERVED, 10) == 1

    async def test_a_fault_of_the_worker_is_tried_again_when_its_time_has_come(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Stuck(message="no module", build=None, retry_at=await _in(world, 60)))
        assert (await look(world.storage, run.id)).status is Status.BLOCKED
        assert await world.storage.unblock("b1", SERVED, 10) == 0
        await world.advance(61)
        assert await world.storage.unblock("b1", SERVED, 10) == 1
        assert await holder.ready() == [run.id]

    async def test_faults_of_workers_in_a_row_are_counted(self, world: World) -> None:
        holder, run = await _faulted(world, 3)
        assert run.faults == 3
        await holder.commit(run, GOING, rows=(a_row(0),))
        await holder.commit(run, Back())
        assert (await holder.take_again(run)).faults == 3

    @pytest.mark.parametrize("recorded", [True, False])
    async def test_a_fault_after_an_answer_is_the_first_again(self, world: World, recorded: bool) -> None:
        holder, run = await _faulted(world, 2)
        stuck = Stuck(message="m", build=None, retry_at=await _in(world, 0))
        await holder.commit(run, stuck, rows=(a_row(0),), recovered=recorded)
        await world.storage.unblock("b1", SERVED, 10)
        assert (await holder.take_again(run)).faults == (1 if recorded else 3)

    async def test_an_answer_or_a_park_or_a_block_of_a_build_ends_the_count(self, world: World) -> None:
        cases: tuple[tuple[Move, dict[str, Any]], ...] = (
            (GOING, {"rows": (a_row(0),), "recovered": True}),
            (Park(due_at=await _in(world, 0)), {}),
            (Stuck(message="m", build="b1"), {}),
        )
        for move, given in cases:
            holder, run = await _faulted(world, 2)
            await holder.commit(run, move, **given)
            if move is GOING:
                await holder.commit(run, Back())
            await world.storage.wake_due(10)
            await world.storage.unblock("b2", SERVED, 10)
            assert (await holder.take_again(run)).faults == 0, move

    async def test_a_run_that_was_followed_has_no_block_any_more(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Stuck(message="m", build="b1"))
        await world.storage.unblock("b2", SERVED, 10)
        await holder.commit(await holder.take_again(run), Park(signals=("go",)))
        assert await world.storage.block(run.id) is None

    async def test_a_run_that_ended_has_no_block_any_more(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Stuck(message="m", build="b1"))
        await world.storage.unblock("b2", SERVED, 10)
        await holder.commit(await holder.take_again(run), COMPLETED)
        assert await world.storage.block(run.id) is None

    async def test_no_more_than_the_limit_are_taken_up(self, world: World) -> None:
        holder = await a_holder(world.storage)
        for _ in range(3):
            await holder.commit(await holder.start(a_run()), Stuck(message="m", build="b1"))
        assert [await world.storage.unblock("b2", SERVED, 2) for _ in range(3)] == [2, 1, 0]

    async def test_a_child_that_is_blocked_does_not_wake_its_parent(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run)
        await holder.commit(run, Park(children=(child.id,)), children=(child,))
        await holder.commit(await holder.take(child), Stuck(message="m", build="b1"))
        assert await holder.ready() == []


class TestSweep:
    async def test_a_missed_signal_is_found(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Park(signals=("go",)))
        await world.storage.send([a_signal(run.id)])
        await world.lose_wake(run.id)
        assert await holder.ready() == []
        assert await swept(world) == 1
        assert len((await holder.take_again(run)).signals) == 1

    async def test_a_missed_end_of_a_child_is_found(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run)
        await holder.commit(run, Park(children=(child.id,)), children=(child,))
        await holder.commit(await holder.take(child), COMPLETED)
        await world.lose_wake(run.id)
        assert await swept(world) == 1
        assert await holder.ready() == [run.id]

    async def test_a_missed_failure_of_one_of_many_children_is_found(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        children = tuple(a_child(run, str(position)) for position in range(3))
        await holder.commit(run, Park(children=tuple(child.id for child in children), needs=3), children=children)
        await holder.commit(await holder.take(children[1]), End(status="failed"))
        await world.lose_wake(run.id)
        assert await swept(world) == 1
        assert await holder.ready() == [run.id]

    async def test_the_missed_end_of_the_last_of_children_that_are_not_named_is_found(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        children = tuple(a_child(run, str(position)) for position in range(3))
        await holder.commit(run, Park(children=None, needs=3), children=children)
        for child in (await holder.claim()).runs:
            await holder.commit(child, COMPLETED)
        await world.lose_wake(run.id)
        assert await swept(world) == 1
        assert await holder.ready() == [run.id]

    async def test_a_missed_cancel_is_found(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Park(signals=("go",)))
        await world.storage.cancel([run.id], "why")
        await world.lose_wake(run.id)
        assert await swept(world) == 1
        assert (await holder.take_again(run)).cancel == "why"

    async def test_a_run_whose_worker_is_not_there_is_given_back(self, world: World) -> None:
        holder, other = await a_holder(world.storage), await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.forget_worker(holder.id)
        assert await swept(world) == 1
        assert await holder.commit(run, COMPLETED) is Verdict.LOST
        assert await other.ready() == [run.id]

    async def test_a_child_of_an_ended_parent_is_cancelled(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run, held, waiting, fresh = await _family(holder)
        await holder.commit(run, COMPLETED)
        assert await swept(world) == 3
        assert (await look(world.storage, fresh)).status == "cancelled"
        for child in (held, waiting):
            record = await look(world.storage, child)
            assert (record.cancel_requested, record.ended_at) == (True, None)
        assert await holder.ready() == [waiting]
        assert await swept(world) == 0

    async def test_a_child_that_is_to_outlive_its_parent_is_not_cancelled(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run, options='{"parent_close":"abandon"}')
        await holder.commit(run, COMPLETED, children=(child,))
        assert await swept(world) == 0
        assert await holder.ready() == [child.id]

    async def test_a_blocked_child_of_an_ended_parent_keeps_its_cancel_until_it_is_taken_up(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run)
        await holder.commit(run, GOING, children=(child,))
        await holder.commit(await holder.take(child), Stuck(message="m", build="b1"))
        await holder.commit(run, COMPLETED)
        assert await swept(world) == 1
        assert (await look(world.storage, child.id)).status == "blocked"
        assert await world.storage.unblock("b2", ("child@1",), 10) == 1
        assert (await holder.take(child)).cancel is not None

    async def test_a_child_of_a_run_that_goes_on_in_a_new_generation_is_left_alone(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run)
        await holder.commit(run, Renew(started=a_row(0, "", "{}", "started")), children=(child,))
        assert await swept(world) == 0
        assert await holder.ready() == [child.id]

    async def test_what_waits_rightly_is_left_alone(self, world: World) -> None:
        holder = await a_holder(world.storage)
        for_signal, for_children, for_time, for_many = [await holder.start(a_run()) for _ in range(4)]
        await holder.commit(for_signal, Park(signals=("go",)))
        await world.storage.send([a_signal(for_signal.id, "else")])
        children = tuple(a_child(for_children, str(position)) for position in range(3))
        named = tuple(child.id for child in children)
        await holder.commit(for_children, Park(children=named, needs=3), children=children)
        await holder.commit(await holder.take(children[0]), COMPLETED)
        await holder.commit(for_time, Park(due_at=await _in(world, 60)))
        many = tuple(a_child(for_many, str(position)) for position in range(20))
        await holder.commit(for_many, Park(children=None, needs=20), children=many)
        await holder.commit(await holder.take(many[0]), COMPLETED)
        held = await holder.start(a_run())
        await holder.commit(held, GOING)
        given_back = await holder.start(a_run())
        await holder.commit(given_back, Back(due_at=await _in(world, 60)))
        blocked = await holder.start(a_run())
        await holder.commit(blocked, Stuck(message="m", build="b1"))
        cancelled = await holder.start(a_run())
        await world.storage.cancel([cancelled.id])
        await holder.commit(cancelled, Park(signals=("clean up",)), seen=1)
        assert await swept(world) == 0
        for run in (for_signal, for_children, for_time, for_many, cancelled):
            assert (await look(world.storage, run.id)).status == "waiting"

    async def test_a_sweep_goes_round_all_runs_a_few_at_a_time(self, world: World) -> None:
        holder = await a_holder(world.storage)
        runs = [await holder.start(a_run()) for _ in range(5)]
        for run in runs:
            await holder.commit(run, Park(signals=("go",)))
            await world.storage.send([a_signal(run.id)])
            await world.lose_wake(run.id)
        storages = (world.storage, await world.another())
        mended = [await storages[turn % 2].sweep(2) for turn in range(6)]
        assert sum(mended) == 5
        assert max(mended) <= 2
        assert sorted(await holder.ready()) == sorted(run.id for run in runs)


async def _family(holder: Holder) -> tuple[Claimed, str, str, str]:
    """A held run, and the ids of children of it that is held, that waits, and that never started."""
    run = await holder.start(a_run())
    children = tuple(a_child(run, str(position)) for position in range(3))
    await holder.commit(run, GOING, children=children[:2])
    claimed = {child.id: child for child in (await holder.claim()).runs}
    await holder.commit(claimed[children[1].id], Park(signals=("go",)))
    await holder.commit(run, GOING, children=children[2:])
    return run, children[0].id, children[1].id, children[2].id


async def _faulted(world: World, times: int) -> tuple[Holder, Claimed]:
    """A held run that was blocked so many times by a fault of its worker."""
    holder = await a_holder(world.storage)
    run = await holder.start(a_run())
    for _ in range(times):
        await holder.commit(run, Stuck(message="no module", build=None, retry_at=await _in(world, 0)))
        assert await world.storage.unblock("b1", SERVED, 10) == 1
        run = await holder.take_again(run)
    return holder, run


async def _in(world: World, seconds: float) -> datetime:
    return await world.storage.now() + timedelta(seconds=seconds)
