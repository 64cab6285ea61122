"""Schedules: kept, changed by who has seen them last, and fired once a tick."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from runnerq.errors import StorageRefused
from runnerq.persistence.records import (
    KEPT_RUNS,
    Changed,
    Fired,
    Firing,
    Limit,
    NewRun,
    Overlap,
    ScheduleRecord,
    ScheduleRow,
    Status,
    Wake,
)
from runnerq.testing.conformance.world import COMPLETED, QUEUE, World, a_holder, a_run, look

HOUR = timedelta(hours=1)


def a_schedule(name: str = "nightly", **given: Any) -> ScheduleRow:
    """An hourly schedule of the workflow that the builders make."""
    usual: dict[str, Any] = {"workflow": "order", "kind": "workflow", "version": 1, "every": 3600.0, "input": "[1]"}
    return ScheduleRow(name=name, **usual | given)


async def put(world: World, row: ScheduleRow, due_in: timedelta = timedelta(0)) -> ScheduleRecord:
    """Put a new schedule that is due then; it is due now unless told otherwise."""
    now = await world.storage.now()
    assert await world.storage.put_schedule(row, None, now - HOUR, now + due_in)
    return await seen(world, row.name)


async def seen(world: World, name: str = "nightly") -> ScheduleRecord:
    """The schedule, which must be known."""
    record = await world.storage.schedule(name)
    assert record is not None, f"schedule {name} is not there"
    return record


def a_tick(record: ScheduleRecord, at: datetime | None = None, **given: Any) -> NewRun:
    """The run of a tick, which is the one that is due unless told otherwise."""
    tick = at or record.next_at
    assert tick is not None
    return a_run(key=f"{record.row.name}@{tick.isoformat()}", input=record.row.input, **given)


def a_firing(
    record: ScheduleRecord, runs: Sequence[NewRun], overlap: Overlap = "allow", *, behind: bool = False
) -> Firing:
    """A firing of the tick that is due; the next one comes an hour later."""
    assert record.next_at is not None
    return Firing(
        name=record.row.name,
        serial=record.serial,
        last_at=record.next_at,
        next_at=record.next_at + HOUR,
        runs=tuple(runs),
        overlap=overlap,
        behind=behind,
    )


async def fire(world: World, overlap: Overlap = "allow", **given: Any) -> tuple[NewRun, Fired]:
    """Fire the schedule once more, of a tick of its own."""
    record = await seen(world)
    run = a_tick(record, **given)
    fired = await world.storage.fire(a_firing(record, [run], overlap))
    assert fired is not None, "nobody else was at it"
    return run, fired


class TestScheduleRows:
    async def test_what_was_put_is_read_as_it_is(self, world: World) -> None:
        row = a_schedule(
            every=None,
            cron="30 3 * * MON-FRI",
            zone="Europe/Berlin",
            missed="all",
            overlap="cancel",
            jitter=2.5,
            queue="reports",
            priority=1,
            input='{"args":[1],"kwargs":{"é":"\\u0000"}}',
            metadata='{"team":"a"}',
            options='{"timeout":5}',
            limit=Limit("customer", "7"),
        )
        now = await world.storage.now()
        assert await world.storage.put_schedule(row, None, now, now + HOUR)
        record = await seen(world)
        assert record.row == row
        assert (record.since, record.next_at) == (now, now + HOUR)
        assert (record.last_at, record.paused_at, record.runs) == (None, None, ())
        assert (record.started, record.skipped, record.behind) == (0, 0, False)
        assert await world.storage.schedules() == [record]
        assert await world.storage.schedule("another") is None

    async def test_they_are_listed_by_name(self, world: World) -> None:
        for name in ("b", "a", "c"):
            await put(world, a_schedule(name))
        assert [each.row.name for each in await world.storage.schedules()] == ["a", "b", "c"]

    async def test_one_is_created_once_and_replaced_by_who_saw_it_last(self, world: World) -> None:
        first = await put(world, a_schedule())
        now = await world.storage.now()
        other = a_schedule(every=60.0)
        assert not await world.storage.put_schedule(other, None, now, now)
        assert not await world.storage.put_schedule(other, first.serial + 1, now, now)
        assert not await world.storage.put_schedule(a_schedule("unknown"), first.serial, now, now)
        assert await seen(world) == first
        assert await world.storage.put_schedule(other, first.serial, now, now + HOUR)
        assert not await world.storage.put_schedule(a_schedule(), first.serial, now, now)
        second = await seen(world)
        assert (second.row, second.since, second.next_at) == (other, now, now + HOUR)

    async def test_what_it_counted_its_runs_and_a_pause_outlive_an_edit(self, world: World) -> None:
        await put(world, a_schedule())
        run, _ = await fire(world)
        await world.storage.pause_schedule("nightly")
        before = await seen(world)
        now = await world.storage.now()
        assert await world.storage.put_schedule(a_schedule(every=60.0), before.serial, now, now)
        after = await seen(world)
        assert (after.started, after.runs, after.paused_at) == (1, (run.id,), before.paused_at)
        assert (after.created_at, after.last_at) == (before.created_at, before.last_at)

    async def test_whoever_puts_it_says_whether_missed_ticks_are_left_that_go_with_the_last_firing(
        self, world: World
    ) -> None:
        record = await put(world, a_schedule())
        assert await world.storage.fire(a_firing(record, [a_tick(record)], behind=True)) is not None
        kept = await seen(world)
        assert await world.storage.put_schedule(kept.row, kept.serial, kept.since, kept.next_at, behind=True)
        after = await seen(world)
        assert (after.behind, after.since, after.next_at) == (True, kept.since, kept.next_at)
        assert await world.storage.put_schedule(after.row, after.serial, after.since, after.next_at)
        assert not (await seen(world)).behind

    async def test_it_is_paused_once_and_goes_on_from_where_it_is_told(self, world: World) -> None:
        record = await put(world, a_schedule())
        assert not await world.storage.resume_schedule("nightly", record.serial, None)
        assert await world.storage.pause_schedule("nightly") is Changed.CHANGED
        assert await world.storage.pause_schedule("nightly") is Changed.UNCHANGED
        paused = await seen(world)
        assert paused.paused_at is not None
        assert (await world.storage.due_schedules(10)).schedules == ()
        assert not await world.storage.resume_schedule("nightly", record.serial, None)
        later = await world.storage.now() + HOUR
        assert await world.storage.resume_schedule("nightly", paused.serial, later)
        resumed = await seen(world)
        assert (resumed.paused_at, resumed.next_at) == (None, later)
        assert await world.storage.pause_schedule("unknown") is Changed.UNKNOWN

    async def test_one_that_was_deleted_is_gone_and_its_runs_go_on(self, world: World) -> None:
        await put(world, a_schedule())
        run, _ = await fire(world)
        assert await world.storage.delete_schedule("nightly")
        assert not await world.storage.delete_schedule("nightly")
        assert await world.storage.schedules() == []
        assert (await look(world.storage, run.id)).status is Status.PENDING

    async def test_whoever_fires_is_told_of_what_was_put_or_resumed(self, world: World) -> None:
        told = asyncio.Event()

        def hear(wake: Wake) -> None:
            if wake.schedules:
                told.set()

        unsubscribe = (await world.another()).subscribe(hear)
        record = await put(world, a_schedule())
        async with asyncio.timeout(10):
            await told.wait()
        told.clear()
        await world.storage.pause_schedule("nightly")
        assert await world.storage.resume_schedule("nightly", record.serial + 1, record.next_at)
        async with asyncio.timeout(10):
            await told.wait()
        unsubscribe()

    async def test_a_name_that_cannot_be_kept_is_refused(self, world: World) -> None:
        now = await world.storage.now()
        with pytest.raises(StorageRefused):
            await world.storage.put_schedule(a_schedule("nul\0"), None, now, now)
        assert await world.storage.schedules() == []


class TestDueSchedules:
    async def test_those_that_are_due_come_the_longest_due_first_and_with_when_the_next_is(self, world: World) -> None:
        for name, due_in in {"late": -2 * HOUR, "later": -HOUR, "soon": HOUR, "far": 2 * HOUR}.items():
            await put(world, a_schedule(name), due_in)
        due = await world.storage.due_schedules(10)
        expected = [await seen(world, name) for name in ("late", "later")]
        assert [(each.name, each.serial, each.next_at) for each in due.schedules] == [
            (each.row.name, each.serial, each.next_at) for each in expected
        ]
        assert due.next_at == (await seen(world, "soon")).next_at
        assert due.now >= expected[1].since
        assert (await world.storage.due_schedules(1)).schedules == due.schedules[:1]

    async def test_those_behind_one_that_was_seen_are_found_also_where_all_are_due_at_once(self, world: World) -> None:
        now = await world.storage.now()
        for name in ("b", "a", "d", "c", "e"):
            assert await world.storage.put_schedule(a_schedule(name), None, now, now - HOUR)
        await put(world, a_schedule("late"), -2 * HOUR)
        pages = []
        page = (await world.storage.due_schedules(2)).schedules
        while page:
            pages.append([each.name for each in page])
            page = (await world.storage.due_schedules(2, page[-1])).schedules
        assert pages == [["late", "a"], ["b", "c"], ["d", "e"]]

    async def test_where_no_tick_comes_nothing_is_due(self, world: World) -> None:
        now = await world.storage.now()
        await world.storage.put_schedule(a_schedule(), None, now, None)
        due = await world.storage.due_schedules(10)
        assert (due.schedules, due.next_at) == ((), None)


class TestFiring:
    async def test_the_run_of_a_tick_is_ready_and_the_schedule_is_moved_on(self, world: World) -> None:
        record = await put(world, a_schedule())
        run, fired = await fire(world)
        assert fired == Fired(runs=(run.id,))
        moved = await seen(world)
        assert record.next_at is not None
        assert (moved.last_at, moved.next_at) == (record.next_at, record.next_at + HOUR)
        assert (moved.runs, moved.started, moved.skipped) == ((run.id,), 1, 0)
        assert (await world.storage.due_schedules(10)).schedules == ()
        assert await (await a_holder(world.storage)).ready() == [run.id]
        assert (await look(world.storage, run.id)).input == "[1]"

    async def test_of_two_firings_of_one_tick_one_counts(self, world: World) -> None:
        record = await put(world, a_schedule())
        runs = [a_tick(record), a_tick(record)]
        storages = [world.storage, await world.another()]
        answers = await asyncio.gather(
            *(storage.fire(a_firing(record, [run])) for storage, run in zip(storages, runs, strict=True))
        )
        assert sum(answer is not None for answer in answers) == 1
        assert len(await (await a_holder(world.storage)).ready()) == 1
        assert (await seen(world)).started == 1

    @pytest.mark.parametrize("change", ["put", "paused", "resumed", "deleted", "made anew", "fired"])
    async def test_a_schedule_that_was_changed_since_is_not_fired(self, world: World, change: str) -> None:
        record = await put(world, a_schedule())
        now = await world.storage.now()
        if change == "put":
            assert await world.storage.put_schedule(a_schedule(every=60.0), record.serial, now, now)
        elif change in ("paused", "resumed"):
            await world.storage.pause_schedule("nightly")
            if change == "resumed":
                await world.storage.resume_schedule("nightly", (await seen(world)).serial, record.next_at)
        elif change in ("deleted", "made anew"):
            await world.storage.delete_schedule("nightly")
            if change == "made anew":
                await put(world, a_schedule())
        else:
            await fire(world)
        before = await world.storage.schedules()
        assert await world.storage.fire(a_firing(record, [a_tick(record, now + HOUR)])) is None
        assert await world.storage.schedules() == before
        assert await (await a_holder(world.storage)).ready() == [run for each in before for run in each.runs]

    async def test_a_tick_that_has_a_run_gets_no_other(self, world: World) -> None:
        record = await put(world, a_schedule())
        there = a_tick(record)
        await world.storage.start([there])
        fired = await world.storage.fire(a_firing(record, [a_tick(record)]))
        assert fired == Fired(runs=(there.id,))
        assert await (await a_holder(world.storage)).ready() == [there.id]

    async def test_a_tick_without_a_run_moves_it_on_all_the_same(self, world: World) -> None:
        record = await put(world, a_schedule())
        assert await world.storage.fire(a_firing(record, [])) == Fired()
        moved = await seen(world)
        assert (moved.last_at, moved.started) == (record.next_at, 0)

    async def test_one_whose_last_tick_was_fired_is_due_no_more(self, world: World) -> None:
        record = await put(world, a_schedule())
        assert record.next_at is not None
        firing = Firing(name="nightly", serial=record.serial, last_at=record.next_at, next_at=None)
        assert await world.storage.fire(firing) == Fired()
        assert (await seen(world)).next_at is None

    async def test_a_run_may_be_due_later(self, world: World) -> None:
        record = await put(world, a_schedule())
        run = a_tick(record, due_at=await world.storage.now() + HOUR)
        await world.storage.fire(a_firing(record, [run]))
        assert (await look(world.storage, run.id)).status is Status.SCHEDULED

    async def test_many_ticks_at_once_are_one_run_each_in_their_order(self, world: World) -> None:
        record = await put(world, a_schedule())
        now = await world.storage.now()
        runs = [a_tick(record, now - n * HOUR) for n in reversed(range(KEPT_RUNS + 5))]
        fired = await world.storage.fire(a_firing(record, runs, behind=True))
        assert fired == Fired(runs=tuple(run.id for run in runs))
        after = await seen(world)
        assert (after.started, after.behind) == (len(runs), True)
        assert after.runs == tuple(run.id for run in runs[-KEPT_RUNS:])
        assert await (await a_holder(world.storage)).ready() == [run.id for run in runs]

    async def test_a_run_that_is_refused_leaves_nothing_of_its_firing(self, world: World) -> None:
        record = await put(world, a_schedule())
        good, bad = a_tick(record), a_tick(record, await world.storage.now(), queue="nul\0")
        with pytest.raises(StorageRefused):
            await world.storage.fire(a_firing(record, [good, bad]))
        assert await seen(world) == record
        assert await world.storage.run(good.id) is None


class TestOverlap:
    async def test_with_allow_another_run_is_started_beside_an_open_one(self, world: World) -> None:
        await put(world, a_schedule())
        first, _ = await fire(world)
        second, fired = await fire(world)
        assert fired == Fired(runs=(second.id,))
        assert (await seen(world)).runs == (first.id, second.id)

    async def test_with_skip_a_tick_is_passed_over_and_counted_while_a_run_is_open(self, world: World) -> None:
        await put(world, a_schedule())
        holder = await a_holder(world.storage)
        first, _ = await fire(world, "skip")
        second, fired = await fire(world, "skip")
        assert fired == Fired(skipped=1)
        assert await world.storage.run(second.id) is None
        after = await seen(world)
        assert (after.runs, after.started, after.skipped) == ((first.id,), 1, 1)
        await holder.commit(await holder.take(first), COMPLETED)
        third, fired = await fire(world, "skip")
        assert fired == Fired(runs=(third.id,))

    async def test_what_follows_a_firing_that_was_passed_over_is_judged_anew(self, world: World) -> None:
        record = await put(world, a_schedule())
        holder = await a_holder(world.storage)
        first = a_run()
        assert await world.storage.trigger("nightly", first) is not None
        record = await seen(world)
        fired = await world.storage.fire(a_firing(record, [a_tick(record)], "skip", behind=True))
        assert fired == Fired(skipped=1)
        assert not (await seen(world)).behind
        await holder.commit(await holder.take(first), COMPLETED)
        record = await seen(world)
        assert await world.storage.fire(a_firing(record, [a_tick(record)], "skip", behind=True)) is not None
        assert (await seen(world)).behind

    async def test_with_cancel_the_open_runs_are_asked_to_cancel_and_the_next_is_started(self, world: World) -> None:
        await put(world, a_schedule())
        holder = await a_holder(world.storage)
        running, _ = await fire(world)
        held = await holder.take(running)
        waiting, _ = await fire(world)
        third, fired = await fire(world, "cancel")
        assert fired == Fired(runs=(third.id,), cancelled=(running.id, waiting.id))
        assert (await look(world.storage, waiting.id)).status is Status.CANCELLED
        assert (await holder.inbox(held)).cancel == "schedule 'nightly' goes on"
        fourth, fired = await fire(world, "cancel")
        # The one that was asked before is still open, and is not asked again.
        assert fired == Fired(runs=(fourth.id,), cancelled=(third.id,))

    async def test_a_run_of_another_schedule_is_in_nobodys_way(self, world: World) -> None:
        await put(world, a_schedule())
        other = await put(world, a_schedule("other"))
        await world.storage.fire(a_firing(other, [a_tick(other)]))
        run, fired = await fire(world, "skip")
        assert fired == Fired(runs=(run.id,))


class TestTrigger:
    async def test_a_run_is_started_now_and_is_one_of_the_schedules(self, world: World) -> None:
        record = await put(world, a_schedule(), HOUR)
        run = a_run(queue=QUEUE)
        reply = await world.storage.trigger("nightly", run)
        assert reply is not None
        assert (reply.id, reply.created) == (run.id, True)
        again = await world.storage.trigger("nightly", run)
        assert again is not None
        assert again.id == run.id
        after = await seen(world)
        assert (after.runs, after.next_at, after.started) == ((run.id,), record.next_at, 0)
        assert await (await a_holder(world.storage)).ready() == [run.id]
        _, fired = await fire(world, "skip")
        assert fired == Fired(skipped=1)

    async def test_of_an_unknown_schedule_nothing_is_started(self, world: World) -> None:
        run = a_run()
        assert await world.storage.trigger("unknown", run) is None
        assert await world.storage.run(run.id) is None
