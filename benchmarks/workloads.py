"""The workloads: W1 steps, W6 sequence, W7 replay, and what parked runs add to a worker."""

from __future__ import annotations

import asyncio
import gc
import statistics
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any, TypeAlias

import asyncpg
import psutil

import runnerq as rq
from benchmarks.meter import Meter
from benchmarks.replay import w7_replay
from benchmarks.workflows import MARK_EVERY, MARKS, sequence, steps, trivial, waiting

SLOTS = 500
PARKED = 2000

Workload: TypeAlias = Callable[[str, int | None], Awaitable[dict[str, Any]]]


async def w1_steps(dsn: str, postmaster: int | None) -> dict[str, Any]:
    """500 workflows of 20 trivial async steps each, all started at once."""
    runs, count = 500, 20
    async with (
        rq.connect(dsn) as client,
        rq.Worker(client, workflows=[steps], activities=[trivial], max_workers=SLOTS, max_steps=SLOTS),
    ):
        await _warm_up(client)
        with Meter(postmaster) as meter:
            handles = await client.start_many(steps, [(count,)] * runs)
            await _ended(dsn, [handle.id for handle in handles])
    cost = meter.cost
    return {
        "steps_s": round(runs * count / cost.seconds),
        "python_us": round(cost.cpu_python / (runs * count) * 1e6, 1),
        "postgres_us": round(cost.cpu_postgres / (runs * count) * 1e6, 1),
        "seconds": round(cost.seconds, 3),
    }


async def w6_sequence(dsn: str, postmaster: int | None) -> dict[str, Any]:
    """One workflow of 2,000 trivial async steps; milliseconds a step for its first, middle and last hundred."""
    count = 2000
    async with rq.connect(dsn) as client, rq.Worker(client, workflows=[sequence], activities=[trivial]):
        await (await client.start(sequence, MARK_EVERY)).result(timeout=60)
        MARKS.clear()
        with Meter(postmaster) as meter:
            await (await client.start(sequence, count)).result(timeout=120)
    per_step = [1000 * (b - a) / MARK_EVERY for a, b in pairwise(MARKS)]
    cost = meter.cost
    return {
        "steps_s": round(count / cost.seconds),
        "first_ms": round(per_step[0], 3),
        "middle_ms": round(statistics.median(per_step), 3),
        "last_ms": round(per_step[-1], 3),
        "python_us": round(cost.cpu_python / count * 1e6, 1),
        "postgres_us": round(cost.cpu_postgres / count * 1e6, 1),
    }


async def parked_memory(dsn: str, postmaster: int | None) -> dict[str, Any]:
    """What 2,000 runs that wait for a signal add to the worker that parked them, and how long waking them all takes."""
    async with (
        rq.connect(dsn) as client,
        rq.Worker(client, workflows=[waiting, steps], activities=[trivial], max_workers=100),
    ):
        await _park_and_wake(client, dsn, PARKED)
        before = _resident()
        handles = await client.start_many(waiting, [(i,) for i in range(PARKED)])
        await _parked(dsn, PARKED)
        added = _resident() - before
        with Meter(postmaster) as meter:
            await asyncio.gather(*(client.send(handle.id, "go", None) for handle in handles))
            await _ended(dsn, [handle.id for handle in handles])
    return {
        "added_kb": round(added / 1024),
        "kb_each": round(added / 1024 / PARKED, 3),
        "signal_all_s": round(meter.cost.seconds, 2),
    }


WORKLOADS: dict[str, Workload] = {"W1": w1_steps, "W6": w6_sequence, "W7": w7_replay, "parked": parked_memory}


async def _warm_up(client: rq.Client) -> None:
    handles = await client.start_many(steps, [(5,)] * 20)
    await asyncio.gather(*(handle.result(timeout=60) for handle in handles))


async def _park_and_wake(client: rq.Client, dsn: str, count: int) -> None:
    handles = await client.start_many(waiting, [(i,) for i in range(count)])
    await _parked(dsn, count)
    await asyncio.gather(*(client.send(handle.id, "go", None) for handle in handles))
    await _ended(dsn, [handle.id for handle in handles])


def _resident() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


async def _ended(dsn: str, ids: list[str]) -> None:
    await _until(dsn, "select count(*) from runnerq.outcome where run_id = any($1::uuid[])", len(ids), ids)


async def _parked(dsn: str, count: int) -> None:
    await _until(dsn, "select count(*) from runnerq.live where state = 'waiting'", count)


async def _until(dsn: str, query: str, wanted: int, *arguments: Any) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        for _ in range(6000):
            if await connection.fetchval(query, *arguments) >= wanted:
                return
            await asyncio.sleep(0.02)
    finally:
        await connection.close()
    raise TimeoutError(f"{wanted} were expected within two minutes: {query}")
