"""W5, parked: workflows that wait for a signal."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import psutil

import runnerq as rq
from benchmarks.databases import Place, until
from benchmarks.meter import Meter
from benchmarks.ours import Ours, worker
from benchmarks.workflows import waiting

RUNS = 2000
SLOTS = 100
IDLE = 5.0
"""Seconds for which the worker is watched while all are parked."""

PARKED = "select count(*) from runnerq.live where state = 'waiting'"


async def w5_parked(place: Place) -> dict[str, Any]:
    """2,000 runs that wait for a signal: what they add to a worker, its CPU meanwhile, and the time to wake all."""
    async with place.fresh() as dsn, rq.connect(dsn) as client, worker(client, SLOTS):
        await _signal_all(client, dsn, await _park(client, dsn), RUNS)
        before = _resident()
        handles = await _park(client, dsn)
        added = _resident() - before
        with Meter(place.postmaster) as idle:
            await asyncio.sleep(IDLE)
        with Meter(place.postmaster) as meter:
            await _signal_all(client, dsn, handles, 2 * RUNS)
    return {
        "added_kb": round(added / 1024),
        "kb_each": round(added / 1024 / RUNS, 3),
        "idle_cpu_percent": round(100 * idle.cost.cpu_python / IDLE, 1),
        "idle_postgres_percent": round(100 * idle.cost.cpu_postgres / IDLE, 1),
        "signal_all_s": round(meter.cost.seconds, 2),
    }


async def _park(client: rq.Client, dsn: str) -> list[rq.Handle[int]]:
    handles = await client.start_many(waiting, [(i,) for i in range(RUNS)])
    await until(dsn, PARKED, RUNS)
    return handles


async def _signal_all(client: rq.Client, dsn: str, handles: list[rq.Handle[int]], ended: int) -> None:
    await asyncio.gather(*(client.send(handle.id, "go", None) for handle in handles))
    await until(dsn, Ours.ended, ended)


def _resident() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)
