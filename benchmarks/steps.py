"""W1, steps: many workflows of many steps, started at once."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from benchmarks.databases import Place, until
from benchmarks.meter import Meter
from benchmarks.systems import System, workers_of

RUNS = 500
STEPS = 20
WARM_UP = 20
SETTLED = 1.0


async def measure_steps(place: Place, system: System, workers: int | None = None) -> dict[str, Any]:
    """Steps a second of 500 workflows of 20 trivial async steps each."""
    async with place.fresh() as dsn, AsyncExitStack() as stack:
        await system.prepare(dsn)
        count = system.workers if workers is None else workers
        working = await stack.enter_async_context(workers_of(system.module, dsn, count))
        producer = await stack.enter_async_context(system.producer(dsn, 1))
        working.go()
        await asyncio.sleep(SETTLED)
        await producer.many("steps", WARM_UP)
        await until(dsn, system.ended, WARM_UP)
        with Meter(place.postmaster, working.pids) as meter:
            await producer.many("steps", RUNS)
            await until(dsn, system.ended, WARM_UP + RUNS)
    steps = RUNS * STEPS
    return {
        "steps_s": round(steps / meter.cost.seconds),
        **meter.cost.of(steps),
        "seconds": round(meter.cost.seconds, 3),
    }
