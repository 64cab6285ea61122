"""Ending runs from outside, against whatever else concerns them, with the other transaction held open or stopped."""

from __future__ import annotations

import asyncio

import pytest

from runnerq.persistence.records import GOING, Claimed, End, Park, Reopen, Sent, Stuck, Verdict
from runnerq.testing.conformance.world import (
    COMPLETED,
    a_holder,
    a_row,
    a_run,
    a_signal,
    a_turn,
    look,
    rows_of,
)
from tests.persistence.postgres.backend import PostgresWorld
from tests.persistence.postgres.interleaving import held_open, rolled_back, stopped, until_waiting
from tests.persistence.postgres.races import FOR_GO, a_family, a_request

pytestmark = pytest.mark.asyncio(loop_scope="module")


class TestTerminateAgainstItsHolder:
    async def test_the_end_is_held_and_it_waits_and_comes_too_late(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with held_open(world) as worker:
            await worker.commit([a_turn(run, COMPLETED)])
            ending = asyncio.create_task(world.storage.terminate([run.id]))
            await until_waiting(world)
        assert await ending == [Sent.FINISHED]
        assert (await look(world.storage, run.id)).status == "completed"

    async def test_a_step_is_held_and_it_waits_and_ends_the_run_behind_it(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with held_open(world) as worker:
            await worker.commit([a_turn(run, GOING, rows=(a_row(0),))])
            ending = asyncio.create_task(world.storage.terminate([run.id]))
            await until_waiting(world)
        assert await ending == [Sent.SENT]
        assert await rows_of(world.storage, run.id) == [a_row(0)]

    @pytest.mark.parametrize("move", [GOING, FOR_GO, COMPLETED], ids=["goes on", "parks", "ends"])
    async def test_it_is_held_and_a_turn_is_busy_then_lost(self, world: PostgresWorld, move: End | Park) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with held_open(world) as person:
            assert await person.terminate([run.id]) == [Sent.SENT]
            assert await holder.commit(run, move, rows=(a_row(0),)) is Verdict.BUSY
        assert await holder.commit(run, move, rows=(a_row(0),)) is Verdict.LOST
        assert await rows_of(world.storage, run.id) == []

    async def test_it_is_rolled_back_and_the_turn_counts(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with rolled_back(world) as person:
            assert await person.terminate([run.id]) == [Sent.SENT]
            assert await holder.commit(run, COMPLETED) is Verdict.BUSY
        assert await holder.commit(run, COMPLETED) is Verdict.DONE

    @pytest.mark.parametrize("statement", ["append_one", "commit"])
    async def test_a_turn_is_stopped_while_the_run_is_ended_and_writes_nothing(
        self, world: PostgresWorld, statement: str
    ) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        move = GOING if statement == "append_one" else FOR_GO
        async with stopped(world, statement) as gate:
            writing = await gate.begin(gate.writes.commit([a_turn(run, move, rows=(a_row(0),))]))
            assert await world.storage.terminate([run.id]) == [Sent.SENT]
            await gate.go()
            assert await writing == [Verdict.LOST]
        assert await rows_of(world.storage, run.id) == []

    @pytest.mark.parametrize(("move", "answer"), [(FOR_GO, Sent.SENT), (COMPLETED, Sent.FINISHED)])
    async def test_it_is_stopped_while_the_run_parks_or_ends(
        self, world: PostgresWorld, move: End | Park, answer: Sent
    ) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with stopped(world, "terminate_runs") as gate:
            ending = await gate.begin(gate.writes.terminate([run.id]))
            assert await holder.commit(run, move) is Verdict.DONE
            await gate.go()
            assert await ending == [answer]
        expected = "cancelled" if answer is Sent.SENT else "completed"
        assert (await look(world.storage, run.id)).status == expected


class TestTerminateAgainstClaim:
    async def test_the_claim_is_held_and_it_waits_and_its_run_is_lost(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        new = a_run()
        await world.storage.start([new])
        async with held_open(world) as worker:
            [run] = (await worker.claim(a_request(holder))).runs
            ending = asyncio.create_task(world.storage.terminate([new.id]))
            await until_waiting(world)
        assert await ending == [Sent.SENT]
        assert await holder.commit(run, COMPLETED) is Verdict.LOST

    async def test_it_is_held_and_the_claim_takes_nothing(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        new = a_run()
        await world.storage.start([new])
        async with held_open(world) as person:
            await person.terminate([new.id])
            assert await holder.ready() == []
        assert await holder.ready() == []

    async def test_a_claim_that_is_stopped_while_the_run_is_ended_takes_nothing(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        new = a_run()
        await world.storage.start([new])
        async with stopped(world, "claim_runs") as gate:
            claiming = await gate.begin(gate.writes.claim(a_request(holder)))
            await world.storage.terminate([new.id])
            await gate.go()
            assert (await claiming).runs == ()


class TestTerminateAgainstParent:
    async def test_it_is_held_and_the_parents_park_is_busy_then_too_late(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run, child = await a_family(holder)
        async with held_open(world) as person:
            assert await person.terminate([child.id]) == [Sent.SENT]
            assert await holder.commit(run, Park(children=(child.id,))) is Verdict.BUSY
        assert await holder.commit(run, Park(children=(child.id,))) is Verdict.AGAIN

    async def test_the_parents_park_is_held_and_it_waits_and_wakes(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run, child = await a_family(holder)
        async with held_open(world) as worker:
            assert await worker.commit([a_turn(run, Park(children=(child.id,)))]) == [Verdict.DONE]
            ending = asyncio.create_task(world.storage.terminate([child.id]))
            await until_waiting(world)
        assert await ending == [Sent.SENT]
        assert await holder.ready() == [run.id]

    async def test_the_parents_park_is_stopped_while_the_child_is_ended(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run, child = await a_family(holder)
        async with stopped(world, "commit") as gate:
            parking = await gate.begin(gate.writes.commit([a_turn(run, Park(children=(child.id,)))]))
            await world.storage.terminate([child.id])
            await gate.go()
            assert await parking == [Verdict.AGAIN]

    async def test_it_is_stopped_while_the_parent_parks_and_wakes_it(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run, child = await a_family(holder)
        async with stopped(world, "terminate_runs") as gate:
            ending = await gate.begin(gate.writes.terminate([child.id]))
            assert await holder.commit(run, Park(children=(child.id,))) is Verdict.DONE
            await gate.go()
            assert await ending == [Sent.SENT]
        assert await holder.ready() == [run.id]

    async def test_it_is_stopped_while_the_parent_ends(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run, child = await a_family(holder)
        async with stopped(world, "terminate_runs") as gate:
            ending = await gate.begin(gate.writes.terminate([child.id]))
            await holder.commit(run, COMPLETED)
            await gate.go()
            assert await ending == [Sent.SENT]
        assert (await look(world.storage, child.id)).reason == "terminated"

    async def test_a_childs_end_is_held_and_the_parents_termination_waits(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run, child = await a_family(holder)
        async with held_open(world) as worker:
            assert await worker.commit([a_turn(child, COMPLETED)]) == [Verdict.DONE]
            ending = asyncio.create_task(world.storage.terminate([run.id]))
            await until_waiting(world)
        assert await ending == [Sent.SENT]
        assert (await look(world.storage, child.id)).status == "completed"

    async def test_the_parents_termination_is_held_and_a_childs_end_is_busy_then_done(
        self, world: PostgresWorld
    ) -> None:
        holder = await a_holder(world.storage)
        run, child = await a_family(holder)
        async with held_open(world) as person:
            assert await person.terminate([run.id]) == [Sent.SENT]
            assert await holder.commit(child, COMPLETED) is Verdict.BUSY
        assert await holder.commit(child, COMPLETED) is Verdict.DONE


class TestTerminateAgainstPeople:
    async def test_the_cancel_is_held_and_it_waits_and_ends_the_run(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with held_open(world) as person:
            assert await person.cancel([run.id], "why") == [Sent.SENT]
            ending = asyncio.create_task(world.storage.terminate([run.id]))
            await until_waiting(world)
        assert await ending == [Sent.SENT]
        [outcome] = await world.storage.outcomes([run.id])
        assert (outcome.reason, outcome.cancel_requested) == ("terminated", True)

    async def test_it_is_held_and_a_cancel_and_a_signal_wait_and_find_the_run_ended(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with held_open(world) as person:
            assert await person.terminate([run.id]) == [Sent.SENT]
            cancelling = asyncio.create_task(world.storage.cancel([run.id]))
            await until_waiting(world)
            sending = asyncio.create_task(world.storage.send([a_signal(run.id)]))
        assert await cancelling == [Sent.FINISHED]
        assert await sending == [Sent.FINISHED]

    async def test_it_is_held_and_another_waits_and_finds_the_run_ended(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with held_open(world) as person:
            assert await person.terminate([run.id]) == [Sent.SENT]
            other = asyncio.create_task(world.storage.terminate([run.id]))
            await until_waiting(world)
        assert await other == [Sent.FINISHED]

    async def test_it_is_held_and_the_reopen_of_a_blocked_run_waits_and_comes_too_late(
        self, world: PostgresWorld
    ) -> None:
        run = await _blocked(world)
        async with held_open(world) as person:
            assert await person.terminate([run.id]) == [Sent.SENT]
            reopening = asyncio.create_task(world.storage.reopen(_again(run)))
            await until_waiting(world)
        assert not await reopening
        assert (await look(world.storage, run.id)).status == "cancelled"

    async def test_the_reopen_of_a_blocked_run_is_held_and_it_waits_and_ends_the_run(
        self, world: PostgresWorld
    ) -> None:
        run = await _blocked(world)
        async with held_open(world) as person:
            assert await person.reopen(_again(run))
            ending = asyncio.create_task(world.storage.terminate([run.id]))
            await until_waiting(world)
        assert await ending == [Sent.SENT]
        assert (await look(world.storage, run.id)).status == "cancelled"

    async def test_runs_and_parents_are_locked_in_the_order_of_their_ids(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run, child = await a_family(holder)
        first, last = sorted((run.id, child.id))
        lock = "select run_id::text from runnerq.live where run_id = $1 for update skip locked"
        async with world.connection.transaction():
            await world.connection.fetch(lock, first)
            ending = asyncio.create_task(world.storage.terminate([last, first]))
            await until_waiting(world)
            assert await world.connection.fetchval(lock, last) == last
        assert await ending == [Sent.SENT, Sent.SENT]


async def _blocked(world: PostgresWorld) -> Claimed:
    holder = await a_holder(world.storage)
    run = await holder.start(a_run())
    assert await holder.commit(run, Stuck(message="m", build="b1")) is Verdict.DONE
    return run


def _again(run: Claimed) -> Reopen:
    return Reopen(run_id=run.id, generation=1, status="blocked")
