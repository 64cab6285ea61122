"""Runs that are ended from outside, whoever holds them."""

from __future__ import annotations

import asyncio

import pytest

from runnerq.ids import new_run_id
from runnerq.persistence.records import (
    GOING,
    Attempt,
    Back,
    Move,
    Park,
    Reopen,
    Sent,
    Status,
    Stuck,
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
    look,
    rows_of,
    swept,
)


class TestTerminate:
    @pytest.mark.parametrize(
        "move",
        [GOING, Park(signals=("go",)), Back(), Back(due_at=AT.replace(year=2999)), Stuck(message="m", build="b")],
    )
    async def test_an_open_run_ends_at_once(self, world: World, move: Move) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, move, rows=(a_row(0),))
        started_at = (await look(world.storage, run.id)).started_at
        assert await world.storage.terminate([run.id]) == [Sent.SENT]
        record = await look(world.storage, run.id)
        assert (record.status, record.reason, record.started_at) == (Status.CANCELLED, "terminated", started_at)
        assert (record.result, record.error, record.due_at) == (None, None, None)
        assert await rows_of(world.storage, run.id) == [a_row(0)]
        assert await world.storage.block(run.id) is None
        await world.storage.wake_due(10)
        assert await holder.ready() == []

    async def test_a_run_that_never_started_ends_at_once(self, world: World) -> None:
        new, later = a_run(), a_run(due_in=3600.0)
        await world.storage.start([new, later])
        assert await world.storage.terminate([new.id, later.id]) == [Sent.SENT, Sent.SENT]
        assert (await look(world.storage, later.id)).status == "cancelled"

    async def test_what_its_holder_still_writes_is_lost(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, GOING, rows=(a_row(0),))
        await world.storage.terminate([run.id])
        assert await holder.commit(run, GOING, rows=(a_row(1),)) is Verdict.LOST
        assert await holder.commit(run, Park(signals=("go",)), rows=(a_row(1),)) is Verdict.LOST
        assert await holder.commit(run, COMPLETED, rows=(a_row(1),)) is Verdict.LOST
        assert await rows_of(world.storage, run.id) == [a_row(0)]
        [outcome] = await world.storage.outcomes([run.id])
        assert outcome.status == "cancelled"
        async with Beating(world.storage, holder) as heart:
            assert (await heart.beat()).arrivals == ()

    async def test_its_attempts_go(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, GOING, attempts=(Attempt(position="1", number=1, error="{}", at=AT, next_at=None),))
        await world.storage.terminate([run.id])
        journal = await world.storage.journal(run.id)
        assert journal is not None
        assert journal.attempts == ()

    async def test_a_parked_parent_is_woken_by_it(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        children = tuple(a_child(run, str(position)) for position in range(3))
        await holder.commit(run, Park(children=tuple(child.id for child in children), needs=3), children=children)
        held = await holder.take(children[1])
        assert await world.storage.terminate([held.id]) == [Sent.SENT]
        woken = await holder.take_again(run)
        assert [(each.run_id, each.status, each.reason) for each in woken.outcomes] == [
            (held.id, "cancelled", "terminated")
        ]
        assert woken.seen == 1

    async def test_a_parent_that_does_not_want_it_stays_parked(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        children = tuple(a_child(run, str(position)) for position in range(2))
        await holder.commit(run, Park(children=(children[0].id,)), children=children)
        await world.storage.terminate([children[1].id])
        assert (await look(world.storage, run.id)).status == "waiting"

    async def test_a_running_parent_counts_it(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run)
        await holder.commit(run, GOING, children=(child,))
        await world.storage.terminate([child.id])
        assert await holder.commit(run, Park(children=(child.id,))) is Verdict.AGAIN

    async def test_a_whole_family_ends_in_one_call(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run)
        await holder.commit(run, Park(children=(child.id,)), children=(child,))
        grandchild = a_child(await holder.take(child))
        await world.storage.start([grandchild])
        family = [grandchild.id, run.id, child.id]
        assert await world.storage.terminate(family) == [Sent.SENT] * 3
        assert {(await look(world.storage, each)).reason for each in family} == {"terminated"}
        assert await holder.ready() == []

    async def test_its_children_are_cancelled_by_the_sweep_but_for_those_that_are_to_outlive_it(
        self, world: World
    ) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        left, kept = a_child(run, "1"), a_child(run, "2", options='{"parent_close":"abandon"}')
        await holder.commit(run, Park(children=None, needs=2), children=(left, kept))
        await world.storage.terminate([run.id])
        assert await swept(world) == 1
        assert [(await look(world.storage, child.id)).status for child in (left, kept)] == ["cancelled", "pending"]

    async def test_a_requested_cancel_is_still_shown(self, world: World) -> None:
        holder = await a_holder(world.storage)
        asked, not_asked = await holder.start(a_run()), await holder.start(a_run())
        await world.storage.cancel([asked.id], "why")
        await world.storage.terminate([asked.id, not_asked.id])
        outcomes = await world.storage.outcomes([asked.id, not_asked.id])
        assert [(each.cancel_requested, each.reason) for each in outcomes] == [
            (True, "terminated"),
            (False, "terminated"),
        ]

    async def test_requests_are_answered_in_order(self, world: World) -> None:
        holder = await a_holder(world.storage)
        ended, held, fresh = await holder.start(a_run()), await holder.start(a_run()), a_run()
        await holder.commit(ended, COMPLETED)
        await world.storage.start([fresh])
        answers = await world.storage.terminate([new_run_id(), held.id, ended.id, fresh.id, held.id])
        assert answers == [Sent.UNKNOWN, Sent.SENT, Sent.FINISHED, Sent.SENT, Sent.FINISHED]
        assert await world.storage.terminate([held.id]) == [Sent.FINISHED]
        assert await world.storage.terminate([]) == []

    async def test_requests_side_by_side_end_it_once(self, world: World) -> None:
        storages = (world.storage, await world.another())
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run)
        await holder.commit(run, GOING, children=(child,))
        answers = await asyncio.gather(*(storages[number % 2].terminate([child.id]) for number in range(10)))
        assert sorted(answer for [answer] in answers) == [Sent.FINISHED] * 9 + [Sent.SENT]
        assert (await holder.inbox(run)).seen == 1

    async def test_a_terminated_run_takes_no_signal_and_is_cancelled_to_whoever_opens_it(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.storage.terminate([run.id])
        assert await world.storage.send([a_signal(run.id)]) == [Sent.FINISHED]
        assert await world.storage.cancel([run.id]) == [Sent.FINISHED]
        for wanted in (
            Reopen(run_id=run.id, generation=1, status="failed"),
            Reopen(run_id=run.id, generation=1, status="dead_letter"),
            Reopen(run_id=run.id, generation=1, status="blocked"),
        ):
            assert not await world.storage.reopen(wanted)
        assert await world.storage.reopen(Reopen(run_id=run.id, generation=1, status="cancelled"))
        assert (await holder.take_again(run)).cancel is None
