"""What is read of many runs at once: counts, depths, queues and workers."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from runnerq.persistence.records import (
    VISIBLY_GONE,
    Aggregate,
    Back,
    Counted,
    Definition,
    Group,
    GroupBy,
    Load,
    Priority,
    QueueRecord,
    RunFilter,
    Status,
    WorkerRecord,
)
from runnerq.testing.conformance.reads import one_of_each
from runnerq.testing.conformance.world import COMPLETED, Beating, World, a_holder, a_run, an_activity


class TestCounts:
    async def test_runs_are_counted_up_to_a_cap(self, world: World) -> None:
        await world.storage.start([a_run(key=f"k{number}") for number in range(5)])
        await world.storage.start([a_run("else", queue="r")])
        count = world.storage.count_runs
        assert await count(RunFilter(), 100) == Counted(count=6)
        assert await count(RunFilter(), 4) == Counted(count=4, capped=True)
        assert await count(RunFilter(), 6) == Counted(count=6)
        assert await count(RunFilter(workflow="else"), 100) == Counted(count=1)
        assert await count(RunFilter(key_prefix="k"), 100) == Counted(count=5)
        assert await count(RunFilter(status="running"), 100) == Counted(count=0)

    async def test_what_is_asked_for_twice_is_counted_once(self, world: World) -> None:
        by_status = await one_of_each(world)
        for status in by_status:
            twice = RunFilter(status=(status, status))
            assert await world.storage.count_runs(twice, 100) == Counted(count=1)
            assert len((await world.storage.list_runs(twice, 100)).runs) == 1
            [group] = (await world.storage.aggregate(twice, "status", 100)).groups
            assert group.count == 1

    async def test_counting_looks_at_no_more_runs_than_it_is_told_to(self, world: World) -> None:
        await world.storage.start([a_run("old")])
        await world.storage.start([a_run("new"), a_run("new")])
        count, aggregate = world.storage.count_runs, world.storage.aggregate
        assert await count(RunFilter(workflow="old"), 100, 2) == Counted(count=0, capped=True)
        assert await count(RunFilter(workflow="old"), 100, 3) == Counted(count=1)
        assert await aggregate(RunFilter(), "workflow", 100, 2) == Aggregate(
            groups=(Group(value="new", count=2),), capped=True
        )
        assert await aggregate(RunFilter(workflow="old"), "workflow", 100, 2) == Aggregate(groups=(), capped=True)
        assert not (await aggregate(RunFilter(), "workflow", 100, 3)).capped

    async def test_counting_finds_what_listing_finds(self, world: World) -> None:
        by_status = await one_of_each(world)
        for wanted in (*by_status, ("failed", "dead_letter"), ("running", "completed"), ("blocked", "waiting")):
            status = wanted if isinstance(wanted, Status) else tuple(map(Status, wanted))
            where = RunFilter(status=status)
            listed = (await world.storage.list_runs(where, 100)).runs
            assert len(listed) == (1 if isinstance(status, Status) else 2)
            assert await world.storage.count_runs(where, 100) == Counted(count=len(listed))

    async def test_runs_are_grouped_by_what_is_shown_of_them(self, world: World) -> None:
        by_status = await one_of_each(world)
        found = await world.storage.aggregate(RunFilter(), "status", 100)
        assert {group.value: group.count for group in found.groups} == {str(status): 1 for status in by_status}
        assert not found.capped

    async def test_the_largest_group_is_the_first(self, world: World) -> None:
        runs = [a_run("b"), a_run("a"), a_run("c", queue="r"), a_run("c", priority=Priority.HIGH)]
        await world.storage.start(runs)
        assert await _groups(world, "workflow") == [("c", 2), ("a", 1), ("b", 1)]
        assert await _groups(world, "queue") == [("q", 3), ("r", 1)]
        assert await _groups(world, "priority") == [("2", 3), ("1", 1)]

    async def test_a_group_counts_only_what_fits(self, world: World) -> None:
        await world.storage.start([a_run("a"), a_run("b", queue="r"), a_run("b")])
        found = await world.storage.aggregate(RunFilter(queue="q"), "workflow", 100)
        assert [(group.value, group.count) for group in found.groups] == [("a", 1), ("b", 1)]
        assert (await world.storage.aggregate(RunFilter(queue="x"), "workflow", 100)).groups == ()

    async def test_runs_are_grouped_by_when_they_were_created(self, world: World) -> None:
        new = a_run()
        await world.storage.start([new])
        record = await world.storage.run(new.id)
        assert record is not None
        created = record.created_at.replace(second=0, microsecond=0)
        assert await _groups(world, "minute") == [(created.isoformat(), 1)]
        assert await _groups(world, "hour") == [(created.replace(minute=0).isoformat(), 1)]
        assert await _groups(world, "day") == [(created.replace(minute=0, hour=0).isoformat(), 1)]

    async def test_only_the_newest_are_looked_at_where_there_are_too_many(self, world: World) -> None:
        await world.storage.start([a_run("old"), a_run("old")])
        await world.storage.start([a_run("new"), a_run("new")])
        found = await world.storage.aggregate(RunFilter(), "workflow", 3)
        assert ([(group.value, group.count) for group in found.groups], found.capped) == (
            [("new", 2), ("old", 1)],
            True,
        )
        assert not (await world.storage.aggregate(RunFilter(), "workflow", 4)).capped


class TestStats:
    async def test_an_empty_storage_has_no_depth(self, world: World) -> None:
        before = await world.storage.now()
        stats = await world.storage.stats()
        assert (stats.depths, stats.workers) == ((), ())
        assert before <= stats.at <= await world.storage.now()

    async def test_open_runs_are_counted_by_status_and_ended_ones_are_not(self, world: World) -> None:
        by_status = await one_of_each(world)
        depths = (await world.storage.stats()).depths
        open_ = [status for status in by_status if not status.ended]
        assert Counter({depth.status: depth.count for depth in depths}) == Counter(open_)

    async def test_runs_that_are_alike_are_one_depth(self, world: World) -> None:
        await world.storage.start([a_run(), a_run(), a_run(priority=Priority.LOW), a_run(version=2)])
        await world.storage.start([a_run(queue="r"), an_activity(version=1), an_activity(due_in=60.0)])
        counted = {
            (each.status, each.name, each.version, each.queue, each.priority): each.count
            for each in (await world.storage.stats()).depths
        }
        assert counted == {
            ("pending", "order", 1, "q", 2): 2,
            ("pending", "order", 1, "q", 3): 1,
            ("pending", "order", 2, "q", 2): 1,
            ("pending", "order", 1, "r", 2): 1,
            ("pending", "work", 1, "q", 2): 1,
            ("scheduled", "work", 1, "q", 2): 1,
        }

    async def test_the_oldest_ready_run_says_since_when_it_waits_without_its_head_start(self, world: World) -> None:
        before = await world.storage.now()
        await world.storage.start([a_run(priority=priority) for priority in Priority])
        await world.storage.start([a_run(priority=priority) for priority in Priority])
        now = await world.storage.now()
        for depth in (await world.storage.stats()).depths:
            assert depth.oldest_ready_at is not None
            assert before <= depth.oldest_ready_at <= now
            assert depth.count == 2

    async def test_what_is_not_ready_waits_for_no_worker(self, world: World) -> None:
        holder = await a_holder(world.storage)
        await holder.start(a_run())
        await world.storage.start([a_run(due_in=60.0)])
        assert [depth.oldest_ready_at for depth in (await world.storage.stats()).depths] == [None, None]

    async def test_only_living_workers_are_counted(self, world: World) -> None:
        alive, left = await a_holder(world.storage), await a_holder(world.storage)
        await world.storage.give_back(left.id)
        assert [worker.id for worker in (await world.storage.stats()).workers] == [alive.id]


class TestQueues:
    async def test_a_queue_shows_what_is_in_it(self, world: World) -> None:
        by_status = await one_of_each(world)
        assert await world.storage.queues() == [
            QueueRecord(
                name="q",
                ready=1,
                delayed=2,
                running=1,
                waiting=1,
                blocked=1,
                oldest_ready_at=await _ready_since(world, by_status[Status.PENDING]),
                workers=1,
            )
        ]

    async def test_a_queue_is_shown_that_nobody_serves_or_that_is_empty(self, world: World) -> None:
        await world.storage.start([a_run(queue="b"), a_run(queue="b"), a_run(queue="a", due_in=60.0)])
        await a_holder(world.storage)
        await a_holder(world.storage)
        shown = [(each.name, each.ready, each.delayed, each.workers) for each in await world.storage.queues()]
        assert shown == [("a", 0, 1, 0), ("b", 2, 0, 0), ("q", 0, 0, 2)]

    async def test_a_queue_whose_runs_have_ended_and_whose_workers_are_gone_is_none(self, world: World) -> None:
        holder = await a_holder(world.storage)
        await holder.commit(await holder.start(a_run()), COMPLETED)
        await world.storage.give_back(holder.id)
        assert await world.storage.queues() == []

    async def test_a_paused_queue_is_shown_and_says_since_when(self, world: World) -> None:
        before = await world.storage.now()
        await world.storage.pause("q")
        await world.storage.start([a_run()])
        await world.storage.pause("empty")
        for queue in await world.storage.queues():
            assert queue.paused_at is not None
            assert before <= queue.paused_at <= await world.storage.now()
        assert [(queue.name, queue.ready) for queue in await world.storage.queues()] == [("empty", 0), ("q", 1)]
        await world.storage.resume("empty")
        await world.storage.resume("q")
        assert [(queue.name, queue.paused_at) for queue in await world.storage.queues()] == [("q", None)]


class TestWorkers:
    async def test_a_worker_shows_what_it_registered_and_what_it_has_in_hand(self, world: World) -> None:
        before = await world.storage.now()
        holder = await a_holder(world.storage, lease=45.0)
        load = Load(held=3, running=2, stuck=1, late=7)
        async with Beating(world.storage, holder) as heart:
            beaten = await heart.beat(load=load)
        [worker] = await world.storage.workers()
        assert worker == WorkerRecord(
            id=holder.id,
            host="here",
            pid=worker.pid,
            build="b1",
            queues=("q",),
            served=("order@1", "child@1", "work"),
            slots=10,
            lease=45.0,
            registered_at=worker.registered_at,
            beat_at=beaten.now,
            alive=True,
            load=load,
            library="1.2.3",
            clock_off=worker.clock_off,
        )
        assert before <= worker.registered_at <= beaten.now

    async def test_those_that_live_come_first_and_the_others_say_how_they_went(self, world: World) -> None:
        left, reaped, silent = [await a_holder(world.storage, lease=5.0) for _ in range(3)]
        await world.storage.give_back(left.id)
        await world.advance(10)
        alive = await a_holder(world.storage)
        async with Beating(world.storage, silent) as heart:
            await heart.beat()
            await world.storage.reap(alive.id, 1, 10)
        await world.advance(6)
        shown = {worker.id: worker for worker in await world.storage.workers()}
        assert next(iter(shown)) == alive.id
        assert [shown[each.id].alive for each in (left, reaped, silent, alive)] == [False, False, False, True]
        assert (shown[left.id].left_at is None, shown[reaped.id].left_at) == (False, None)
        assert (shown[reaped.id].reaped_at is None, shown[silent.id].reaped_at) == (False, None)

    async def test_one_that_has_missed_several_beats_counts_as_none_that_lives_until_it_is_heard_again(
        self, world: World
    ) -> None:
        known = Definition(kind="workflow", name="order", version=1, queue="q", build="b1")
        holder = await a_holder(world.storage, definitions=[known])

        async def counts() -> list[bool]:
            [worker], [definition] = await world.storage.workers(), await world.storage.definitions("order")
            served = [queue.workers for queue in await world.storage.queues()]
            return [worker.alive, definition.served, served == [1]]

        async with Beating(world.storage, holder) as heart:
            await heart.beat()
            await world.advance(9 - VISIBLY_GONE)
            assert await counts() == [True] * 3
            await world.advance(2 + VISIBLY_GONE)
            assert await counts() == [False] * 3
            [silent] = await world.storage.workers()
            assert (silent.silent_for(await world.storage.now()) or 0) >= 11
            await heart.beat()
            assert await counts() == [True] * 3
        # Its connection is gone now, which says more than the beats that are missing.
        await world.advance(1 + VISIBLY_GONE)
        assert await counts() == [False] * 3

    async def test_a_worker_that_has_been_gone_for_a_day_is_none(self, world: World) -> None:
        gone = await a_holder(world.storage)
        await world.storage.give_back(gone.id)
        await world.advance(24 * 3600 - 60)
        assert [worker.id for worker in await world.storage.workers()] == [gone.id]
        await world.advance(120)
        assert await world.storage.workers() == []

    async def test_what_comes_to_a_worker_that_left_is_given_back_and_is_no_crash(self, world: World) -> None:
        left, reaper = await a_holder(world.storage), await a_holder(world.storage)
        run = await left.start(a_run())
        await left.commit(run, Back())
        await world.storage.give_back(left.id)
        assert await left.ready() == []
        assert await world.storage.reap(reaper.id, 1, 10) == []
        assert (await reaper.take_again(run)).crashes == 0


async def _groups(world: World, by: GroupBy) -> list[tuple[str, int]]:
    found = await world.storage.aggregate(RunFilter(), by, 100)
    return [(group.value, group.count) for group in found.groups]


async def _ready_since(world: World, run_id: str) -> datetime:
    """When the one ready run became so, as the depths say it, which is after it was created."""
    [depth] = [each for each in (await world.storage.stats()).depths if each.status is Status.PENDING]
    record = await world.storage.run(run_id)
    assert record is not None
    assert depth.oldest_ready_at is not None
    assert record.created_at - timedelta(milliseconds=1) <= depth.oldest_ready_at
    return depth.oldest_ready_at
