"""W2, the queue: runs of a trivial activity, started one by one, many at once and in bulk, and worked off."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.databases import Place, until
from benchmarks.meter import Meter
from benchmarks.systems import Producer, System, workers_of

RUNS = 10_000
ONE_BY_ONE = 2_000
AT_ONCE = 16
SETTLED = 1.0
"""Seconds that workers are given to begin listening."""


async def measure_queue(place: Place, system: System, workers: int = 1) -> dict[str, Any]:
    """Runs a second: enqueued one by one, 16 at once, in bulk; drained; end to end in bulk; and the CPU of each."""
    result: dict[str, Any] = {}
    async with place.fresh() as dsn:
        await system.prepare(dsn)
        async with system.producer(dsn, AT_ONCE) as producer:
            with Meter(None) as meter:
                for _ in range(ONE_BY_ONE):
                    await producer.one("trivial")
            result["one_by_one_s"] = round(ONE_BY_ONE / meter.cost.seconds)
            with Meter(None) as meter:
                await _at_once(producer, RUNS)
            result["at_once_s"] = round(RUNS / meter.cost.seconds)
    async with place.fresh() as dsn:
        await system.prepare(dsn)
        async with system.producer(dsn, 1) as producer:
            with Meter(place.postmaster) as meter:
                await producer.many("trivial", RUNS)
            result["bulk_s"] = round(RUNS / meter.cost.seconds)
            result |= {f"bulk_{name}": us for name, us in meter.cost.of(RUNS).items()}
        result |= await _drained(place, system, dsn, workers)
    return result | await measure_end_to_end(place, system, workers)


async def measure_end_to_end(place: Place, system: System, workers: int) -> dict[str, Any]:
    """Runs a second from the first start in bulk to the last end, with workers that were idle."""
    async with place.fresh() as dsn:
        await system.prepare(dsn)
        async with workers_of(system.module, dsn, workers) as working, system.producer(dsn, 1) as producer:
            working.go()
            await asyncio.sleep(SETTLED)
            with Meter(place.postmaster, working.pids) as meter:
                await producer.many("trivial", RUNS)
                await until(dsn, system.ended, RUNS)
    return {"end_to_end_s": round(RUNS / meter.cost.seconds), **meter.cost.of(RUNS)}


async def _drained(place: Place, system: System, dsn: str, workers: int) -> dict[str, Any]:
    async with workers_of(system.module, dsn, workers) as working:
        with Meter(place.postmaster, working.pids) as meter:
            working.go()
            await until(dsn, system.ended, RUNS)
    return {
        "drain_s": round(RUNS / meter.cost.seconds),
        **{f"drain_{name}": us for name, us in meter.cost.of(RUNS).items()},
    }


async def _at_once(producer: Producer, count: int) -> None:
    numbers = iter(range(count))

    async def each() -> None:
        for _ in numbers:
            await producer.one("trivial")

    await asyncio.gather(*(each() for _ in range(AT_ONCE)))
