"""Opening runs again, against whatever else concerns them, with the other transaction held open or stopped."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest

from runnerq.persistence.records import (
    GOING,
    Back,
    Claimed,
    End,
    NewRun,
    Park,
    Reopen,
    Sent,
    Stuck,
    Verdict,
)
from runnerq.testing.conformance.world import (
    COMPLETED,
    Holder,
    a_child,
    a_holder,
    a_row,
    a_run,
    a_signal,
    a_turn,
    an_activity,
    look,
    rows_of,
    swept,
)
from runnerq.workflow.journal import Row
from tests.persistence.postgres.backend import PostgresWorld
from tests.persistence.postgres.interleaving import held_open, rolled_back, stopped, until_waiting
from tests.persistence.postgres.races import a_request
from tests.persistence.postgres.watching import backend_that

pytestmark = pytest.mark.asyncio(loop_scope="module")

FAILED = End(status="failed", error="{}")
STUCK = Stuck(message="m", build="b1")
ROWS = (a_row(0), a_row(1))
REOPENED = a_row(2, "", "{}", "reopened")


class TestTwoReopens:
    async def test_one_is_held_and_the_other_waits_and_comes_too_late(self, world: PostgresWorld) -> None:
        holder, run = await _failed(world)
        async with held_open(world) as person:
            assert await person.reopen(_again(run))
            other = asyncio.create_task(world.storage.reopen(_again(run)))
            await until_waiting(world)
        assert not await other
        assert await holder.ready() == [run.id]

    async def test_one_is_rolled_back_and_the_other_opens_it(self, world: PostgresWorld) -> None:
        holder, run = await _failed(world)
        async with rolled_back(world) as person:
            assert await person.reopen(_again(run))
            other = asyncio.create_task(world.storage.reopen(_again(run)))
            await until_waiting(world)
        assert await other
        assert (await holder.take_again(run)).rows == (*ROWS, REOPENED)

    async def test_one_is_stopped_while_the_other_opens_it_and_it_fails_again(self, world: PostgresWorld) -> None:
        holder, run = await _failed(world)
        async with stopped(world, "reopen_runs") as gate:
            reopening = await gate.begin(gate.writes.reopen(_again(run)))
            assert await world.storage.reopen(_again(run))
            await holder.commit(await holder.take_again(run), FAILED)
            await gate.go()
            assert not await reopening
        assert (await look(world.storage, run.id)).status == "failed"
        assert await rows_of(world.storage, run.id) == [*ROWS, REOPENED]

    async def test_an_activity_that_failed_anew_meanwhile_is_not_opened_by_the_older_request(
        self, world: PostgresWorld
    ) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(an_activity())
        await holder.commit(run, FAILED)
        wanted = Reopen(run_id=run.id, generation=1, status="failed")
        async with stopped(world, "reopen_runs") as gate:
            reopening = await gate.begin(gate.writes.reopen(wanted))
            assert await world.storage.reopen(wanted)
            await holder.commit(await holder.take_again(run), FAILED)
            await gate.go()
            assert not await reopening

    @pytest.mark.parametrize(("status", "table"), [("failed", "outcome"), ("blocked", "live")])
    async def test_families_are_locked_in_the_order_of_their_ids(
        self, world: PostgresWorld, status: Literal["failed", "blocked"], table: str
    ) -> None:
        holder = await a_holder(world.storage)
        runs = sorted([await holder.start(a_run()) for _ in range(2)], key=lambda run: run.id)
        for run in runs:
            await holder.commit(run, FAILED if status == "failed" else STUCK)
        first, last = (_again(run, None, status) for run in runs)
        lock = f"select run_id::text from runnerq.{table} where run_id = $1 for update skip locked"
        async with world.connection.transaction():
            await world.connection.fetch(lock, first.run_id)
            reopening = asyncio.create_task(world.storage.reopen(_with(last, [first])))
            await until_waiting(world)
            assert await world.connection.fetchval(lock, last.run_id) == last.run_id
        assert await reopening


class TestReopenAgainstItsHolder:
    async def test_the_end_is_held_and_there_is_nothing_to_open_yet(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with held_open(world) as worker:
            await worker.commit([a_turn(run, FAILED, rows=ROWS)])
            assert not await world.storage.reopen(_again(run))
        assert await world.storage.reopen(_again(run))

    async def test_the_reopen_is_held_and_the_end_sent_again_is_done(self, world: PostgresWorld) -> None:
        holder, run = await _failed(world)
        async with held_open(world) as person:
            assert await person.reopen(_again(run))
            assert await holder.commit(run, FAILED, rows=ROWS) is Verdict.DONE
        assert await holder.commit(run, FAILED, rows=ROWS) is Verdict.DONE
        assert (await look(world.storage, run.id)).status == "pending"

    async def test_it_is_stopped_while_the_run_is_blocked_anew_by_its_holder(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with stopped(world, "reopen_runs") as gate:
            reopening = await gate.begin(gate.writes.reopen(_again(run, a_row(0, "", "{}", "reopened"), "blocked")))
            await holder.commit(run, STUCK, rows=ROWS)
            await gate.go()
            # The snapshot does not show what stands at that place.
            assert not await reopening
        assert await rows_of(world.storage, run.id) == list(ROWS)

    async def test_it_is_stopped_while_another_build_takes_the_run_up_and_blocks_it_again(
        self, world: PostgresWorld
    ) -> None:
        holder, run = await _blocked(world)
        async with stopped(world, "reopen_runs") as gate:
            reopening = await gate.begin(gate.writes.reopen(_again(run, REOPENED, "blocked")))
            assert await world.storage.unblock("b2", ["order@1"], 10) == 1
            again = await holder.take_again(run)
            await holder.commit(again, Stuck(message="m2", build="b2"), rows=(a_row(2),))
            await gate.go()
            assert not await reopening
        assert await rows_of(world.storage, run.id) == [*ROWS, a_row(2)]
        assert (await look(world.storage, run.id)).status == "blocked"

    async def test_the_take_up_is_held_and_it_waits_and_comes_too_late(self, world: PostgresWorld) -> None:
        holder, run = await _blocked(world)
        async with held_open(world) as worker:
            assert await worker.unblock("b2", ["order@1"], 10) == 1
            reopening = asyncio.create_task(world.storage.reopen(_again(run, REOPENED, "blocked")))
            await until_waiting(world)
        assert not await reopening
        assert (await holder.take_again(run)).rows == ROWS

    async def test_it_is_held_and_no_build_takes_the_run_up(self, world: PostgresWorld) -> None:
        holder, run = await _blocked(world)
        async with held_open(world) as person:
            assert await person.reopen(_again(run, REOPENED, "blocked"))
            assert await world.storage.unblock("b2", ["order@1"], 10) == 0
        assert await world.storage.unblock("b2", ["order@1"], 10) == 0
        assert (await holder.take_again(run)).rows == (*ROWS, REOPENED)


class TestTakingUpAgainstAHolder:
    async def test_a_blocked_run_that_was_held_for_a_moment_is_taken_up_in_the_same_look(
        self, world: PostgresWorld
    ) -> None:
        holder, run = await _blocked(world)
        async with world.connection.transaction():
            assert await world.connection.fetchval("select run_id::text from runnerq.live for update") == run.id
            unblocking = asyncio.create_task(world.storage.unblock("b2", ["order@1"], 10))
            await _looked_in_vain(world)
            assert not unblocking.done()
        assert await unblocking == 1
        assert (await holder.take_again(run)).rows == ROWS


class TestReopenAgainstClaim:
    async def test_it_is_held_and_a_claim_takes_the_run_once_it_is_committed(self, world: PostgresWorld) -> None:
        holder, run = await _failed(world)
        async with held_open(world) as person:
            await person.reopen(_again(run))
            assert await holder.ready() == []
        assert (await holder.take_again(run)).rows == (*ROWS, REOPENED)

    async def test_a_claim_older_than_the_end_and_the_reopen_takes_nothing(self, world: PostgresWorld) -> None:
        holder, other = await a_holder(world.storage), await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Back())
        async with stopped(world, "claim_runs") as gate:
            claiming = await gate.begin(gate.writes.claim(a_request(other)))
            await holder.commit(await holder.take_again(run), FAILED, rows=ROWS)
            assert await world.storage.reopen(_again(run))
            await gate.go()
            assert (await claiming).runs == ()
        assert (await other.take_again(run)).rows == (*ROWS, REOPENED)

    async def test_a_claim_that_is_held_of_a_run_taken_up_lets_it_come_too_late(self, world: PostgresWorld) -> None:
        holder, run = await _blocked(world)
        await world.storage.unblock("b2", ["order@1"], 10)
        async with held_open(world) as worker:
            [_] = (await worker.claim(a_request(holder))).runs
            assert not await world.storage.reopen(_again(run, REOPENED, "blocked"))
        assert await rows_of(world.storage, run.id) == list(ROWS)


class TestReopenAgainstCancel:
    async def test_the_cancel_is_held_and_the_blocked_run_is_opened_with_it(self, world: PostgresWorld) -> None:
        holder, run = await _blocked(world)
        async with held_open(world) as person:
            assert await person.cancel([run.id], "why") == [Sent.SENT]
            reopening = asyncio.create_task(world.storage.reopen(_again(run, REOPENED, "blocked")))
            await until_waiting(world)
        assert await reopening
        assert (await holder.take_again(run)).cancel == "why"

    async def test_the_reopen_is_held_and_the_cancel_waits_and_is_heard(self, world: PostgresWorld) -> None:
        holder, run = await _blocked(world)
        async with held_open(world) as person:
            assert await person.reopen(_again(run, REOPENED, "blocked"))
            cancelling = asyncio.create_task(world.storage.cancel([run.id], "why"))
            await until_waiting(world)
        assert await cancelling == [Sent.SENT]
        assert (await holder.take_again(run)).cancel == "why"

    async def test_the_reopen_of_an_ended_run_is_held_and_the_cancel_finds_it_ended(self, world: PostgresWorld) -> None:
        holder, run = await _failed(world)
        async with held_open(world) as person:
            assert await person.reopen(_again(run))
            assert await world.storage.cancel([run.id]) == [Sent.FINISHED]
            assert await world.storage.send([a_signal(run.id)]) == [Sent.FINISHED]
        assert await world.storage.cancel([run.id], "why") == [Sent.SENT]
        assert (await holder.take_again(run)).cancel == "why"


class TestReopenedParentAgainstChild:
    """A child that ends is told to whoever waits for it now: to a parent that was opened again, too."""

    async def test_the_childs_end_is_stopped_while_its_parent_is_opened(self, world: PostgresWorld) -> None:
        holder, run, child = await _left(world)
        async with stopped(world, "commit") as gate:
            ending = await gate.begin(gate.writes.commit([a_turn(child, COMPLETED)]))
            await world.storage.reopen(_again(run))
            assert await holder.commit(await holder.take_again(run), Park(children=(child.id,))) is Verdict.DONE
            await gate.go()
            assert await ending == [Verdict.BUSY]
        assert await holder.commit(child, COMPLETED) is Verdict.DONE
        assert await holder.ready() == [run.id]

    async def test_the_parents_reopen_is_held_and_the_childs_end_is_busy_then_told(self, world: PostgresWorld) -> None:
        holder, run, child = await _left(world)
        async with held_open(world) as person:
            assert await person.reopen(_again(run))
            assert await holder.commit(child, COMPLETED) is Verdict.BUSY
        assert await holder.commit(child, COMPLETED) is Verdict.DONE
        again = await holder.take_again(run)
        assert again.seen == 1

    async def test_the_childs_end_is_held_and_the_parents_reopen_waits_and_finds_it(self, world: PostgresWorld) -> None:
        holder, run, child = await _left(world)
        async with held_open(world) as worker:
            assert await worker.commit([a_turn(child, COMPLETED)]) == [Verdict.DONE]
            reopening = asyncio.create_task(world.storage.reopen(_again(run)))
            await until_waiting(world)
        assert await reopening
        again = await holder.take_again(run)
        assert [each.run_id for each in (await holder.inbox(again, [child.id])).outcomes] == [child.id]

    async def test_ends_of_two_children_of_an_ended_parent_do_not_hinder_each_other(self, world: PostgresWorld) -> None:
        holder, _, children = await _left_unclaimed(world, "q", "q")
        child, sibling = (await holder.claim()).runs
        assert {child.id, sibling.id} == {each.id for each in children}
        async with held_open(world) as worker:
            assert await worker.commit([a_turn(child, COMPLETED)]) == [Verdict.DONE]
            assert await holder.commit(sibling, COMPLETED) is Verdict.DONE

    @pytest.mark.parametrize("verb", ["cancel_runs", "terminate_runs"])
    async def test_a_child_is_ended_from_outside_while_its_parent_is_opened(
        self, world: PostgresWorld, verb: str
    ) -> None:
        holder, run, [fresh] = await _left_unclaimed(world, "elsewhere")
        async with stopped(world, verb) as gate:
            end = gate.writes.cancel if verb == "cancel_runs" else gate.writes.terminate
            ending = await gate.begin(end([fresh.id]))
            await world.storage.reopen(_again(run))
            assert await holder.commit(await holder.take_again(run), Park(children=(fresh.id,))) is Verdict.DONE
            await gate.go()
            assert await ending == [Sent.SENT]
        assert await holder.ready() == [run.id]

    @pytest.mark.parametrize("verb", ["cancel", "terminate"])
    async def test_a_childs_end_from_outside_is_held_and_the_parents_reopen_waits_for_it(
        self, world: PostgresWorld, verb: str
    ) -> None:
        holder, run, [fresh] = await _left_unclaimed(world, "elsewhere")
        async with held_open(world) as person:
            end = person.cancel if verb == "cancel" else person.terminate
            assert await end([fresh.id]) == [Sent.SENT]
            reopening = asyncio.create_task(world.storage.reopen(_again(run)))
            await until_waiting(world)
        assert await reopening
        again = await holder.take_again(run)
        assert [each.run_id for each in (await holder.inbox(again, [fresh.id])).outcomes] == [fresh.id]

    async def test_the_parents_reopen_is_held_and_a_childs_termination_waits_and_is_told(
        self, world: PostgresWorld
    ) -> None:
        holder, run, child = await _left(world)
        async with held_open(world) as person:
            assert await person.reopen(_again(run))
            ending = asyncio.create_task(world.storage.terminate([child.id]))
            await until_waiting(world)
        assert await ending == [Sent.SENT]
        assert (await holder.take_again(run)).seen == 1

    async def test_the_childs_reopen_is_held_and_the_sweep_does_not_cancel_it_with_its_parent(
        self, world: PostgresWorld
    ) -> None:
        holder, run, child = await _left(world)
        await holder.commit(child, FAILED)
        async with held_open(world) as person:
            assert await person.reopen(_again(child, None))
            assert await swept(world) == 0
        assert await swept(world) == 0
        assert (await holder.take_again(child)).cancel is None
        assert (await look(world.storage, run.id)).status == "failed"


async def _failed(world: PostgresWorld) -> tuple[Holder, Claimed]:
    holder = await a_holder(world.storage)
    run = await holder.start(a_run())
    assert await holder.commit(run, FAILED, rows=ROWS) is Verdict.DONE
    return holder, run


async def _blocked(world: PostgresWorld) -> tuple[Holder, Claimed]:
    holder = await a_holder(world.storage)
    run = await holder.start(a_run())
    assert await holder.commit(run, STUCK, rows=ROWS) is Verdict.DONE
    return holder, run


async def _left(world: PostgresWorld) -> tuple[Holder, Claimed, Claimed]:
    """A run that failed, and a child of it that is held still."""
    holder = await a_holder(world.storage)
    run = await holder.start(a_run())
    new = a_child(run)
    await holder.commit(run, GOING, children=(new,))
    child = await holder.take(new)
    await holder.commit(run, FAILED, rows=ROWS)
    return holder, run, child


async def _left_unclaimed(world: PostgresWorld, *queues: str) -> tuple[Holder, Claimed, list[NewRun]]:
    """A run that failed, and a child of it in each of these queues that nobody has claimed."""
    holder = await a_holder(world.storage)
    run = await holder.start(a_run())
    children = [a_child(run, str(place), queue=queue) for place, queue in enumerate(queues)]
    await holder.commit(run, FAILED, rows=ROWS, children=tuple(children))
    return holder, run, children


def _again(run: Claimed, row: Row | None = REOPENED, status: Literal["failed", "blocked"] = "failed") -> Reopen:
    return Reopen(run_id=run.id, generation=1, status=status, row=row)


def _with(first: Reopen, others: list[Reopen]) -> Reopen:
    return Reopen(run_id=first.run_id, generation=1, status=first.status, children=tuple(others))


async def _looked_in_vain(world: PostgresWorld) -> None:
    """Return when a backend has answered a look for blocked runs, and does nothing else meanwhile."""
    await backend_that(world.connection, "state = 'idle' and position($1 in query) > 0", "where l.state = 'blocked'")
