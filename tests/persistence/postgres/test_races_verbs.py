"""What a person asks of a run, against whatever else concerns it, with the other transaction held open or stopped."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from runnerq.persistence.records import GOING, Attempt, Changed, Claimed, Definition, Park, Sent, Status, Turn, Verdict
from runnerq.testing.conformance.world import (
    AT,
    COMPLETED,
    a_child,
    a_holder,
    a_row,
    a_run,
    a_signal,
    a_turn,
    look,
    swept,
)
from tests.persistence.postgres.backend import PostgresWorld
from tests.persistence.postgres.interleaving import held_open, rolled_back, stopped, until_waiting
from tests.persistence.postgres.races import FOR_GO, a_request

pytestmark = pytest.mark.asyncio(loop_scope="module")

ORDER_1 = Definition(kind="workflow", name="order", version=1, queue="q", build="b1")


class TestRunNowAgainstItsHolder:
    async def test_it_is_stopped_while_an_attempt_fails_and_the_run_parks_and_the_next_is_due_now(
        self, world: PostgresWorld
    ) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with stopped(world, "run_now") as gate:
            running = await gate.begin(gate.writes.run_now(run.id))
            assert await world.storage.commit([await _failed(world, run)]) == [Verdict.DONE]
            await gate.go()
            assert await running is Changed.CHANGED
        [attempt] = (await holder.take_again(run)).attempts
        assert attempt.next_at is not None
        assert attempt.next_at <= await world.storage.now()

    async def test_the_park_is_held_and_it_waits_and_the_next_attempt_is_due_now(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with held_open(world) as worker:
            assert await worker.commit([await _failed(world, run)]) == [Verdict.DONE]
            running = asyncio.create_task(world.storage.run_now(run.id))
            await until_waiting(world)
        assert await running is Changed.CHANGED
        [attempt] = (await holder.take_again(run)).attempts
        assert attempt.next_at is not None
        assert attempt.next_at <= await world.storage.now()

    async def test_the_end_is_held_and_it_waits_and_is_refused(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        async with held_open(world) as worker:
            await worker.commit([a_turn(run, COMPLETED)])
            running = asyncio.create_task(world.storage.run_now(run.id))
            await until_waiting(world)
        assert await running is Changed.REFUSED

    async def test_it_is_stopped_while_the_run_is_woken_and_claimed_and_leaves_it_alone(
        self, world: PostgresWorld
    ) -> None:
        holder = await a_holder(world.storage)
        new = a_run(due_in=60.0)
        await world.storage.start([new])
        async with stopped(world, "run_now") as gate:
            running = await gate.begin(gate.writes.run_now(new.id))
            await world.advance(61)
            await world.storage.wake_due(10)
            run = await holder.take(new)
            await gate.go()
            assert await running is Changed.UNCHANGED
        assert await holder.commit(run, COMPLETED) is Verdict.DONE

    async def test_it_is_held_and_a_signal_waits_for_it_and_wakes_nothing_twice(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.storage.commit([await _failed(world, run)])
        async with held_open(world) as person:
            assert await person.run_now(run.id) is Changed.CHANGED
            sending = asyncio.create_task(world.storage.send([a_signal(run.id)]))
            await until_waiting(world)
        assert await sending == [Sent.SENT]
        again = await holder.take_again(run)
        assert [mail.channel for mail in again.signals] == ["go"]

    async def test_it_is_rolled_back_and_the_run_waits_as_before(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await world.storage.commit([await _failed(world, run)])
        before = await look(world.storage, run.id)
        async with rolled_back(world) as person:
            assert await person.run_now(run.id) is Changed.CHANGED
        assert await look(world.storage, run.id) == before


class TestRescheduleAgainstClaim:
    async def test_the_claim_is_held_and_it_waits_and_is_refused(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        new = a_run()
        await world.storage.start([new])
        async with held_open(world) as worker:
            [run] = (await worker.claim(a_request(holder))).runs
            moving = asyncio.create_task(world.storage.reschedule(new.id, await _in(world, 60)))
            await until_waiting(world)
        assert await moving is Changed.REFUSED
        assert await holder.commit(run, COMPLETED) is Verdict.DONE

    async def test_the_claim_is_stopped_while_the_run_is_put_off_and_takes_nothing(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        new = a_run()
        await world.storage.start([new])
        async with stopped(world, "claim_runs") as gate:
            claiming = await gate.begin(gate.writes.claim(a_request(holder)))
            assert await world.storage.reschedule(new.id, await _in(world, 60)) is Changed.CHANGED
            await gate.go()
            assert (await claiming).runs == ()
        assert (await look(world.storage, new.id)).status is Status.SCHEDULED

    async def test_a_look_for_what_is_due_is_stopped_while_it_is_put_off_and_wakes_nothing(
        self, world: PostgresWorld
    ) -> None:
        new = a_run(due_in=60.0)
        await world.storage.start([new])
        await world.advance(61)
        async with stopped(world, "wake_due") as gate:
            waking = await gate.begin(gate.writes.wake_due(10))
            at = await _in(world, 60)
            assert await world.storage.reschedule(new.id, at) is Changed.CHANGED
            await gate.go()
            assert await waking == 0
        assert (await look(world.storage, new.id)).due_at == at

    async def test_the_priority_of_a_run_that_is_being_claimed_changes_behind_the_claim(
        self, world: PostgresWorld
    ) -> None:
        holder = await a_holder(world.storage)
        new = a_run()
        await world.storage.start([new])
        async with held_open(world) as worker:
            [run] = (await worker.claim(a_request(holder))).runs
            changing = asyncio.create_task(world.storage.set_priority(new.id, 0))
            await until_waiting(world)
        assert await changing is Changed.CHANGED
        assert await holder.commit(run, FOR_GO) is Verdict.DONE
        await world.storage.send([a_signal(new.id)])
        assert (await holder.take_again(run)).priority == 0


class TestAdoptAgainstOthers:
    async def test_a_cancel_is_held_and_the_run_is_passed_over(self, world: PostgresWorld) -> None:
        new = a_run(version=0)
        await world.storage.start([new])
        async with held_open(world) as person:
            assert await person.cancel([new.id]) == [Sent.SENT]
            assert await world.storage.adopt([ORDER_1], 10) == 0
        assert (await look(world.storage, new.id)).status is Status.CANCELLED

    async def test_it_is_held_and_a_cancel_waits_and_ends_the_run(self, world: PostgresWorld) -> None:
        new = a_run(version=0)
        await world.storage.start([new])
        async with held_open(world) as worker:
            assert await worker.adopt([ORDER_1], 10) == 1
            cancelling = asyncio.create_task(world.storage.cancel([new.id]))
            await until_waiting(world)
        assert await cancelling == [Sent.SENT]
        record = await look(world.storage, new.id)
        assert (record.status, record.version) == (Status.CANCELLED, 1)

    async def test_it_is_stopped_while_another_adopts_the_run_and_it_is_claimed(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        new = a_run(version=0)
        await world.storage.start([new])
        other = Definition(kind="workflow", name="order", version=7, queue="q", build="b2")
        async with stopped(world, "adopt_runs") as gate:
            adopting = await gate.begin(gate.writes.adopt([other], 10))
            assert await world.storage.adopt([ORDER_1], 10) == 1
            run = await holder.take(new)
            await gate.go()
            assert await adopting == 0
        assert run.version == (await look(world.storage, new.id)).version == 1


class TestStartOrSendAgainstOthers:
    async def test_the_start_that_makes_the_run_is_held_and_it_waits_and_sends_to_that(
        self, world: PostgresWorld
    ) -> None:
        first = a_run(key="k")
        async with held_open(world) as other:
            await other.start([first])
            starting = asyncio.create_task(world.storage.start_or_send(a_run(key="k"), [a_signal(first.id)]))
            await until_waiting(world)
        reply, sent = await starting
        assert (reply.id, reply.created, sent) == (first.id, False, [Sent.SENT])
        assert len((await (await a_holder(world.storage)).take(first)).signals) == 1

    async def test_the_start_that_makes_the_run_is_rolled_back_and_it_makes_one(self, world: PostgresWorld) -> None:
        first, second = a_run(key="k"), a_run(key="k")
        async with rolled_back(world) as other:
            await other.start([first])
            starting = asyncio.create_task(world.storage.start_or_send(second, [a_signal(first.id)]))
            await until_waiting(world)
        reply, sent = await starting
        assert (reply.id, reply.created, sent) == (second.id, True, [Sent.SENT])

    async def test_the_end_of_the_run_is_held_and_nothing_is_kept(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run(key="k"))
        async with held_open(world) as worker:
            await worker.commit([a_turn(run, COMPLETED)])
            starting = asyncio.create_task(world.storage.start_or_send(a_run(key="k"), [a_signal(run.id)]))
            await until_waiting(world)
        reply, sent = await starting
        assert (reply.id, reply.created, sent) == (run.id, False, [Sent.FINISHED])
        assert await world.storage.mailbox(run.id) == []

    async def test_it_is_rolled_back_and_neither_run_nor_signal_is_there(self, world: PostgresWorld) -> None:
        new = a_run(key="k")
        async with rolled_back(world) as person:
            _, sent = await person.start_or_send(new, [a_signal(new.id)])
            assert sent == [Sent.SENT]
        assert await world.storage.run(new.id) is None
        assert await world.storage.by_key("order", "k") is None
        assert await world.storage.mailbox(new.id) == []


class TestChildFromOutsideAgainstItsParent:
    async def test_the_parents_end_is_held_and_it_waits_and_is_refused(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run)
        async with held_open(world) as worker:
            await worker.commit([a_turn(run, COMPLETED)])
            starting = asyncio.create_task(world.storage.start([child]))
            await until_waiting(world)
        [reply] = await starting
        assert (reply.id, reply.created, reply.refused) == (child.id, False, True)
        assert await world.storage.run(child.id) is None

    async def test_it_is_stopped_while_the_parent_ends_and_is_refused(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run)
        async with stopped(world, "start_runs") as gate:
            starting = await gate.begin(gate.writes.start([child]))
            await holder.commit(run, COMPLETED)
            assert await world.storage.delete(run.id) is Changed.CHANGED
            await gate.go()
            assert [(reply.created, reply.refused) for reply in await starting] == [(False, True)]
        assert await world.storage.run(child.id) is None

    async def test_it_is_held_and_the_parents_end_is_busy_then_ends_it(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run)
        async with held_open(world) as step:
            assert [reply.created for reply in await step.start([child])] == [True]
            assert await holder.commit(run, COMPLETED) is Verdict.BUSY
            assert await holder.commit(run, GOING, rows=(a_row(0),)) is Verdict.BUSY
        assert await holder.commit(run, COMPLETED) is Verdict.DONE
        assert await swept(world) == 1
        assert (await look(world.storage, child.id)).status is Status.CANCELLED


async def _in(world: PostgresWorld, seconds: float) -> datetime:
    return await world.storage.now() + timedelta(seconds=seconds)


async def _failed(world: PostgresWorld, run: Claimed) -> Turn:
    """A turn in which a step has failed, and the run parks until it is tried again in an hour."""
    next_at = await _in(world, 3600)
    attempt = Attempt(position="1", number=1, error="{}", at=AT, next_at=next_at)
    return a_turn(run, Park(signals=("go",), due_at=next_at), attempts=(attempt,))
