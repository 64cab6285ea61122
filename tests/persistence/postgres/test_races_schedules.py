"""A firing against another one, and against whatever else concerns its schedule, with one of the two held open."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.records import Changed, Fired, Status
from runnerq.runtime.firing import firing_of
from runnerq.testing.conformance.schedules import a_firing, a_schedule, a_tick, fire, put, seen
from runnerq.testing.conformance.world import COMPLETED, QUEUE, a_holder, a_run, a_turn, look
from tests.persistence.postgres.backend import PostgresWorld
from tests.persistence.postgres.interleaving import held_open, rolled_back, until_waiting

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOUR = timedelta(hours=1)


class TestTwoFirings:
    async def test_one_is_held_open_and_the_other_finds_nothing_to_do_at_once_and_afterwards(
        self, world: PostgresWorld
    ) -> None:
        record = await put(world, a_schedule())
        first, second = a_tick(record), a_tick(record)
        async with held_open(world) as other:
            assert await other.fire(a_firing(record, [first])) == Fired(runs=(first.id,))
            assert await world.storage.fire(a_firing(record, [second])) is None
        assert await world.storage.fire(a_firing(record, [second])) is None
        assert await (await a_holder(world.storage)).ready() == [first.id]

    async def test_one_is_broken_off_and_the_other_fires_the_tick(self, world: PostgresWorld) -> None:
        record = await put(world, a_schedule())
        first, second = a_tick(record), a_tick(record)
        async with rolled_back(world) as other:
            assert await other.fire(a_firing(record, [first])) is not None
        assert await seen(world) == record
        assert await world.storage.fire(a_firing(record, [second])) == Fired(runs=(second.id,))
        assert await (await a_holder(world.storage)).ready() == [second.id]

    async def test_many_workers_at_once_fire_each_tick_once(self, world: PostgresWorld) -> None:
        """Three storages, two firings at a time in each, over hours that were all missed."""
        now = await world.storage.now()
        row = a_schedule(missed="all", overlap="allow", every=3600.0, queue=QUEUE)
        assert await world.storage.put_schedule(row, None, now - 40 * HOUR, now - 39 * HOUR)
        storages = [PostgresStorage(world.dsn) for _ in range(3)]
        await asyncio.gather(*(storage.open() for storage in storages))

        async def work(storage: PostgresStorage) -> None:
            while due := (await storage.due_schedules(10)).schedules:
                record = await storage.schedule(due[0].name)
                # One tick a firing: by the clock as it was when that tick came.
                assert record is not None
                assert record.next_at is not None
                if record.next_at <= now:
                    await storage.fire(firing_of(record, record.next_at))

        try:
            await asyncio.gather(*(work(storage) for storage in storages * 2))
        finally:
            await asyncio.gather(*(storage.close() for storage in storages))
        fired = await seen(world)
        ready = await (await a_holder(world.storage)).ready()
        assert fired.started == len(ready) == 40
        assert fired.next_at == fired.since + 41 * HOUR


class TestAgainstItsOwner:
    @pytest.mark.parametrize("change", ["pause", "delete", "put"])
    async def test_a_change_is_held_open_and_nothing_is_fired_then_or_afterwards(
        self, world: PostgresWorld, change: str
    ) -> None:
        record = await put(world, a_schedule())
        now = await world.storage.now()
        async with held_open(world) as owner:
            if change == "pause":
                assert await owner.pause_schedule("nightly") is Changed.CHANGED
            elif change == "delete":
                assert await owner.delete_schedule("nightly")
            else:
                assert await owner.put_schedule(a_schedule(every=60.0), record.serial, now, now + HOUR)
            assert await world.storage.fire(a_firing(record, [a_tick(record)])) is None
        assert await world.storage.fire(a_firing(record, [a_tick(record)])) is None
        assert await (await a_holder(world.storage)).ready() == []

    async def test_a_firing_is_held_open_and_a_pause_waits_and_leaves_its_run(self, world: PostgresWorld) -> None:
        record = await put(world, a_schedule())
        run = a_tick(record)
        async with held_open(world) as worker:
            await worker.fire(a_firing(record, [run]))
            pausing = asyncio.create_task(world.storage.pause_schedule("nightly"))
            await until_waiting(world)
        assert await pausing is Changed.CHANGED
        after = await seen(world)
        assert (after.runs, after.last_at, after.paused_at is None) == ((run.id,), record.next_at, False)

    async def test_a_firing_is_held_open_and_a_delete_waits_and_leaves_its_run(self, world: PostgresWorld) -> None:
        record = await put(world, a_schedule())
        run = a_tick(record)
        async with held_open(world) as worker:
            await worker.fire(a_firing(record, [run]))
            deleting = asyncio.create_task(world.storage.delete_schedule("nightly"))
            await until_waiting(world)
        assert await deleting
        assert (await look(world.storage, run.id)).status is Status.PENDING

    async def test_a_firing_is_held_open_and_an_edit_waits_and_has_to_look_again(self, world: PostgresWorld) -> None:
        record = await put(world, a_schedule())
        now = await world.storage.now()
        async with held_open(world) as worker:
            await worker.fire(a_firing(record, [a_tick(record)]))
            edit = world.storage.put_schedule(a_schedule(every=60.0), record.serial, now, now + HOUR)
            putting = asyncio.create_task(edit)
            await until_waiting(world)
        assert not await putting
        assert (await seen(world)).row == record.row

    async def test_of_two_who_create_it_at_once_one_does(self, world: PostgresWorld) -> None:
        now = await world.storage.now()
        async with held_open(world) as one:
            assert await one.put_schedule(a_schedule(), None, now, now + HOUR)
            other = asyncio.create_task(world.storage.put_schedule(a_schedule(every=60.0), None, now, now))
            await until_waiting(world)
        assert not await other
        assert (await seen(world)).next_at == now + HOUR

    async def test_a_trigger_waits_for_a_firing_and_both_runs_are_its_last_ones(self, world: PostgresWorld) -> None:
        record = await put(world, a_schedule())
        tick, triggered = a_tick(record), a_run()
        async with held_open(world) as worker:
            await worker.fire(a_firing(record, [tick]))
            triggering = asyncio.create_task(world.storage.trigger("nightly", triggered))
            await until_waiting(world)
        assert await triggering is not None
        assert (await seen(world)).runs == (tick.id, triggered.id)


class TestAgainstRuns:
    async def test_a_backfill_of_its_tick_is_held_open_and_nothing_is_fired_until_it_can_take_that_run(
        self, world: PostgresWorld
    ) -> None:
        record = await put(world, a_schedule())
        there = a_tick(record)
        async with held_open(world) as person:
            await person.start([there])
            assert await world.storage.fire(a_firing(record, [a_tick(record)])) is None
        assert await seen(world) == record
        assert await world.storage.fire(a_firing(record, [a_tick(record)])) == Fired(runs=(there.id,))
        assert await (await a_holder(world.storage)).ready() == [there.id]

    async def test_a_firing_is_held_open_and_a_backfill_of_its_tick_waits_and_makes_no_other(
        self, world: PostgresWorld
    ) -> None:
        record = await put(world, a_schedule())
        run = a_tick(record)
        async with held_open(world) as worker:
            await worker.fire(a_firing(record, [run]))
            filling = asyncio.create_task(world.storage.start([a_tick(record)]))
            await until_waiting(world)
        [reply] = await filling
        assert (reply.id, reply.created) == (run.id, False)

    async def test_an_end_that_is_held_open_is_none_yet(self, world: PostgresWorld) -> None:
        await put(world, a_schedule())
        first, _ = await fire(world)
        holder = await a_holder(world.storage)
        held = await holder.take(first)
        async with held_open(world) as worker:
            await worker.commit([a_turn(held, COMPLETED)])
            _, fired = await fire(world, "skip")
            assert fired == Fired(skipped=1)
        _, fired = await fire(world, "skip")
        assert fired.skipped == 0

    async def test_a_run_that_somebody_holds_delays_its_cancel_and_nothing_of_it_is_left_half(
        self, world: PostgresWorld
    ) -> None:
        await put(world, a_schedule())
        first, _ = await fire(world)
        before = await seen(world)
        async with held_open(world) as person:
            await person.set_priority(first.id, 0)
            assert await world.storage.fire(a_firing(before, [a_tick(before)], "cancel")) is None
        assert await seen(world) == before
        second, fired = await fire(world, "cancel")
        assert fired == Fired(runs=(second.id,), cancelled=(first.id,))
        assert (await look(world.storage, first.id)).status is Status.CANCELLED
