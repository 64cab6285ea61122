"""Wake-ups: whoever subscribes hears soon, on its event loop, of what changed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import GOING, Move, Park, Wake
from runnerq.testing.conformance.world import (
    COMPLETED,
    QUEUE,
    World,
    a_child,
    a_holder,
    a_run,
    a_signal,
)

PATIENCE = 10.0
"""Seconds after which a wake-up counts as lost."""


class TestChanges:
    async def test_a_started_run_is_heard_of_by_its_queue(self, world: World) -> None:
        ears = Ears(world.storage)
        await world.storage.start([a_run()])
        await ears.until(lambda wake: QUEUE in wake.queues)

    async def test_a_delayed_run_is_heard_of_so_that_it_is_not_late(self, world: World) -> None:
        ears = Ears(world.storage)
        await world.storage.start([a_run(due_in=60.0)])
        await ears.until(lambda wake: QUEUE in wake.queues)

    async def test_another_storage_hears_of_it_too(self, world: World) -> None:
        other = await world.another()
        ears = Ears(other)
        await _heard_once_connected(ears, world.storage)
        await world.storage.start([a_run(queue="far")])
        await ears.until(lambda wake: "far" in wake.queues)

    async def test_a_woken_run_is_heard_of_by_its_queue(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        await holder.commit(run, Park(signals=("go",)))
        ears = Ears(world.storage)
        await world.storage.send([a_signal(run.id)])
        await ears.until(lambda wake: QUEUE in wake.queues)

    async def test_a_parent_woken_by_its_child_is_heard_of_by_its_queue(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run(queue="q"))
        child = a_child(run)
        await holder.commit(run, Park(children=(child.id,)), children=(child,))
        claimed = await holder.take(child)
        ears = Ears(world.storage)
        await holder.commit(claimed, COMPLETED)
        await ears.until(lambda wake: QUEUE in wake.queues)

    async def test_a_due_run_is_heard_of_by_its_queue(self, world: World) -> None:
        await world.storage.start([a_run(due_in=60.0)])
        await world.advance(61)
        ears = Ears(world.storage)
        await world.storage.wake_due(10)
        await ears.until(lambda wake: QUEUE in wake.queues)

    async def test_the_holder_of_a_run_that_has_mail_is_named(self, world: World) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        ears = Ears(world.storage)
        await world.storage.send([a_signal(run.id)])
        await ears.until(lambda wake: holder.id in wake.workers)

    async def test_the_holder_of_a_parent_whose_child_ended_is_named(self, world: World) -> None:
        holder, other = await a_holder(world.storage), await a_holder(world.storage)
        run = await holder.start(a_run())
        child = a_child(run)
        await holder.commit(run, GOING, children=(child,))
        claimed = await other.take(child)
        ears = Ears(world.storage)
        await other.commit(claimed, COMPLETED)
        await ears.until(lambda wake: holder.id in wake.workers)

    @pytest.mark.parametrize(
        ("move", "published"),
        [(GOING, "{}"), (Park(signals=("go",)), None), (COMPLETED, None)],
        ids=["published", "parked", "ended"],
    )
    async def test_a_run_that_changed_is_named(self, world: World, move: Move, published: str | None) -> None:
        holder = await a_holder(world.storage)
        run = await holder.start(a_run())
        ears = Ears(world.storage)
        await holder.commit(run, move, published=published)
        await ears.until(lambda wake: run.id in wake.runs or wake.many_runs)

    async def test_who_unsubscribed_hears_nothing_more(self, world: World) -> None:
        deaf, ears = Ears(world.storage), Ears(world.storage)
        deaf.close()
        await world.storage.start([a_run()])
        await ears.until(lambda wake: QUEUE in wake.queues)
        assert deaf.wakes == []

    async def test_each_subscriber_hears(self, world: World) -> None:
        ears = [Ears(world.storage) for _ in range(3)]
        await world.storage.start([a_run()])
        for each in ears:
            await each.until(lambda wake: QUEUE in wake.queues)

    async def test_it_is_heard_on_the_event_loop(self, world: World) -> None:
        ears = Ears(world.storage)
        await world.storage.start([a_run()])
        await ears.until(lambda wake: QUEUE in wake.queues)
        assert ears.threads == {threading.get_ident()}


class Ears:
    """A subscriber that remembers what it heard."""

    def __init__(self, storage: Storage) -> None:
        self.wakes: list[Wake] = []
        self.threads: set[int] = set()
        self._heard = asyncio.Event()
        self.close = storage.subscribe(self._hear)

    def _hear(self, wake: Wake) -> None:
        self.wakes.append(wake)
        self.threads.add(threading.get_ident())
        self._heard.set()

    async def until(self, wanted: Callable[[Wake], bool], within: float = PATIENCE) -> None:
        """Return when a wake of this kind was heard."""
        async with asyncio.timeout(within):
            while not any(wanted(wake) for wake in self.wakes):
                self._heard.clear()
                await self._heard.wait()


async def _heard_once_connected(ears: Ears, storage: Storage) -> None:
    """Start runs until one is heard of: a storage that was just opened may not listen yet."""
    async with asyncio.timeout(PATIENCE):
        while not ears.wakes:
            await storage.start([a_run()])
            with suppress(TimeoutError):
                await ears.until(bool, within=0.2)
