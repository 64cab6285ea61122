"""What the in-memory storage promises beside the protocol: threads, event loops, its clock."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

from runnerq.clock import ManualClock, SystemClock
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.memory.wakeups import NAMED_RUNS
from runnerq.persistence.records import Wake
from runnerq.testing.conformance.world import COMPLETED, Holder, a_holder, a_run, a_turn


async def test_a_wake_from_another_thread_is_heard_on_the_subscribers_loop() -> None:
    storage = MemoryStorage()
    heard: list[tuple[Wake, int]] = []
    came = asyncio.Event()

    def hear(wake: Wake) -> None:
        heard.append((wake, threading.get_ident()))
        came.set()

    storage.subscribe(hear)
    await asyncio.to_thread(lambda: asyncio.run(storage.start([a_run()])))
    await asyncio.wait_for(came.wait(), 10)
    assert heard == [(Wake(queues=frozenset({"q"})), threading.get_ident())]


async def test_a_subscriber_whose_loop_is_closed_disturbs_nobody() -> None:
    storage = MemoryStorage()
    heard: list[Wake] = []

    async def subscribe() -> None:
        storage.subscribe(heard.append)

    await asyncio.to_thread(lambda: asyncio.run(subscribe()))
    came = asyncio.Event()
    storage.subscribe(lambda _: came.set())
    await storage.start([a_run()])
    await asyncio.wait_for(came.wait(), 10)
    assert heard == []


async def test_a_wake_of_very_many_runs_names_none_of_them() -> None:
    storage = MemoryStorage()
    heard: list[Wake] = []
    came = asyncio.Event()
    holder = await a_holder(storage)
    await storage.start([a_run() for _ in range(NAMED_RUNS + 1)])
    runs = (await holder.claim(NAMED_RUNS + 1)).runs
    await asyncio.sleep(0)  # what the claims above woke is heard by nobody
    storage.subscribe(lambda wake: (heard.append(wake), came.set()))
    await storage.commit([a_turn(run, COMPLETED) for run in runs])
    await asyncio.wait_for(came.wait(), 10)
    assert heard == [Wake(many_runs=True)]


async def test_many_threads_may_share_it() -> None:
    storage = MemoryStorage()
    new = [a_run() for _ in range(200)]
    await storage.start(new)
    holders = [await a_holder(storage) for _ in range(4)]

    async def drain(holder: Holder) -> list[str]:
        taken: list[str] = []
        while runs := (await holder.claim(3)).runs:
            await storage.commit([a_turn(run, COMPLETED) for run in runs])
            taken += [run.id for run in runs]
        return taken

    shares = await asyncio.gather(*(asyncio.to_thread(lambda h=holder: asyncio.run(drain(h))) for holder in holders))
    assert sorted(run_id for share in shares for run_id in share) == sorted(run.id for run in new)
    assert len(await storage.outcomes([run.id for run in new])) == 200


async def test_its_time_is_the_given_clocks() -> None:
    clock = ManualClock()
    storage = MemoryStorage(clock)
    before = await storage.now()
    clock.advance(timedelta(hours=1))
    clock.advance(1.5)
    assert await storage.now() - before == timedelta(hours=1, seconds=1.5)


def test_the_system_clock_is_in_utc_and_goes_on() -> None:
    clock = SystemClock()
    first, second = clock.now(), clock.now()
    assert first <= second
    assert first.utcoffset() == timedelta(0)
