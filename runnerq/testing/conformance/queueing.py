"""Queues that are paused, and runs that wait for somebody who knows their name."""

from __future__ import annotations

import asyncio

from runnerq.ids import new_run_id
from runnerq.persistence.records import Changed, Definition, Kind, NewRun, Park, Reopen, Sent, Status, Verdict
from runnerq.testing.conformance.world import (
    COMPLETED,
    PAIRS,
    QUEUE,
    World,
    a_child,
    a_holder,
    a_run,
    a_signal,
    an_activity,
    look,
)


class TestPause:
    async def test_nothing_is_claimed_from_a_paused_queue_until_it_goes_on(self, world: World) -> None:
        holder = await a_holder(world.storage)
        here, elsewhere = a_run(), a_run(queue="other")
        await world.storage.start([here, elsewhere])
        assert await world.storage.pause(QUEUE)
        pairs = (*PAIRS, ("other", "order@1"))
        assert [run.id for run in (await holder.claim(pairs=pairs)).runs] == [elsewhere.id]
        assert (await look(world.storage, here.id)).status is Status.PENDING
        assert await world.storage.resume(QUEUE)
        assert [run.id for run in (await holder.claim(pairs=pairs)).runs] == [here.id]

    async def test_parked_runs_that_are_woken_wait_too_and_running_ones_go_on(self, world: World) -> None:
        holder = await a_holder(world.storage)
        parked, running = await holder.start(a_run()), await holder.start(a_run())
        await holder.commit(parked, Park(signals=("go",)))
        await world.storage.pause(QUEUE)
        assert await world.storage.send([a_signal(parked.id)]) == [Sent.SENT]
        assert await holder.ready() == []
        assert await holder.commit(running, COMPLETED) is Verdict.DONE
        await world.storage.resume(QUEUE)
        assert await holder.ready() == [parked.id]

    async def test_what_is_run_now_in_a_paused_queue_waits_for_its_end(self, world: World) -> None:
        holder = await a_holder(world.storage)
        new = a_run(due_in=3600.0)
        await world.storage.start([new])
        await world.storage.pause(QUEUE)
        assert await world.storage.run_now(new.id) is Changed.CHANGED
        assert await holder.ready() == []
        await world.storage.resume(QUEUE)
        assert await holder.ready() == [new.id]

    async def test_every_process_keeps_to_it(self, world: World) -> None:
        await world.storage.start([a_run()])
        await (await world.another()).pause(QUEUE)
        assert await (await a_holder(world.storage)).ready() == []
        assert await world.storage.resume(QUEUE)

    async def test_only_what_changes_something_counts(self, world: World) -> None:
        assert [await world.storage.pause("quiet") for _ in range(2)] == [True, False]
        assert [await world.storage.resume("quiet") for _ in range(2)] == [True, False]

    async def test_fifty_callers_at_once_change_it_once(self, world: World) -> None:
        storages = (world.storage, await world.another())
        paused = await asyncio.gather(*(storages[number % 2].pause(QUEUE) for number in range(50)))
        resumed = await asyncio.gather(*(storages[number % 2].resume(QUEUE) for number in range(50)))
        assert (paused.count(True), resumed.count(True)) == (1, 1)


class TestAdopt:
    async def test_a_run_that_nobody_knew_gets_the_kind_and_highest_version_of_its_name(self, world: World) -> None:
        new = _unknown("order", input='["x"]', key="k")
        await world.storage.start([new])
        holder = await a_holder(world.storage)
        assert await holder.ready() == []
        assert (await look(world.storage, new.id)).version == 0
        known = [_definition("order", 1), _definition("order", 3), _definition("order", 2), _definition("child", 9)]
        assert await world.storage.adopt(known, 10) == 1
        [run] = (await holder.claim(pairs=((QUEUE, "order@3"),))).runs
        assert (run.id, run.kind, run.version, run.input, run.key) == (new.id, "workflow", 3, '["x"]', "k")
        record = await look(world.storage, new.id)
        assert (record.kind, record.version, record.status) == ("workflow", 3, Status.RUNNING)

    async def test_it_may_turn_out_to_be_an_activity(self, world: World) -> None:
        new = _unknown("work")
        await world.storage.start([new])
        assert await world.storage.adopt([_definition("work", 0, kind="activity")], 10) == 1
        [run] = (await (await a_holder(world.storage)).claim()).runs
        assert (run.id, run.kind, run.version) == (new.id, "activity", 0)

    async def test_it_keeps_its_queue_its_rank_and_its_delay(self, world: World) -> None:
        delayed, other = _unknown("order", queue="far", due_in=60.0), _unknown("order")
        await world.storage.start([delayed, other])
        assert await world.storage.adopt([_definition("order", 1, queue="elsewhere")], 10) == 2
        record = await look(world.storage, delayed.id)
        assert (record.queue, record.status) == ("far", Status.SCHEDULED)
        holder = await a_holder(world.storage)
        assert await holder.ready() == [other.id]
        await world.advance(61)
        await world.storage.wake_due(10)
        assert [run.id for run in (await holder.claim(pairs=(("far", "order@1"),))).runs] == [delayed.id]

    async def test_what_is_known_already_is_left_alone(self, world: World) -> None:
        new, activity = a_run(), an_activity(version=0)
        await world.storage.start([new, activity])
        assert await world.storage.adopt([_definition("order", 2), _definition("work", 0, kind="activity")], 10) == 0
        assert (await look(world.storage, new.id)).version == 1

    async def test_no_more_than_the_limit_are_adopted_at_once(self, world: World) -> None:
        await world.storage.start([_unknown("order") for _ in range(5)])
        assert [await world.storage.adopt([_definition("order", 1)], 2) for _ in range(4)] == [2, 2, 1, 0]
        assert await world.storage.adopt([], 2) == 0

    async def test_a_child_is_adopted_too_and_wakes_its_parent_by_its_end(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run, version=0)
        await holder.commit(run, Park(children=(child.id,)), children=(child,))
        assert await world.storage.adopt([_definition("child", 1)], 10) == 1
        await holder.commit(await holder.take(child), COMPLETED)
        assert (await holder.take_again(run)).outcomes[0].run_id == child.id

    async def test_one_that_was_cancelled_and_opened_again_still_waits_to_be_adopted(self, world: World) -> None:
        new = _unknown("order")
        await world.storage.start([new])
        assert await world.storage.cancel([new.id]) == [Sent.SENT]
        assert await world.storage.adopt([_definition("order", 1)], 10) == 0
        assert await world.storage.reopen(Reopen(run_id=new.id, generation=1, status="cancelled"))
        assert await world.storage.adopt([_definition("order", 1)], 10) == 1
        assert await (await a_holder(world.storage)).ready() == [new.id]

    async def test_many_workers_at_once_adopt_each_once(self, world: World) -> None:
        await world.storage.start([_unknown("order") for _ in range(60)])
        storages = (world.storage, await world.another())
        rounds = await asyncio.gather(
            *(storages[number % 2].adopt([_definition("order", 1)], 20) for number in range(50))
        )
        left = [await world.storage.adopt([_definition("order", 1)], 100) for _ in range(2)]
        assert sum(rounds) + sum(left) == 60
        assert len(await (await a_holder(world.storage)).ready()) == 60


def _unknown(name: str, **given: object) -> NewRun:
    """A run that was started by a name that nobody knew."""
    return a_run(name, **{"id": new_run_id(), "version": 0} | given)


def _definition(name: str, version: int, kind: Kind = "workflow", queue: str = QUEUE) -> Definition:
    return Definition(kind=kind, name=name, version=version, queue=queue, build="b1")
