"""What workers register: definitions, and since when a build is known."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from runnerq.ids import new_token
from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import Definition, Registered, WorkerRow
from runnerq.testing.conformance.world import World, a_holder


class TestDefinitions:
    async def test_what_a_worker_serves_is_known(self, world: World) -> None:
        one, two = (
            Definition(kind="workflow", name="order", version=version, queue="q", build="b1", options='{"timeout":1}')
            for version in (1, 2)
        )
        other = Definition(kind="activity", name="work", version=1, queue="slow", build="b1")
        holder = await a_holder(world.storage, definitions=[one, two, other])
        first, work = replace(one, served=True), replace(other, served=True)
        assert await world.storage.definitions("order") == [two, first]
        assert await world.storage.definitions("work") == [work]
        assert await world.storage.definitions("nothing") == []
        assert await world.storage.definitions() == [two, first, work]
        await world.storage.give_back(holder.id)
        assert await world.storage.definitions() == [two, one, other]

    async def test_what_only_a_silent_worker_serves_is_not_served(self, world: World) -> None:
        one = Definition(kind="workflow", name="order", version=1, queue="q", build="b1")
        await a_holder(world.storage, definitions=[one], lease=10)
        await world.advance(11)
        assert await world.storage.definitions("order") == [one]
        await a_holder(world.storage)
        assert await world.storage.definitions("order") == [replace(one, served=True)]

    @pytest.mark.parametrize("times", [1, 2])
    async def test_a_later_worker_replaces_what_it_defines_anew(self, world: World, times: int) -> None:
        old = Definition(kind="workflow", name="order", version=1, queue="q", build="b1", options="{}")
        schema = '{"type": "array",  "prefixItems": [{"type": "integer"}]}'
        new = Definition(
            kind="workflow", name="order", version=1, queue="r", build="b2", options='{"a":1}', schema=schema
        )
        await a_holder(world.storage, definitions=[old])
        for _ in range(times):
            await a_holder(world.storage, definitions=[new], build="b2")
        assert await world.storage.definitions("order") == [replace(new, served=True)]

    async def test_a_build_was_first_seen_when_its_first_worker_came(self, world: World) -> None:
        before = await world.storage.now()
        first = await _registered(world.storage, "b1")
        assert before <= first.build_seen <= first.now
        await world.advance(60)
        later, other = await _registered(await world.another(), "b1"), await _registered(world.storage, "b2")
        assert later.build_seen < other.build_seen
        assert later.now - later.build_seen >= timedelta(seconds=60)
        assert before <= other.build_seen <= other.now

    async def test_workers_of_one_build_that_come_at_once_agree_on_when_it_was_first_seen(self, world: World) -> None:
        storages = (world.storage, await world.another())
        come = await asyncio.gather(*(_registered(storages[number % 2], "new") for number in range(10)))
        assert len({each.build_seen for each in come}) == 1


async def _registered(storage: Storage, build: str) -> Registered:
    row = WorkerRow(id=new_token(), lease=60.0, host="here", pid=1, build=build, queues=(), served=())
    return await storage.register(row, [])
