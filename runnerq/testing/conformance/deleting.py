"""Runs that are deleted: whole trees, once all of them has ended, by a person or by their age."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from runnerq.ids import derived_run_id, new_run_id
from runnerq.persistence.records import (
    GOING,
    Changed,
    End,
    Ended,
    NewRun,
    Park,
    Reopen,
    Sent,
    Status,
    Stuck,
    Verdict,
)
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
    rows_of,
)

DAY = 86_400.0
FAILED = End(status="failed", error="{}")


class TestDelete:
    async def test_a_run_that_has_ended_goes_with_all_that_is_kept_of_it(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run(key="k"))
        await world.storage.send([a_signal(run.id, dedup="d"), a_signal(run.id)])
        await holder.commit(run, GOING, rows=(a_row(0), a_row(1)), published='{"a":1}')
        await holder.commit(run, COMPLETED, rows=(a_row(2),))
        assert await world.storage.delete(run.id) is Changed.CHANGED
        await _assert_gone(world, [run.id])
        assert await world.storage.by_key("order", "k") is None
        assert await world.storage.mailbox(run.id) == []
        assert await world.storage.state(run.id) is None
        assert await world.storage.send([a_signal(run.id)]) == [Sent.UNKNOWN]
        assert await world.storage.delete(run.id) is Changed.UNKNOWN

    async def test_its_whole_tree_goes_and_nothing_else(self, world: World) -> None:
        holder = await a_holder(world.storage)
        tree = await _a_tree(holder)
        other = await _a_tree(holder)
        assert await world.storage.delete(tree[0]) is Changed.CHANGED
        await _assert_gone(world, tree)
        for run_id in other:
            assert (await look(world.storage, run_id)).status is Status.COMPLETED

    async def test_an_open_run_is_refused(self, world: World) -> None:
        holder = await a_holder(world.storage)
        new, parked, stuck, running = a_run(due_in=60.0), *[await holder.start(a_run()) for _ in range(3)]
        await world.storage.start([new])
        await holder.commit(parked, Park(signals=("go",)))
        await holder.commit(stuck, Stuck(message="m", build="b1"))
        for run_id in (new.id, parked.id, stuck.id, running.id):
            assert await world.storage.delete(run_id) is Changed.REFUSED
        assert await holder.commit(running, COMPLETED) is Verdict.DONE

    async def test_a_run_with_an_open_descendant_is_refused_until_that_has_ended(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run, options='{"parent_close":"abandon"}')
        await holder.commit(run, GOING, children=(child,))
        held = await holder.take(child)
        grandchild = a_child(held, options='{"parent_close":"abandon"}')
        await holder.commit(held, GOING, children=(grandchild,))
        await holder.commit(held, COMPLETED)
        await holder.commit(run, COMPLETED)
        assert await world.storage.delete(run.id) is Changed.REFUSED
        await holder.commit(await holder.take(grandchild), COMPLETED)
        assert await world.storage.delete(run.id) is Changed.CHANGED
        await _assert_gone(world, [run.id, child.id, grandchild.id])

    async def test_a_child_is_refused(self, world: World) -> None:
        holder = await a_holder(world.storage)
        [root, child, *_] = await _a_tree(holder)
        assert await world.storage.delete(child) is Changed.REFUSED
        assert await world.storage.delete(root) is Changed.CHANGED

    async def test_a_detached_run_is_not_of_its_starters_tree(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run, apart = await holder.start(a_run()), a_run("child")
        await holder.commit(run, GOING, children=(apart,))
        await holder.commit(run, COMPLETED)
        assert await world.storage.delete(run.id) is Changed.CHANGED
        assert (await look(world.storage, apart.id)).status is Status.PENDING

    async def test_a_child_that_another_runs_key_kept_out_goes_too(self, world: World) -> None:
        holder = await a_holder(world.storage)
        keeper = await holder.start(a_run("child", key="k"))
        run = await holder.start(a_run())
        child = a_child(run, key="k")
        await holder.commit(run, GOING, children=(child,))
        await holder.commit(run, COMPLETED)
        assert await world.storage.delete(run.id) is Changed.CHANGED
        await _assert_gone(world, [run.id, child.id])
        assert await world.storage.by_key("child", "k") == keeper.id

    async def test_a_key_that_has_moved_on_stays_with_its_new_holder(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run(key="k"))
        await holder.commit(run, COMPLETED)
        second = a_run(key="k", on_duplicate="allow_reuse")
        await world.storage.start([second])
        assert await world.storage.delete(run.id) is Changed.CHANGED
        assert await world.storage.by_key("order", "k") == second.id

    async def test_its_key_may_be_used_anew(self, world: World) -> None:
        run_id = await _ended(world, COMPLETED, key="k")
        await world.storage.delete(run_id)
        second = a_run(key="k", on_duplicate="no_reuse")
        [reply] = await world.storage.start([second])
        assert (reply.id, reply.created) == (second.id, True)

    async def test_a_long_journal_goes_as_well(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        for first in range(0, 25_000, 5_000):
            rows = tuple(a_row(place, str(place)) for place in range(first, first + 5_000))
            assert await holder.commit(run, GOING, rows=rows) is Verdict.DONE
        await holder.commit(run, COMPLETED)
        assert await world.storage.delete(run.id) is Changed.CHANGED
        await _assert_gone(world, [run.id])

    async def test_fifty_callers_at_once_delete_it_once(self, world: World) -> None:
        tree = await _a_tree(await a_holder(world.storage))
        storages = (world.storage, await world.another())
        answers = await asyncio.gather(*(storages[number % 2].delete(tree[0]) for number in range(50)))
        assert answers.count(Changed.CHANGED) == 1
        assert set(answers) <= {Changed.CHANGED, Changed.UNCHANGED, Changed.UNKNOWN}
        await _assert_gone(world, tree)


class TestRetain:
    @pytest.mark.parametrize("status", ["completed", "cancelled", "failed", "dead_letter"])
    async def test_each_kind_of_end_has_its_age(self, world: World, status: Ended) -> None:
        run_id = await _ended(world, End(status=status, result="1" if status == "completed" else None), days=30)
        await world.advance(2 * DAY)
        happy = status in ("completed", "cancelled")
        assert await _retained(world, *((None, DAY) if happy else (DAY, None))) == 0
        assert await _retained(world, *((3 * DAY, DAY) if happy else (DAY, 3 * DAY))) == 0
        assert await _retained(world, *((DAY, None) if happy else (None, DAY))) == 1
        assert await world.storage.purge(100) == 1
        await _assert_gone(world, [run_id])

    async def test_without_ages_nothing_goes(self, world: World) -> None:
        await _ended(world, COMPLETED, days=30)
        await world.advance(2 * DAY)
        found = await world.storage.retain(None, None, 100)
        assert (found.trees, found.more) == (0, False)

    async def test_the_age_of_a_tree_is_that_of_its_root(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(await _an_old_run(world, 30))
        child = a_child(run, options='{"parent_close":"abandon"}')
        await holder.commit(run, GOING, children=(child,))
        await holder.commit(run, COMPLETED)
        await world.advance(2 * DAY)
        assert await _retained(world, DAY, DAY) == 0
        await holder.commit(await holder.take(child), FAILED)
        assert await _retained(world, DAY, DAY) == 1
        assert await world.storage.purge(100) == 2
        await _assert_gone(world, [run.id, child.id])

    async def test_a_child_that_ended_long_ago_stays_while_its_root_is_open(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(await _an_old_run(world, 30))
        child = a_child(run, id=await _an_old_id(world, 29))
        await holder.commit(run, GOING, children=(child,))
        await holder.commit(await holder.take(child), COMPLETED)
        await world.advance(20 * DAY)
        assert await _retained(world, DAY, DAY) == 0
        assert await world.storage.purge(100) == 0
        assert (await look(world.storage, child.id)).status is Status.COMPLETED

    async def test_the_key_of_a_tree_that_is_marked_is_free_at_once(self, world: World) -> None:
        run_id = await _ended(world, COMPLETED, days=30, key="k")
        await world.advance(2 * DAY)
        assert await _retained(world, DAY, DAY) == 1
        assert await world.storage.by_key("order", "k") is None
        second = a_run(key="k")
        [reply] = await world.storage.start([second])
        assert (reply.id, reply.created) == (second.id, True)
        await world.storage.purge(100)
        assert await world.storage.by_key("order", "k") == second.id
        await _assert_gone(world, [run_id])

    async def test_nothing_of_a_tree_that_is_marked_opens_again(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(await _an_old_run(world, 30))
        child = a_child(run)
        await holder.commit(run, GOING, children=(child,))
        await holder.commit(await holder.take(child), FAILED)
        await holder.commit(run, FAILED)
        await world.advance(2 * DAY)
        assert await _retained(world, DAY, DAY) == 1
        for run_id in (run.id, child.id):
            assert not await world.storage.reopen(Reopen(run_id=run_id, generation=1, status="failed"))
        assert await world.storage.purge(100) == 2

    async def test_what_was_opened_again_stays(self, world: World) -> None:
        run_id = await _ended(world, FAILED, days=30)
        await world.advance(2 * DAY)
        assert await world.storage.reopen(Reopen(run_id=run_id, generation=1, status="failed"))
        assert await _retained(world, DAY, DAY) == 0
        assert (await look(world.storage, run_id)).status is Status.PENDING

    async def test_a_child_alone_that_was_opened_again_keeps_its_tree(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(await _an_old_run(world, 30))
        child = a_child(run)
        await holder.commit(run, GOING, children=(child,))
        await holder.commit(await holder.take(child), FAILED)
        await holder.commit(run, FAILED)
        await world.advance(2 * DAY)
        assert await world.storage.reopen(Reopen(run_id=child.id, generation=1, status="failed"))
        assert await _retained(world, DAY, DAY) == 0
        assert await world.storage.delete(run.id) is Changed.REFUSED
        await holder.commit(await holder.take(child), COMPLETED)
        assert await world.storage.delete(run.id) is Changed.CHANGED

    async def test_a_round_comes_past_every_run_and_begins_anew(self, world: World) -> None:
        holder = await a_holder(world.storage)
        kept = [await holder.start(await _an_old_run(world, 30)) for _ in range(25)]
        for run in kept:
            await holder.commit(run, FAILED)
        await world.advance(2 * DAY)
        late = await _ended(world, COMPLETED, days=29)
        await world.advance(2 * DAY)
        for _ in range(2):
            looks = [await world.storage.retain(DAY, None, 2)]
            while looks[-1].more:
                looks.append(await world.storage.retain(DAY, None, 2))
                assert len(looks) < 30
            assert all(look.trees <= 2 for look in looks)
            assert sum(look.trees for look in looks) == (1 if await world.storage.run(late) is not None else 0)
            await world.storage.purge(100)

    async def test_a_look_marks_no_more_than_the_limit(self, world: World) -> None:
        for _ in range(5):
            await _ended(world, COMPLETED, days=30)
        await world.advance(2 * DAY)
        looks = [await world.storage.retain(DAY, None, 2) for _ in range(3)]
        assert [look.trees for look in looks] == [2, 2, 1]
        assert [look.more for look in looks] == [True, True, False]

    async def test_workers_at_once_mark_each_tree_once(self, world: World) -> None:
        for _ in range(30):
            await _ended(world, COMPLETED, days=30)
        await world.advance(2 * DAY)
        storages = (world.storage, await world.another())
        looks = await asyncio.gather(*(storages[number % 2].retain(DAY, None, 5) for number in range(50)))
        rest = await _retained(world, DAY, None)
        assert sum(look.trees for look in looks) + rest == 30
        purged = await asyncio.gather(*(storages[number % 2].purge(5) for number in range(50)))
        assert sum(purged) + await world.storage.purge(100) == 30


class TestPurge:
    async def test_a_large_tree_goes_in_many_small_transactions_its_root_last(self, world: World) -> None:
        holder = await a_holder(world.storage)
        tree = await _a_tree(holder, width=30, days=30)
        await world.advance(2 * DAY)
        assert await _retained(world, DAY, DAY) == 1
        left = len(tree)
        while left:
            assert await world.storage.run(tree[0]) is not None
            gone = await world.storage.purge(10)
            assert 0 < gone <= 10
            left -= gone
        await _assert_gone(world, tree)
        assert await world.storage.purge(10) == 0

    async def test_many_small_trees_go_in_one_transaction(self, world: World) -> None:
        holder = await a_holder(world.storage)
        trees = [await _a_tree(holder, width=2, days=30) for _ in range(4)]
        await world.advance(2 * DAY)
        assert await _retained(world, DAY, DAY) == 4
        assert [await world.storage.purge(10) for _ in range(3)] == [10, 2, 0]
        await _assert_gone(world, [run_id for tree in trees for run_id in tree])

    async def test_a_deletion_that_was_broken_off_is_finished(self, world: World) -> None:
        holder = await a_holder(world.storage)
        tree = await _a_tree(holder, width=5, days=30)
        await world.advance(2 * DAY)
        await _retained(world, DAY, DAY)
        assert await world.storage.purge(3) == 3
        assert await world.storage.delete(tree[0]) is Changed.UNCHANGED
        await _assert_gone(world, tree)

    async def test_nothing_that_is_not_marked_is_touched(self, world: World) -> None:
        tree = await _a_tree(await a_holder(world.storage))
        assert await world.storage.purge(100) == 0
        assert len(await rows_of(world.storage, tree[0])) == 1


async def _an_old_id(world: World, days: float) -> str:
    """An id as it was made so long ago."""
    return derived_run_id(await world.storage.now() - timedelta(days=days), new_run_id())


async def _an_old_run(world: World, days: float, **given: Any) -> NewRun:
    return a_run(**{"id": await _an_old_id(world, days)} | given)


async def _ended(world: World, end: End, days: float = 0, **given: Any) -> str:
    """A run that was made so long ago, and has ended just now."""
    holder = await a_holder(world.storage)
    run = await holder.start(await _an_old_run(world, days, **given))
    await holder.commit(run, end, rows=(a_row(0),))
    return run.id


async def _a_tree(holder: Holder, width: int = 3, days: float = 0) -> list[str]:
    """A root that has ended, with so many descendants that have: children with keys, and one child of the first."""
    at = await holder.storage.now() - timedelta(days=days)
    run = await holder.start(a_run(id=derived_run_id(at, new_run_id())))
    children = [a_child(run, str(number), key=f"{run.id}:{number}") for number in range(width - 1)]
    await holder.commit(run, GOING, children=tuple(children))
    held = {each.id: each for each in (await holder.claim()).runs}
    grandchild = a_child(held[children[0].id])
    await holder.commit(held[children[0].id], GOING, children=(grandchild,))
    held |= {each.id: each for each in (await holder.claim()).runs}
    for each in (grandchild, *children):
        await holder.commit(held[each.id], COMPLETED, rows=(a_row(0),))
    await holder.commit(run, COMPLETED, rows=(a_row(0),))
    return [run.id, *(child.id for child in children), grandchild.id]


async def _retained(world: World, completed: float | None, failed: float | None) -> int:
    """How many trees a whole round marks."""
    marked = 0
    while True:
        found = await world.storage.retain(completed, failed, 100)
        marked += found.trees
        if not found.more:
            return marked


async def _assert_gone(world: World, run_ids: list[str]) -> None:
    for run_id in run_ids:
        assert await world.storage.run(run_id) is None
        assert await world.storage.journal(run_id) is None
    assert await world.storage.outcomes(run_ids) == []
