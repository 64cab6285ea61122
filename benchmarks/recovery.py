"""W9, recovery: a worker process is killed while it holds many runs, and another is alive."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import runnerq as rq
from benchmarks.databases import Place, until
from benchmarks.ours import Ours
from benchmarks.systems import workers_of
from benchmarks.workflows import held

HELD = 100
SETTLED = 3.0
"""Seconds before the kill: a reaper judges only after two good beats of its own."""

RUNNING = "select count(*) from runnerq.live where state = 'running' and worker_id = any($1::bigint[])"


async def w9_recovery(place: Place) -> dict[str, Any]:
    """Seconds from the SIGKILL of a worker that holds 100 runs to when the last of them is taken up by another."""
    async with place.fresh() as dsn:
        await Ours().prepare(dsn)
        async with workers_of("benchmarks.recovering", dsn, 1) as doomed, rq.connect(dsn) as client:
            doomed.go()
            await client.start_many(held, [(i,) for i in range(HELD)])
            await until(dsn, "select count(*) from runnerq.live where state = 'running'", HELD)
            async with workers_of("benchmarks.recovering", dsn, 1) as alive:
                alive.go()
                await until(dsn, "select count(*) from runnerq.worker where left_at is null", 2)
                await asyncio.sleep(SETTLED)
                ids = await client.storage.workers()
                heirs = [worker.id for worker in ids if worker.pid in alive.pids]
                began = time.perf_counter()
                doomed.kill(0)
                await until(dsn, RUNNING, HELD, heirs)
                return {"recovered_s": round(time.perf_counter() - began, 2)}
