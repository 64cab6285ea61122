"""W3, latency: an idle worker, and one run at a time."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import AsyncExitStack
from typing import Any

from benchmarks.databases import Place
from benchmarks.meter import Meter, spread
from benchmarks.pickup import Pickup, pickup
from benchmarks.systems import Producer, System, workers_of

RUNS = 200
WARM_UP = 10
PAUSE = 0.05
"""Seconds on average between two runs, so that the worker is idle when one comes."""
SETTLED = 1.0


async def measure_latency(place: Place, system: System) -> dict[str, Any]:
    """Milliseconds from the start of a workflow of one step to when the step runs, and to when its result is here."""
    chance = random.Random(1)  # noqa: S311 - spreads the starts, hides nothing
    picked_up: list[float] = []
    ended: list[float] = []
    async with place.fresh() as dsn, pickup() as heard, AsyncExitStack() as stack:
        await system.prepare(dsn)
        workers = await stack.enter_async_context(workers_of(system.module, dsn, system.workers))
        producer = await stack.enter_async_context(system.producer(dsn, 1))
        workers.go()
        await asyncio.sleep(SETTLED)
        for _ in range(WARM_UP):
            await _once(producer, heard)
        with Meter(place.postmaster, workers.pids) as meter:
            for _ in range(RUNS):
                await asyncio.sleep(chance.uniform(0, 2 * PAUSE))
                one, other = await _once(producer, heard)
                picked_up.append(one)
                ended.append(other)
    return {**spread(picked_up, "pickup"), **spread(ended, "result"), **meter.cost.of(RUNS)}


async def _once(producer: Producer, heard: Pickup) -> tuple[float, float]:
    began = time.perf_counter()
    run = await producer.one("told")
    await heard.told()
    picked_up = time.perf_counter() - began
    await producer.result(run)
    return picked_up, time.perf_counter() - began
