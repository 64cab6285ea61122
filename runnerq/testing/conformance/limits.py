"""Limits: places and turns."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from runnerq.ids import new_run_id, new_token
from runnerq.persistence.records import (
    GOING,
    Back,
    Changed,
    Claim,
    Claimed,
    ClaimRequest,
    Definition,
    Limit,
    LimitRule,
    NewRun,
    Park,
    Reopen,
    Sent,
    Status,
)
from runnerq.testing.conformance.world import (
    COMPLETED,
    PAIRS,
    QUEUE,
    Holder,
    World,
    a_child,
    a_holder,
    a_run,
    a_signal,
    an_activity,
    look,
)

SCOPE = Limit("stripe")


def limited(key: str = "", scope: str = "stripe", **given: Any) -> NewRun:
    """A run that counts against the scope, or a key of it."""
    return a_run(limit=Limit(scope, key), **given)


async def claim(
    holder: Holder, limit: int = 100, freed: Iterable[Claimed] = (), pairs: tuple[tuple[str, str], ...] = PAIRS
) -> Claim:
    """A claim that says whose places this worker has given up."""
    limits = tuple(run.limit for run in freed if run.limit is not None)
    request = ClaimRequest(worker_id=holder.id, token=new_token(), pairs=pairs, limit=limit, freed=limits)
    return await holder.storage.claim(request)


async def taken(holder: Holder, limit: int = 100, freed: Iterable[Claimed] = ()) -> list[Claimed]:
    """What such a claim brings."""
    return list((await claim(holder, limit, freed)).runs)


async def complete(holder: Holder, *runs: Claimed) -> None:
    for run in runs:
        await holder.commit(run, COMPLETED)


def ids(runs: Iterable[Claimed | NewRun]) -> set[str]:
    return {run.id for run in runs}


class TestPlaces:
    async def test_no_more_runs_are_held_than_the_rule_says(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=2))
        holder = await a_holder(world.storage)
        await world.storage.start([limited() for _ in range(5)])
        first = await taken(holder)
        assert len(first) == 2
        assert await taken(holder) == []
        await complete(holder, first[0])
        second = await taken(holder, freed=first[:1])
        assert len(second) == 1
        await complete(holder, first[1], *second)
        assert len(await taken(holder, freed=[first[1], *second])) == 2

    async def test_workers_that_claim_at_once_keep_to_it_together(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=3))
        storages = [world.storage, await world.another()]
        holders = [await a_holder(storages[number % 2]) for number in range(6)]
        await world.storage.start([limited() for _ in range(30)])
        done = 0
        while done < 30:
            claims = await asyncio.gather(*(taken(holder, 2) for holder in holders))
            held = [(holder, run) for holder, runs in zip(holders, claims, strict=True) for run in runs]
            assert len(held) <= 3
            for holder, run in held:
                await complete(holder, run)
            await world.storage.relieve(None, 100)
            done += len(held)

    async def test_a_cancelled_run_that_nobody_holds_needs_no_place_to_end(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=1))
        holder = await a_holder(world.storage)
        await world.storage.start([limited()])
        [parked] = await taken(holder)
        await holder.commit(parked, Park(signals=("go",)))
        await world.storage.start([limited()])
        [waits] = await taken(holder, freed=[parked])
        await world.storage.send([a_signal(parked.id, "go")])
        assert await taken(holder) == []
        for run_id in (parked.id, waits.id):
            assert await world.storage.cancel([run_id]) == [Sent.SENT]
        [ends] = await taken(holder)
        assert (ends.id, ends.limit) == (parked.id, None)
        # One that is held keeps its place until it has ended.
        await world.storage.start([limited()])
        assert await taken(holder) == []
        await complete(holder, ends, waits)
        assert len(await taken(holder, freed=[waits])) == 1

    async def test_a_cancelled_run_that_is_let_go_of_needs_no_place_to_go_on(self, world: World) -> None:
        gone, holder = await a_holder(world.storage, lease=5), await a_holder(world.storage, lease=1000)
        new = [limited() for _ in range(4)]
        await world.storage.start(new)
        parks, backs, released, reaped = [(await taken(gone, 1))[0] for _ in new]
        await world.storage.cancel([each.id for each in new])
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=0))
        await gone.commit(parks, Park(signals=("go",)), seen=parks.seen + 1)
        await world.storage.send([a_signal(parks.id)])
        await gone.commit(backs, Back())
        await world.storage.release(gone.id, [reaped.token])
        await world.advance(10)
        assert [each.run_id for each in await world.storage.reap(holder.id, new_token(), 10)] == [reaped.id]
        cleaning = await taken(holder)
        assert ids(cleaning) == ids([parks, backs, released, reaped])
        assert {each.limit for each in cleaning} == {None}

    async def test_a_parked_run_leaves_its_place_and_asks_again(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=1))
        holder = await a_holder(world.storage)
        first, second = limited(), limited()
        await world.storage.start([first])
        [run] = await taken(holder)
        await world.storage.start([second])
        assert await taken(holder) == []
        await holder.commit(run, Park(signals=("go",)))
        [other] = await taken(holder, freed=[run])
        assert other.id == second.id
        assert await world.storage.send([a_signal(first.id)]) == [Sent.SENT]
        assert await taken(holder) == []
        await complete(holder, other)
        assert [each.id for each in await taken(holder, freed=[other])] == [first.id]

    async def test_what_is_given_back_or_taken_from_a_worker_that_is_gone_leaves_its_place(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=1))
        gone, holder = await a_holder(world.storage, lease=5), await a_holder(world.storage, lease=1000)
        new = [limited(), limited()]
        await world.storage.start(new)
        [run] = await taken(gone)
        assert await taken(holder) == []
        await holder.storage.release(gone.id, ())
        [again] = await taken(gone)
        assert again.id == run.id
        await gone.commit(again, Back())
        [again] = await taken(gone, freed=[again])
        await world.advance(10)
        assert [each.run_id for each in await world.storage.reap(holder.id, new_token(), 10)] == [again.id]
        assert len(await taken(holder)) == 1
        assert await taken(holder) == []

    async def test_runs_without_a_limit_and_of_a_scope_without_a_rule_go_on(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=0))
        holder = await a_holder(world.storage)
        shut = limited()
        others = [a_run(), limited(scope="elsewhere"), limited("7", scope="elsewhere"), a_run()]
        await world.storage.start([shut, *others])
        assert ids(await taken(holder)) == ids(others)
        assert await taken(holder) == []
        assert (await look(world.storage, shut.id)).status is Status.PENDING

    async def test_each_key_has_places_of_its_own_where_the_rule_says_so(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="customer", concurrency=2, per_key=True))
        holder = await a_holder(world.storage)
        new = [limited(key, "customer") for key in ("", "1", "2") for _ in range(4)]
        await world.storage.start(new)
        first = await taken(holder)
        assert sorted(run.limit.key for run in first if run.limit is not None) == ["", "", "1", "1", "2", "2"]
        await complete(holder, *(run for run in first if run.limit == Limit("customer", "1")))
        second = await taken(holder, freed=first)
        assert [run.limit for run in second] == [Limit("customer", "1")] * 2

    async def test_all_keys_share_the_places_of_a_scope_else(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="customer", concurrency=3))
        holder = await a_holder(world.storage)
        await world.storage.start([limited(key, "customer") for key in ("", "1", "2", "3") for _ in range(4)])
        held = await taken(holder)
        assert len(held) == 3
        assert await taken(holder) == []
        # A hint need not be true.
        assert await taken(holder, freed=held) == []
        await complete(holder, held[0])
        assert len(await taken(holder, freed=held)) == 1

    async def test_activities_and_workflows_share_their_places(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=2))
        holder = await a_holder(world.storage)
        await world.storage.start([limited(), an_activity(limit=SCOPE), limited(), an_activity(limit=SCOPE)])
        first = await taken(holder)
        assert len(first) == 2
        await complete(holder, *first)
        assert len(await taken(holder, freed=first)) == 2

    async def test_a_run_that_falls_due_or_is_put_off_waits_as_others_do(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=1))
        holder = await a_holder(world.storage)
        later, soon = limited(due_in=60.0), limited()
        await world.storage.start([later, soon])
        [run] = await taken(holder)
        assert run.id == soon.id
        await world.advance(61)
        await world.storage.wake_due(10)
        assert await taken(holder) == []
        now = await world.storage.now()
        assert await world.storage.reschedule(later.id, now.replace(year=now.year + 1)) is Changed.CHANGED
        await complete(holder, run)
        assert await taken(holder, freed=[run]) == []
        assert await world.storage.run_now(later.id) is Changed.CHANGED
        assert ids(await taken(holder)) == {later.id}

    async def test_a_waiting_run_that_is_cancelled_is_in_nobodys_way(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=1))
        holder = await a_holder(world.storage)
        new = [limited() for _ in range(3)]
        await world.storage.start(new)
        [run] = await taken(holder)
        waiting = [each for each in new if each.id != run.id]
        assert await world.storage.cancel([waiting[0].id]) == [Sent.SENT]
        await complete(holder, run)
        [last] = await taken(holder, freed=[run])
        assert last.id == waiting[1].id
        await complete(holder, last)
        assert await taken(holder, freed=[last]) == []

    async def test_a_place_that_nobody_has_told_of_is_found(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=1, per_key=True))
        holder = await a_holder(world.storage)
        await world.storage.start([limited(key) for key in ("1", "2", "3") for _ in range(2)])
        first = await taken(holder)
        assert len(first) == 3
        assert await taken(holder) == []
        assert await world.storage.terminate([run.id for run in first]) == [Sent.SENT] * 3
        after = None
        for _ in range(3):
            after = (await world.storage.relieve(after, 1)).next
        assert len(await taken(holder)) == 3

    async def test_nothing_is_taken_from_a_paused_queue(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=1))
        holder = await a_holder(world.storage)
        await world.storage.start([limited()])
        await world.storage.pause(QUEUE)
        assert await taken(holder) == []
        await world.storage.resume(QUEUE)
        assert len(await taken(holder)) == 1

    async def test_a_run_keeps_its_limit_as_a_child_and_when_it_is_opened_again(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=0))
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        child, twin = a_child(run, limit=Limit("stripe", "1")), a_child(run, "2")
        await holder.commit(run, GOING, children=(child, twin))
        assert ids(await taken(holder)) == {twin.id}
        assert (await look(world.storage, child.id)).limit == Limit("stripe", "1")
        assert (await look(world.storage, twin.id)).limit is None
        assert await world.storage.terminate([child.id]) == [Sent.SENT]
        assert await world.storage.reopen(Reopen(run_id=child.id, generation=1, status="cancelled"))
        assert await taken(holder) == []
        assert await world.storage.delete_limit("stripe")
        [again] = await taken(holder)
        assert (again.id, again.limit) == (child.id, Limit("stripe", "1"))

    async def test_one_that_was_started_by_an_unknown_name_waits_once_it_is_adopted(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=1))
        holder = await a_holder(world.storage)
        await world.storage.start([limited(id=new_run_id(), version=0) for _ in range(2)])
        assert await taken(holder) == []
        order = Definition(kind="workflow", name="order", version=1, queue=QUEUE, build="b1")
        assert await world.storage.adopt([order], 10) == 2
        assert len(await taken(holder)) == 1


class TestLimitTurns:
    async def test_the_key_that_was_admitted_least_recently_goes_first(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="tenant", concurrency=1))
        await _assert_that_keys_take_turns(world)

    async def test_keys_that_have_places_of_their_own_take_turns_where_slots_are_few(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="tenant", concurrency=5, per_key=True))
        await _assert_that_keys_take_turns(world)

    async def test_one_claim_takes_of_each_key_in_turn(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="tenant", concurrency=0))
        holder = await a_holder(world.storage)
        for key in ("big", "small"):
            await world.storage.start([limited(key, "tenant") for _ in range(20)])
            assert await taken(holder) == []
        await world.storage.set_limit(LimitRule(scope="tenant", concurrency=6))
        runs = await taken(holder)
        assert sorted(run.limit.key for run in runs if run.limit is not None) == ["big"] * 3 + ["small"] * 3

    async def test_within_a_key_and_beside_others_rank_decides(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=1))
        holder = await a_holder(world.storage)
        low, high = limited(priority=3), limited(priority=0)
        first, plain = a_run(priority=0), a_run(priority=1)
        await world.storage.start([first])
        await world.storage.start([low, plain, high])
        order: list[str] = []
        for _ in range(4):
            runs = await taken(holder, 1)
            order += [run.id for run in runs]
            await complete(holder, *runs)
            await world.storage.relieve(None, 10)
        assert order == [first.id, high.id, plain.id, low.id]

    async def test_keys_that_admit_nobody_are_in_no_other_keys_way(self, world: World) -> None:
        holder = await a_holder(world.storage)
        full = [f"{key}" for key in range(20)]
        for rule in (
            LimitRule(scope="tenant", concurrency=1, per_key=True),
            LimitRule(scope="mail", rate=1, per=3600.0, per_key=True),
        ):
            await world.storage.set_limit(rule)
            await world.storage.start([limited(key, rule.scope) for key in full])
            assert len(await taken(holder)) == 20
            await world.storage.start([limited(key, rule.scope) for key in full])
            assert await taken(holder, 1) == []
            new = limited("other", rule.scope)
            await world.storage.start([new])
            assert ids(await taken(holder, 1)) == {new.id}

    async def test_nor_are_they_after_a_change_of_the_rule(self, world: World) -> None:
        holder = await a_holder(world.storage)
        await world.storage.set_limit(LimitRule(scope="tenant", concurrency=1, per_key=True))
        full = [f"{key}" for key in range(20)]
        await world.storage.start([limited(key, "tenant") for key in full for _ in range(2)])
        assert len(await taken(holder)) == 20
        await world.storage.set_limit(LimitRule(scope="tenant", concurrency=1, rate=9, per=60.0, per_key=True))
        new = limited("other", "tenant")
        await world.storage.start([new])
        assert ids(await taken(holder, 1)) == {new.id}

    async def test_a_rule_that_is_set_as_it_was_is_not_changed(self, world: World) -> None:
        rule = LimitRule(scope="tenant", concurrency=1, rate=9, per=60.0, per_key=True)
        await world.storage.set_limit(rule)
        before = await world.storage.limits()
        await world.storage.set_limit(rule)
        assert await world.storage.limits() == before


async def _assert_that_keys_take_turns(world: World) -> None:
    """One slot, a key that has many runs, and one that comes later and has three."""
    holder = await a_holder(world.storage)
    await world.storage.start([limited("big", "tenant") for _ in range(20)])
    assert await _one_key(holder) == "big"
    await world.storage.start([limited("small", "tenant") for _ in range(3)])
    # A claim that is full need not have looked at what has just arrived.
    await _one_key(holder)
    order = [await _one_key(holder) for _ in range(4)]
    assert order in (["big", "small"] * 2, ["small", "big"] * 2)


async def _one_key(holder: Holder) -> str:
    [run] = await taken(holder, 1)
    assert run.limit is not None
    await complete(holder, run)
    await holder.storage.relieve(None, 100)
    return run.limit.key
