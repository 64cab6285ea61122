"""W4, fan-out: one parent, and its children."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from benchmarks.databases import Place
from benchmarks.meter import Meter
from benchmarks.systems import FansOut, workers_of

CHILDREN = 500
SETTLED = 1.0


async def measure_fan_out(place: Place, system: FansOut) -> dict[str, Any]:
    """Children a second of a parent that starts 500 and awaits them all."""
    async with place.fresh() as dsn, AsyncExitStack() as stack:
        await system.prepare(dsn)
        workers = await stack.enter_async_context(workers_of(system.module, dsn, system.workers))
        producer = await stack.enter_async_context(system.producer(dsn, 1))
        workers.go()
        await asyncio.sleep(SETTLED)
        await system.fan_out(producer, 10)
        with Meter(place.postmaster, workers.pids) as meter:
            await system.fan_out(producer, CHILDREN)
    return {"children_s": round(CHILDREN / meter.cost.seconds), **meter.cost.of(CHILDREN)}
