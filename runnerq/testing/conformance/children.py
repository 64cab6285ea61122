"""Children: how they start with a turn, and how their ends reach a parent that runs, parks or has ended."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from runnerq.persistence.records import (
    GOING,
    MANY_CHILDREN,
    Back,
    Claimed,
    End,
    Ended,
    NewRun,
    OnDuplicate,
    Park,
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
    a_turn,
    look,
)

UNHAPPY = tuple(status for status in get_args(Ended) if status != "completed")
unhappy = pytest.mark.parametrize("status", UNHAPPY)


class TestChildren:
    async def test_a_child_starts_with_the_turn_that_asked_for_it(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run, "5.1", input='["x"]', priority=0, queue="q", key="k", options='{"timeout":1}')
        assert await holder.commit(run, GOING, rows=(a_row(0),), children=(child,)) is Verdict.DONE
        claimed = await holder.take(child)
        assert (claimed.parent_id, claimed.root_id, claimed.depth) == (run.id, run.id, 1)
        assert (claimed.input, claimed.priority, claimed.key, claimed.options) == ('["x"]', 0, "k", '{"timeout":1}')

    async def test_a_delayed_child_waits_for_its_time(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run, due_in=60.0)
        await holder.commit(run, Park(children=(child.id,)), children=(child,))
        assert await holder.ready() == []
        await world.advance(61)
        assert await world.storage.wake_due(10) == 1
        assert await holder.ready() == [child.id]

    @pytest.mark.parametrize("status", get_args(Ended))
    async def test_a_childs_end_wakes_the_parent_that_waits_for_it(self, world: World, status: Ended) -> None:
        holder = await a_holder(world.storage)
        run, [child] = await _family(holder, 1)
        await holder.commit(run, Park(children=(child.id,)))
        assert await holder.ready() == []
        await holder.commit(child, End(status=status, result="7"))
        again = await holder.take_again(run)
        assert [(each.run_id, each.status) for each in again.outcomes] == [(child.id, status)]

    async def test_a_childs_end_counts_for_a_parent_that_runs(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run, [child] = await _family(holder, 1)
        await holder.commit(child, COMPLETED)
        assert await holder.commit(run, Park(children=(child.id,)), rows=(a_row(0),)) is Verdict.AGAIN
        box = await holder.inbox(run, [child.id])
        assert box.seen == 1
        assert [(each.run_id, each.result) for each in box.outcomes] == [(child.id, "1")]
        assert await holder.commit(run, Park(signals=("go",)), seen=box.seen) is Verdict.DONE

    @pytest.mark.parametrize("parent_first", [True, False])
    async def test_a_park_and_the_childs_end_in_one_batch_lose_no_wake(self, world: World, parent_first: bool) -> None:
        holder = await a_holder(world.storage)
        run, [child] = await _family(holder, 1)
        turns = [a_turn(run, Park(children=(child.id,)), rows=(a_row(0),)), a_turn(child, COMPLETED)]
        park, end = await world.storage.commit(turns if parent_first else turns[::-1])
        if not parent_first:
            park, end = end, park
        assert end is Verdict.DONE
        if park is Verdict.AGAIN:
            assert (await look(world.storage, run.id)).status == "running"
            assert (await holder.inbox(run)).seen == 1
        else:
            assert park is Verdict.DONE
            assert await holder.ready() == [run.id]
        assert await world.storage.sweep(100) == 0

    async def test_a_parent_and_its_child_may_end_in_one_batch(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run, [child] = await _family(holder, 1)
        turns = [a_turn(run, COMPLETED), a_turn(child, COMPLETED)]
        assert await world.storage.commit(turns) == [Verdict.DONE, Verdict.DONE]
        assert len(await world.storage.outcomes([run.id, child.id])) == 2

    async def test_a_child_outlives_its_parent(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run, [child] = await _family(holder, 1)
        await holder.commit(run, COMPLETED)
        assert await holder.commit(child, COMPLETED) is Verdict.DONE

    async def test_a_child_that_is_given_back_and_ends_later_wakes_the_parent(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run, [child] = await _family(holder, 1)
        await holder.commit(run, Park(children=(child.id,)))
        await holder.commit(child, Back())
        await holder.commit(await holder.take_again(child), COMPLETED)
        assert await holder.ready() == [run.id]


class TestNeeds:
    async def test_a_parent_is_woken_when_its_needs_are_met_and_not_before(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run, children = await _family(holder, 3)
        await holder.commit(run, Park(children=_ids(children), needs=3))
        for child in children[:2]:
            await holder.commit(child, COMPLETED)
            assert await holder.ready() == []
        await holder.commit(children[2], COMPLETED)
        again = await holder.take_again(run)
        assert sorted(each.run_id for each in again.outcomes) == sorted(_ids(children))
        assert again.seen == 3

    async def test_needs_may_be_met_within_one_batch(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run, children = await _family(holder, 3)
        await holder.commit(run, Park(children=_ids(children), needs=2))
        assert await world.storage.commit([a_turn(child, COMPLETED) for child in children]) == [Verdict.DONE] * 3
        again = await holder.take_again(run)
        assert (len(again.outcomes), again.seen) == (3, 3)

    @unhappy
    async def test_a_child_that_did_not_complete_wakes_at_once(self, world: World, status: Ended) -> None:
        holder = await a_holder(world.storage)
        run, children = await _family(holder, 3)
        await holder.commit(run, Park(children=_ids(children), needs=3))
        await holder.commit(children[1], End(status=status))
        assert await holder.ready() == [run.id]

    @pytest.mark.parametrize("status", get_args(Ended))
    async def test_a_child_that_is_not_waited_for_wakes_nobody_but_counts(self, world: World, status: Ended) -> None:
        holder = await a_holder(world.storage)
        run, [wanted, other] = await _family(holder, 2)
        await holder.commit(run, Park(children=(wanted.id,)))
        await holder.commit(other, End(status=status, result="1"))
        assert await holder.ready() == []
        assert (await holder.inbox(run)).seen == 1
        await holder.commit(wanted, COMPLETED)
        assert await holder.ready() == [run.id]

    async def test_a_park_that_names_no_children_is_woken_by_any(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run, children = await _family(holder, 3)
        await holder.commit(run, Park(children=None, needs=2))
        await holder.commit(children[2], COMPLETED)
        assert await holder.ready() == []
        await holder.commit(children[0], COMPLETED)
        assert await holder.ready() == [run.id]

    async def test_needs_begin_anew_with_each_park(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run, children = await _family(holder, 3)
        await holder.commit(run, Park(children=_ids(children), needs=2, signals=("go",)))
        await holder.commit(children[0], COMPLETED)
        await world.storage.send([a_signal(run.id)])
        again = await holder.take_again(run)
        await holder.commit(again, Park(children=_ids(children[1:]), needs=2))
        await holder.commit(children[1], COMPLETED)
        assert await holder.ready() == []
        await holder.commit(children[2], COMPLETED)
        assert await holder.ready() == [run.id]

    async def test_five_hundred_children_resume_their_parent_once(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run, children = await _family(holder, 500)
        assert len(children) > MANY_CHILDREN
        await holder.commit(run, Park(children=None, needs=500))
        woken = 0
        for begin in range(0, 500, 50):
            assert woken == 0
            turns = [a_turn(child, COMPLETED) for child in children[begin : begin + 50]]
            assert await world.storage.commit(turns) == [Verdict.DONE] * 50
            woken += len(await holder.ready())
        assert woken == 1
        assert len((await holder.inbox(run, _ids(children))).outcomes) == 500

    async def test_one_failed_of_five_hundred_wakes_at_once(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run, children = await _family(holder, 500)
        await holder.commit(run, Park(children=None, needs=500))
        await holder.commit(children[77], End(status="failed", error="{}"))
        assert await holder.ready() == [run.id]


class TestChildKeys:
    @pytest.mark.parametrize("on_duplicate", [each for each in get_args(OnDuplicate) if each != "allow_reuse"])
    async def test_a_child_with_a_taken_key_fails_at_once_and_tells_its_parent(
        self, world: World, on_duplicate: OnDuplicate
    ) -> None:
        holder = await a_holder(world.storage)
        owner = a_run("child", key="k")
        await world.storage.start([owner])
        run = await holder.start(a_run())
        child = a_child(run, key="k", on_duplicate=on_duplicate)
        park = Park(children=(child.id,))
        assert await holder.commit(run, park, children=(child,), rows=(a_row(0),)) is Verdict.AGAIN
        box = await holder.inbox(run, [child.id])
        assert box.seen == 1
        [outcome] = box.outcomes
        assert (outcome.status, outcome.result) == ("failed", None)
        failure = json.loads(outcome.error or "{}")
        assert failure["type"] == "KeyTaken"
        assert failure["args"] == ["child", "k", owner.id]
        assert await world.storage.by_key("child", "k") == owner.id

    async def test_a_child_with_a_taken_key_is_counted_once_if_the_turn_is_sent_again(self, world: World) -> None:
        holder = await a_holder(world.storage)
        await world.storage.start([a_run("child", key="k")])
        run = await holder.start(a_run())
        turn = a_turn(run, GOING, children=(a_child(run, key="k"),))
        for _ in range(2):
            assert await world.storage.commit([turn]) == [Verdict.DONE]
        assert (await holder.inbox(run)).seen == 1

    async def test_a_child_may_take_the_key_if_it_says_so(self, world: World) -> None:
        holder = await a_holder(world.storage)
        await world.storage.start([a_run("child", key="k")])
        run = await holder.start(a_run())
        child = a_child(run, key="k", on_duplicate="allow_reuse")
        await holder.commit(run, Park(children=(child.id,)), children=(child,))
        assert await world.storage.by_key("child", "k") == child.id
        assert (await look(world.storage, child.id)).status == "pending"

    async def test_of_several_in_one_commit_that_may_take_the_key_all_run_and_the_last_has_it(
        self, world: World
    ) -> None:
        holder = await a_holder(world.storage)
        one, other = await holder.start(a_run()), await holder.start(a_run())
        taken = [a_child(run, key="k", on_duplicate="allow_reuse") for run in (one, one, other)]
        turns = [a_turn(one, GOING, children=tuple(taken[:2])), a_turn(other, GOING, children=(taken[2],))]
        for _ in range(2):
            assert await world.storage.commit(turns) == [Verdict.DONE] * 2
        assert [(await look(world.storage, child.id)).status for child in taken] == ["pending"] * 3
        assert await world.storage.by_key("child", "k") in {taken[1].id, taken[2].id}

    async def test_a_turn_sent_again_leaves_its_child_the_key(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run, key="k")
        turn = a_turn(run, Park(children=(child.id,)), children=(child,))
        for _ in range(2):
            assert await world.storage.commit([turn]) == [Verdict.DONE]
        assert await world.storage.by_key("child", "k") == child.id
        assert (await holder.inbox(run)).seen == 0

    async def test_of_two_children_of_one_turn_with_one_key_one_runs(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        children = (a_child(run, "1", key="k"), a_child(run, "2", key="k"))
        park = Park(children=tuple(child.id for child in children), needs=2)
        assert await holder.commit(run, park, children=children) is Verdict.AGAIN
        states = sorted([(await look(world.storage, child.id)).status for child in children])
        assert states == ["failed", "pending"]

    async def test_of_children_of_two_turns_of_a_batch_with_one_key_one_runs(self, world: World) -> None:
        holder = await a_holder(world.storage)
        runs = [await holder.start(a_run()) for _ in range(2)]
        children = [a_child(run, key="k") for run in runs]
        turns = [a_turn(run, GOING, children=(child,)) for run, child in zip(runs, children, strict=True)]
        assert await world.storage.commit(turns) == [Verdict.DONE] * 2
        states = sorted([(await look(world.storage, child.id)).status for child in children])
        assert states == ["failed", "pending"]
        assert sorted([(await holder.inbox(run)).seen for run in runs]) == [0, 1]


def _ids(children: list[Claimed]) -> tuple[str, ...]:
    return tuple(child.id for child in children)


async def _family(holder: Holder, count: int) -> tuple[Claimed, list[Claimed]]:
    """A run and its children, all held."""
    run = await holder.start(a_run())
    children: list[NewRun] = [a_child(run, str(position)) for position in range(count)]
    await holder.commit(run, GOING, children=tuple(children))
    claimed: dict[str, Claimed] = {}
    while len(claimed) < count:
        claimed |= {child.id: child for child in (await holder.claim()).runs}
    return run, [claimed[child.id] for child in children]
