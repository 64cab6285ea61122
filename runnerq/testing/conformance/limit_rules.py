"""Limits: rates, and rules that change."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from runnerq.persistence.records import Claimed, LimitRule, Park, Wake
from runnerq.testing.conformance.limits import claim, complete, limited, taken
from runnerq.testing.conformance.world import QUEUE, Holder, World, a_holder, a_signal


class TestRates:
    async def test_no_more_are_admitted_in_any_span_than_the_rate_says(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="mail", rate=3, per=60.0))
        holder = await a_holder(world.storage)
        await world.storage.start([limited(scope="mail") for _ in range(10)])
        await complete(holder, *await taken(holder, 2))
        await world.advance(30)
        assert len(await taken(holder)) == 1
        assert await taken(holder) == []
        await world.advance(31)
        assert len(await taken(holder)) == 2
        assert await taken(holder) == []

    async def test_a_claim_says_when_the_next_may_be_admitted(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="mail", rate=1, per=60.0))
        holder = await a_holder(world.storage)
        await world.storage.start([limited(scope="mail") for _ in range(2)])
        reply = await claim(holder)
        assert len(reply.runs) == 1
        reply = await claim(holder)
        assert reply.runs == ()
        assert reply.next_due is not None
        assert 55 < (reply.next_due - reply.now).total_seconds() <= 60.1

    async def test_keys_have_rates_of_their_own_where_the_rule_says_so(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="mail", rate=2, per=60.0, per_key=True))
        holder = await a_holder(world.storage)
        await world.storage.start([limited(key, "mail") for key in ("1", "2", "3") for _ in range(3)])
        assert len(await taken(holder)) == 6
        assert await taken(holder) == []

    async def test_a_rate_and_places_hold_together(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="mail", concurrency=1, rate=2, per=60.0))
        holder = await a_holder(world.storage)
        await world.storage.start([limited(scope="mail") for _ in range(5)])
        first = await taken(holder)
        second_try = await taken(holder)
        await complete(holder, *first)
        second = await taken(holder, freed=first)
        await complete(holder, *second)
        assert (len(first), len(second_try), len(second)) == (1, 0, 1)
        assert await taken(holder, freed=second) == []
        await world.advance(61)
        assert len(await taken(holder)) == 1

    async def test_a_run_that_parks_is_admitted_anew(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="mail", rate=1, per=60.0))
        holder = await a_holder(world.storage)
        await world.storage.start([limited(scope="mail")])
        [run] = await taken(holder)
        await holder.commit(run, Park(signals=("go",)))
        await world.storage.send([a_signal(run.id)])
        assert await taken(holder, freed=[run]) == []
        await world.advance(61)
        assert len(await taken(holder)) == 1


class TestRules:
    async def test_a_rule_that_changes_holds_at_once_and_takes_nothing_back(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=1))
        holder = await a_holder(world.storage)
        await world.storage.start([limited() for _ in range(10)])
        held = await taken(holder)
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=4))
        held += await taken(holder)
        assert len(held) == 4
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=2))
        await complete(holder, *held[:2])
        assert await taken(holder, freed=held[:2]) == []
        await complete(holder, held[2])
        assert len(await taken(holder, freed=held[2:3])) == 1
        assert await world.storage.delete_limit("stripe")
        assert len(await taken(holder)) == 5

    async def test_a_rule_may_begin_and_cease_to_count_by_keys(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="tenant", concurrency=2))
        holder = await a_holder(world.storage)
        await world.storage.start([limited(key, "tenant") for key in ("", "1", "2") for _ in range(4)])
        held = await taken(holder)
        assert len(held) == 2
        await world.storage.set_limit(LimitRule(scope="tenant", concurrency=2, per_key=True))
        held += await taken(holder)
        assert sorted(run.limit.key for run in held if run.limit is not None) == ["", "", "1", "1", "2", "2"]
        await world.storage.set_limit(LimitRule(scope="tenant", concurrency=5))
        await complete(holder, *held[:1])
        assert await taken(holder, freed=held[:1]) == []
        await complete(holder, *held[1:3])
        assert len(await taken(holder, freed=held[1:3])) == 2

    async def test_a_rate_counts_what_it_has_admitted(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="mail", rate=2, per=60.0))
        holder = await a_holder(world.storage)
        await world.storage.start([limited(scope="mail") for _ in range(10)])
        assert len(await taken(holder)) == 2
        await world.storage.set_limit(LimitRule(scope="mail", rate=5, per=60.0))
        assert len(await taken(holder)) == 3
        await world.storage.set_limit(LimitRule(scope="mail", rate=5, per=10.0))
        await world.advance(11)
        assert len(await taken(holder)) == 5

    async def test_rules_are_listed_by_scope_with_what_holds_places_and_what_waits(self, world: World) -> None:
        before = await world.storage.now()
        second = LimitRule(scope="stripe", concurrency=1, rate=100, per=60.0)
        first = LimitRule(scope="customer", concurrency=1, per_key=True)
        await world.storage.set_limit(second)
        await world.storage.set_limit(first)
        holder = await a_holder(world.storage)
        await world.storage.start([limited(key, "customer") for key in ("1", "2") for _ in range(2)])
        await world.storage.start([limited(key) for key in ("", "1", "1")])
        await taken(holder)
        records = await world.storage.limits()
        assert [(each.rule, each.running, each.waiting) for each in records] == [(first, 2, 2), (second, 1, 1)]
        after = await world.storage.now()
        assert all(before <= each.changed_at <= after for each in records)
        assert [await world.storage.delete_limit("stripe") for _ in range(2)] == [True, False]
        assert [each.rule.scope for each in await world.storage.limits()] == ["customer"]

    async def test_whoever_may_be_admitted_by_a_change_is_told(self, world: World) -> None:
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=0))
        holder = await a_holder(world.storage)
        await world.storage.start([limited()])
        assert await taken(holder) == []
        heard: asyncio.Queue[Wake] = asyncio.Queue()
        stop = world.storage.subscribe(heard.put_nowait)
        await world.storage.set_limit(LimitRule(scope="stripe", concurrency=1))
        async with asyncio.timeout(10):
            while QUEUE not in (await heard.get()).queues:
                pass
        stop()
        assert len(await taken(holder)) == 1

    async def test_many_changes_at_once_come_to_one_rule(self, world: World) -> None:
        storages = [world.storage, await world.another()]
        holder = await a_holder(world.storage)
        await world.storage.start([limited(key) for key in ("1", "2") for _ in range(4)])
        rules = [LimitRule(scope="stripe", concurrency=n % 3, per_key=n % 2 == 0) for n in range(12)]
        await asyncio.gather(*(storages[n % 2].set_limit(rule) for n, rule in enumerate(rules)))
        [record] = await world.storage.limits()
        assert record.rule in rules
        keys = 2 if record.rule.per_key else 1
        assert record.rule.concurrency is not None
        assert len(await _all_of(holder)) == record.rule.concurrency * keys


async def _all_of(holder: Holder) -> Sequence[Claimed]:
    """Everything that claims bring until one brings nothing."""
    found: list[Claimed] = []
    while runs := await taken(holder, 3):
        found += runs
    return found
