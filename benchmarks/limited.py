"""W12, limits: W2 under a limit of a thousand keys against W2 without one, and claims beside keys that wait."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from typing import Any

import asyncpg

import runnerq as rq
from benchmarks.databases import Place, until
from benchmarks.meter import Meter, spread
from benchmarks.ours import Ours
from benchmarks.systems import workers_of
from benchmarks.workflows import trivial
from runnerq.ids import new_run_id, new_token
from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import ClaimRequest, End, Limit, LimitRule, NewRun, Turn, WorkerRow

RUNS = 10_000
KEYS = 1_000
PLACES = 5
"""Of each key: half of what it has to do at once."""
AT_ONCE = 16
SETTLED = 1.0
"""Seconds that workers are given to begin listening."""

WAITING = (10, 1_000, 100_000)
"""Keys that wait beside the claims that are measured."""
CLAIMS = 100
BATCH = 10
LINED_UP, SOME = 500, 10
"""Runs that one claim puts in line, and claims more than that takes."""
SCOPE = "customer"
PAIRS = (("default", "trivial"),)


async def w12_limited(place: Place) -> dict[str, Any]:
    """10,000 trivial runs of 1,000 keys, each limited to 5 at once or not; claims beside 10, 1,000 and 100,000 keys."""
    result: dict[str, Any] = {}
    for way in ("end_to_end", "drain"):
        for limited in (False, True):
            seconds, cost = await _worked_off(place, limited=limited, full=way == "drain")
            name = f"{way}_limited" if limited else way
            result[f"{name}_s"] = round(RUNS / seconds)
            result |= {f"{name}_{what}": us for what, us in cost.items()}
        result[f"{way}_ratio"] = round(result[f"{way}_limited_s"] / result[f"{way}_s"], 2)
    return result | await _beside_waiting(place)


# --- W2 ---------------------------------------------------------------------------------------------------------------


async def _worked_off(place: Place, *, limited: bool, full: bool) -> tuple[float, dict[str, float]]:
    """Seconds until all have ended: from the first start on, or of a queue that is full."""
    system = Ours()
    async with place.fresh() as dsn:
        await system.prepare(dsn)
        async with workers_of(system.module, dsn, 1) as working, rq.connect(dsn, migrate=False) as client:
            if limited:
                await client.limits.set(SCOPE, concurrency=PLACES, per_key=True)
            if full:
                await _start(client, limited=limited)
            else:
                working.go()
                await asyncio.sleep(SETTLED)
            with Meter(place.postmaster, working.pids) as meter:
                if full:
                    working.go()
                else:
                    await _start(client, limited=limited)
                await until(dsn, system.ended, RUNS)
    return meter.cost.seconds, meter.cost.of(RUNS)


async def _start(client: rq.Client, *, limited: bool) -> None:
    """Ten runs a call, as many calls as there are keys, so that both start in the same way."""
    keys = iter(range(KEYS))

    async def each() -> None:
        for key in keys:
            options = client.options(limit=(SCOPE, f"{key}")) if limited else client
            await options.start_many(trivial, [(1,)] * (RUNS // KEYS))

    await asyncio.gather(*(each() for _ in range(AT_ONCE)))


# --- claims -----------------------------------------------------------------------------------------------------------


async def _beside_waiting(place: Place) -> dict[str, Any]:
    """Milliseconds a claim of ten that may be let in, beside keys that may be let in too, and beside full ones: at once
    after so many have arrived, and when vacuum has been there, as it is within a minute.

    The commit of what was claimed, and the next start, lie between two claims and are not counted.
    """
    result: dict[str, Any] = {}
    for kind in ("open", "full", "full_at_once"):
        for keys in WAITING:
            took = await _claims(place, keys, full=kind != "open", vacuumed=kind != "full_at_once")
            times = spread(took, f"{kind}_{keys}")
            result |= {field: times[field] for field in times if "p95" not in field}
            least = result[f"{kind}_{WAITING[0]}_p50_ms"]
            result[f"{kind}_{keys}_ratio"] = round(1000 * statistics.median(took) / least, 2)
    return result


async def _claims(place: Place, keys: int, *, full: bool, vacuumed: bool) -> list[float]:
    async with place.fresh() as dsn, rq.connect(dsn) as client:
        storage = client.storage
        await storage.set_limit(LimitRule(scope=SCOPE, concurrency=1 if full else 1_000, per_key=True))
        holder, worker = await _registered(storage), await _registered(storage)
        if full:
            # One run of each key is held, another waits.
            await _fill(storage, keys)
            for _ in range(keys // LINED_UP + SOME):
                await _claim(storage, holder, LINED_UP)
        await _fill(storage, keys)
        for _ in range(keys // LINED_UP + SOME):
            # So that what is measured finds the keys in line, as it does but for a moment after so many have arrived.
            await _claim(storage, holder, 1)
        if vacuumed:
            await _vacuum(dsn)
        took = []
        for nth in range(CLAIMS):
            await storage.start([_new(f"new {nth}.{each}") for each in range(BATCH)])
            began = time.perf_counter()
            runs = await _claim(storage, worker, BATCH)
            took.append(time.perf_counter() - began)
            assert len(runs) == BATCH
            move = End(status="completed", result="1")
            await storage.commit([Turn(run_id=run, token=token, seen=0, move=move) for run, token in runs])
        return took


async def _vacuum(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("vacuum analyze runnerq.live")
    finally:
        await connection.close()


async def _registered(storage: Storage) -> int:
    worker_id = new_token()
    row = WorkerRow(
        id=worker_id, lease=36_000.0, host="bench", pid=1, build="bench", queues=("default",), served=("trivial",)
    )  # fmt: skip
    await storage.register(row, [])
    return worker_id


async def _fill(storage: Storage, keys: int) -> None:
    for first in range(0, keys, 1000):
        await storage.start([_new(f"waiting {key}") for key in range(first, min(first + 1000, keys))])


def _new(key: str) -> NewRun:
    return NewRun(
        id=new_run_id(), kind="activity", name="trivial", version=0, queue="default", input="[1]",
        limit=Limit(SCOPE, key),
    )  # fmt: skip


async def _claim(storage: Storage, worker_id: int, batch: int) -> Sequence[tuple[str, int]]:
    request = ClaimRequest(worker_id=worker_id, token=new_token(), pairs=PAIRS, limit=batch)
    return [(run.id, run.token) for run in (await storage.claim(request)).runs]
