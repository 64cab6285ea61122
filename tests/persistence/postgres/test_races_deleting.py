"""Trees that are deleted, against whatever else concerns them, with the other transaction held open or stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from runnerq.ids import derived_run_id, new_run_id
from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import GOING, Changed, Claimed, End, NewRun, Reopen, RunFilter, Verdict
from runnerq.testing.conformance.world import (
    AT,
    COMPLETED,
    Holder,
    a_child,
    a_holder,
    a_run,
    a_signal,
    a_turn,
    look,
)
from tests.persistence.postgres.backend import PostgresWorld
from tests.persistence.postgres.interleaving import held_open, rolled_back, stopped, until_waiting
from tests.persistence.postgres.races import a_family

pytestmark = pytest.mark.asyncio(loop_scope="module")

FAILED = End(status="failed", error="{}")
ABANDONED = '{"parent_close":"abandon"}'


class TestDeleteAgainstReopen:
    @pytest.mark.parametrize("whose", ["the root", "a child alone"])
    async def test_the_reopening_is_held_and_it_waits_and_is_refused(self, world: PostgresWorld, whose: str) -> None:
        root, child = await _a_failed_family(world)
        opened = root if whose == "the root" else child
        async with held_open(world) as person:
            assert await person.reopen(_reopen(opened))
            deleting = asyncio.create_task(world.storage.delete(root))
            await until_waiting(world)
        assert await deleting is Changed.REFUSED
        assert (await look(world.storage, opened)).status == "pending"

    @pytest.mark.parametrize("whose", ["the root", "a child alone"])
    async def test_it_is_held_and_a_reopening_waits_and_comes_too_late(self, world: PostgresWorld, whose: str) -> None:
        root, child = await _a_failed_family(world)
        opened = root if whose == "the root" else child
        async with held_open(world) as person:
            assert await person._doom(root) is Changed.CHANGED
            opening = asyncio.create_task(world.storage.reopen(_reopen(opened)))
            await until_waiting(world)
        assert not await opening
        assert await world.storage.delete(root) is Changed.UNCHANGED
        assert await world.storage.run(opened) is None

    async def test_it_is_rolled_back_and_the_reopening_counts(self, world: PostgresWorld) -> None:
        root, child = await _a_failed_family(world)
        async with rolled_back(world) as person:
            assert await person._doom(root) is Changed.CHANGED
            opening = asyncio.create_task(world.storage.reopen(_reopen(child)))
            await until_waiting(world)
        assert await opening
        assert await world.storage.delete(root) is Changed.REFUSED

    async def test_a_childs_reopening_is_stopped_while_its_open_root_ends_and_is_deleted(
        self, world: PostgresWorld
    ) -> None:
        holder = await a_holder(world.storage)
        run, child = await a_family(holder)
        await holder.commit(child, FAILED)
        async with stopped(world, "reopen_runs") as gate:
            opening = await gate.begin(gate.writes.reopen(_reopen(child.id)))
            await holder.commit(run, COMPLETED)
            assert await world.postgres._doom(run.id) is Changed.CHANGED
            await gate.go()
            assert not await opening
        assert await world.storage.purge(10) == 2

    async def test_a_childs_reopening_is_held_and_the_end_of_its_root_is_busy(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run, child = await a_family(holder)
        await holder.commit(child, FAILED)
        async with held_open(world) as person:
            assert await person.reopen(_reopen(child.id))
            assert await holder.commit(run, COMPLETED) is Verdict.BUSY
        assert await holder.commit(run, COMPLETED) is Verdict.DONE
        assert await world.storage.delete(run.id) is Changed.REFUSED

    async def test_a_look_for_old_trees_passes_over_one_that_is_being_opened(self, world: PostgresWorld) -> None:
        _, child = await _a_failed_family(world)
        other, _ = await _a_failed_family(world)
        await world.advance(100)
        async with held_open(world) as person:
            assert await person.reopen(_reopen(child))
            assert (await world.storage.retain(None, 10, 100)).trees == 1
        assert await world.storage.purge(10) == 2
        assert await world.storage.run(other) is None
        assert (await world.storage.retain(None, 10, 100)).trees == 0


class TestDeleteAgainstEnds:
    async def test_the_end_of_a_child_of_the_root_is_held_and_it_waits(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run, options=ABANDONED)
        await holder.commit(run, GOING, children=(child,))
        held = await holder.take(child)
        await holder.commit(run, COMPLETED)
        async with held_open(world) as worker:
            await worker.commit([a_turn(held, COMPLETED)])
            deleting = asyncio.create_task(world.storage.delete(run.id))
            await until_waiting(world)
        assert await deleting is Changed.CHANGED
        assert await world.storage.run(child.id) is None

    async def test_the_end_of_a_grandchild_is_held_and_it_is_refused(self, world: PostgresWorld) -> None:
        holder = await a_holder(world.storage)
        run, child = await a_family(holder)
        grandchild = a_child(child, options=ABANDONED)
        await holder.commit(child, GOING, children=(grandchild,))
        held = await holder.take(grandchild)
        for each in (child, run):
            await holder.commit(each, COMPLETED)
        async with held_open(world) as worker:
            await worker.commit([a_turn(held, COMPLETED)])
            assert await world.storage.delete(run.id) is Changed.REFUSED
        assert await world.storage.delete(run.id) is Changed.CHANGED

    async def test_it_is_stopped_while_a_child_that_it_sees_open_ends_and_is_refused(
        self, world: PostgresWorld
    ) -> None:
        holder = await a_holder(world.storage)
        run, child = await a_family(holder)
        await holder.commit(run, COMPLETED)
        async with stopped(world, "doom_trees") as gate:
            deleting = await gate.begin(gate.writes.delete(run.id))
            ending = asyncio.create_task(world.storage.terminate([child.id]))
            await gate.go()
            assert await deleting is Changed.REFUSED
            await ending
        assert await world.storage.delete(run.id) is Changed.CHANGED


class TestDeleteAgainstKeys:
    async def test_a_start_that_answers_its_run_is_held_and_it_waits(self, world: PostgresWorld) -> None:
        run_id = await _ended(world)
        async with held_open(world) as other:
            [reply] = await other.start([a_run(key="k")])
            assert reply.id == run_id
            deleting = asyncio.create_task(world.storage.delete(run_id))
            await until_waiting(world)
        assert await deleting is Changed.CHANGED
        assert await world.storage.by_key("order", "k") is None

    async def test_a_start_that_takes_the_key_is_held_and_the_key_stays_with_the_new_run(
        self, world: PostgresWorld
    ) -> None:
        run_id = await _ended(world)
        second = a_run(key="k", on_duplicate="allow_reuse")
        async with held_open(world) as other:
            await other.start([second])
            deleting = asyncio.create_task(world.storage.delete(run_id))
            await until_waiting(world)
        assert await deleting is Changed.CHANGED
        assert await world.storage.by_key("order", "k") == second.id

    async def test_it_is_held_and_a_start_waits_and_makes_a_new_run(self, world: PostgresWorld) -> None:
        run_id = await _ended(world)
        second = a_run(key="k")
        async with held_open(world) as person:
            assert await person._doom(run_id) is Changed.CHANGED
            starting = asyncio.create_task(world.storage.start([second]))
            await until_waiting(world)
        [reply] = await starting
        assert (reply.id, reply.created) == (second.id, True)
        assert await world.storage.purge(10) == 1
        assert await world.storage.by_key("order", "k") == second.id

    async def test_it_is_rolled_back_and_the_start_answers_its_run(self, world: PostgresWorld) -> None:
        run_id = await _ended(world)
        async with rolled_back(world) as person:
            await person._doom(run_id)
            starting = asyncio.create_task(world.storage.start([a_run(key="k")]))
            await until_waiting(world)
        assert [(reply.id, reply.created) for reply in await starting] == [(run_id, False)]

    async def test_a_look_for_old_trees_passes_over_one_whose_key_somebody_has(self, world: PostgresWorld) -> None:
        run_id = await _ended(world)
        await world.advance(100)
        async with held_open(world) as other:
            await other.start([a_run(key="k")])
            assert (await world.storage.retain(10, None, 100)).trees == 0
        assert await world.storage.by_key("order", "k") == run_id
        assert (await world.storage.retain(10, None, 100)).trees == 1

    async def test_a_look_for_old_trees_is_stopped_while_a_start_takes_the_key_and_leaves_it_to_that(
        self, world: PostgresWorld
    ) -> None:
        run_id = await _ended(world)
        await world.advance(100)
        second = a_run(key="k", on_duplicate="allow_reuse")
        async with stopped(world, "doom_trees") as gate:
            looking = await gate.begin(gate.writes.retain(10, None, 100))
            await world.storage.start([second])
            await gate.go()
            assert (await looking).trees == 1
        assert await world.storage.by_key("order", "k") == second.id
        assert await world.storage.purge(10) == 1
        assert await world.storage.run(run_id) is None

    async def test_a_child_whose_key_somebody_has_is_deleted_later_and_its_root_after_it(
        self, world: PostgresWorld
    ) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run, key="k")
        await holder.commit(run, GOING, children=(child,))
        await holder.commit(await holder.take(child), COMPLETED)
        await holder.commit(run, COMPLETED)
        assert await world.postgres._doom(run.id) is Changed.CHANGED
        async with held_open(world) as other:
            await other.start([a_run("child", key="k")])
            assert await world.storage.purge(10) == 0
            assert await world.storage.run(run.id) is not None
        assert await world.storage.purge(10) == 2
        assert await world.storage.by_key("child", "k") is None


class TestPurgeAgainstOthers:
    async def test_it_is_held_and_another_takes_other_trees(self, world: PostgresWorld) -> None:
        trees = [await _a_failed_family(world) for _ in range(2)]
        for root, _ in trees:
            await world.postgres._doom(root)
        async with held_open(world) as worker:
            assert await worker.purge(2) == 2
            assert await world.storage.purge(10) == 2
            assert await world.storage.purge(10) == 0
        assert (await world.storage.list_runs(RunFilter(), 10)).runs == ()

    async def test_it_is_held_and_a_deletion_waits_and_finds_nothing_left(self, world: PostgresWorld) -> None:
        root, _ = await _a_failed_family(world)
        await world.postgres._doom(root)
        async with held_open(world) as worker:
            assert await worker.purge(10) == 2
            deleting = asyncio.create_task(world.storage.delete(root))
            await until_waiting(world)
        assert await deleting in (Changed.UNCHANGED, Changed.UNKNOWN)
        assert await world.storage.run(root) is None

    async def test_it_is_stopped_while_another_deletes_the_tree(self, world: PostgresWorld) -> None:
        root, _ = await _a_failed_family(world)
        await world.postgres._doom(root)
        async with stopped(world, "purge_runs") as gate:
            purging = await gate.begin(gate.writes.purge(10))
            assert await world.storage.purge(10) == 2
            await gate.go()
            assert await purging == 0

    async def test_it_is_rolled_back_and_all_is_there(self, world: PostgresWorld) -> None:
        root, child = await _a_failed_family(world)
        await world.postgres._doom(root)
        async with rolled_back(world) as worker:
            assert await worker.purge(10) == 2
        assert [(await look(world.storage, run_id)).status for run_id in (root, child)] == ["failed"] * 2
        assert await world.storage.purge(10) == 2

    async def test_a_look_for_old_trees_is_held_and_another_leaves_it_to_that(self, world: PostgresWorld) -> None:
        run_id = await _ended(world)
        await world.advance(100)
        async with held_open(world) as worker:
            assert (await worker.retain(10, None, 100)).trees == 1
            found = await world.storage.retain(10, None, 100)
            assert (found.trees, found.more) == (0, False)
        assert await world.storage.purge(10) == 1
        assert await world.storage.run(run_id) is None


async def test_everything_at_once_deadlocks_nothing_and_leaves_no_part_of_a_tree(world: PostgresWorld) -> None:
    storages = (world.storage, await world.another())
    chance = Random(4)
    worker = await a_holder(storages[1])
    families = [await _a_failed_family(world, key=f"k{number % 3}", on_duplicate="allow_reuse") for number in range(8)]
    await world.advance(100)

    def acts(storage: Storage) -> list[Callable[[], Awaitable[object]]]:
        (root, child), number = chance.choice(families), chance.randrange(3)
        return [
            lambda: storage.delete(root),
            lambda: storage.reopen(_reopen(root, _reopen(child))),
            lambda: storage.reopen(_reopen(child)),
            lambda: storage.retain(10, 10, 3),
            lambda: storage.purge(3),
            lambda: storage.start([_keyed(number, "allow_reuse_on_failure"), _keyed((number + 1) % 3, "allow_reuse")]),
            lambda: storage.start_or_send(_keyed(number), [a_signal(root)]),
            lambda: storage.cancel([child, root]),
            lambda: storage.terminate([root, child]),
            lambda: storage.send([a_signal(root), a_signal(child)]),
            lambda: storage.set_priority(child, number),
            lambda: storage.run_now(root),
            lambda: storage.reschedule(child, AT),
            lambda: _work(worker, number),
        ]

    async def somebody(storage: Storage) -> None:
        for _ in range(40):
            await chance.choice(acts(storage))()

    await asyncio.gather(*(somebody(storages[number % 2]) for number in range(10)))
    while await world.storage.purge(100):
        pass
    for root, child in families:
        assert (await world.storage.run(root) is None) == (await world.storage.run(child) is None)
    left = await world.connection.fetch(
        """
        select 'no root', id from runnerq.run where root_id is not null and root_id not in (select id from runnerq.run)
        union all
        select 'no run', run_id from runnerq.key where run_id not in (select id from runnerq.run)
        union all
        select 'no run', run_id from runnerq.outcome where run_id not in (select id from runnerq.run)
        union all
        select 'no run', run_id from runnerq.signal where run_id not in (select id from runnerq.run)
        union all
        select 'no run', run_id from runnerq.live where run_id not in (select id from runnerq.run)
        union all
        select 'a mark', root_id from runnerq.doomed
        """
    )
    assert left == []


async def _work(holder: Holder, number: int) -> None:
    """Take some runs up, and end them with children, that are to outlive them, by a turn and from outside."""
    for run in (await holder.claim(3)).runs:
        asked, started = (a_child(run, str(place), options=ABANDONED, key=f"k{number + place}") for place in range(2))
        await holder.commit(run, GOING, children=(asked,))
        await holder.storage.start([started])
        await holder.commit(run, FAILED)


def _keyed(number: int, on_duplicate: str = "return_existing") -> NewRun:
    return a_run(id=new_run_id(), key=f"k{number}", on_duplicate=on_duplicate)


def _reopen(run_id: str, *children: Reopen) -> Reopen:
    return Reopen(run_id=run_id, generation=1, status="failed", children=children)


async def _a_failed_family(world: PostgresWorld, **given: object) -> tuple[str, str]:
    """A root and a child that have both failed; by their ids they are old."""
    holder = await a_holder(world.storage)
    run = await holder.start(a_run(id=derived_run_id(AT, new_run_id()), **given))
    child = a_child(run, id=derived_run_id(AT, new_run_id()))
    await holder.commit(run, GOING, children=(child,))
    held: Claimed = await holder.take(child)
    for each in (held, run):
        assert await holder.commit(each, FAILED) is Verdict.DONE
    return run.id, child.id


async def _ended(world: PostgresWorld) -> str:
    """A run with a key that has completed; by its id it is old."""
    holder = await a_holder(world.storage)
    run = await holder.start(a_run(id=derived_run_id(AT, new_run_id()), key="k"))
    await holder.commit(run, COMPLETED)
    return run.id
