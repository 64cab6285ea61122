"""W8, claims: how long a claim takes beside many parked runs, many ready ones, and under a transaction held open."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import asyncpg

import runnerq as rq
from benchmarks.databases import Place
from benchmarks.meter import spread
from benchmarks.workflows import trivial
from runnerq.ids import new_token
from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import ClaimRequest, End, Turn, WorkerRow

BATCHES = {10: 300, 100: 100}
"""Runs a claim (the slots of a worker by default, and what one with 400 slots waits for), and how many claims."""

PARKED = 1_000_000
READY = 200_000
THROUGH = 50_000
TIMERS = 20_000

PARK = f"""
    insert into runnerq.live (
        run_id, token, rank, due_at, started_at, parked_at, priority, state, queue, served, wants_signals)
    select gen_random_uuid(), n, now(), case when n % 4 = 0 then now() + n * interval '1 hour' end, now(), now(), 2,
           'waiting', 'default', 'waiting@1', '{{go}}'
    from generate_series(1, {PARKED}) as n"""
QUEUE = f"""
    with born as (
        insert into runnerq.run (id, version, priority, depth, kind, name, queue, input)
        select gen_random_uuid(), 0, 2, 0, 'activity', 'trivial', 'default', '[1]' from generate_series(1, {READY})
        returning id
    )
    insert into runnerq.live (run_id, rank, priority, state, queue, served)
    select id, clock_timestamp(), 2, 'pending', 'default', 'trivial' from born"""
TIME = f"""
    insert into runnerq.live (run_id, token, rank, due_at, started_at, priority, state, queue, served)
    select gen_random_uuid(), n, now(), now() - n * interval '1 ms', now(), 2, 'waiting', 'default', 'waiting@1'
    from generate_series(1, {TIMERS}) as n"""

Scene: TypeAlias = Callable[[str, rq.Client, int], AbstractAsyncContextManager[None]]


async def w8_claims(place: Place) -> dict[str, Any]:
    """Milliseconds a claim of 10 and of 100: with nothing else, 1,000,000 parked, 200,000 ready, a transaction open."""
    result: dict[str, Any] = {}
    for name, scene in SCENES.items():
        async with place.fresh() as dsn, rq.connect(dsn) as client:
            worker_id = new_token()
            row = WorkerRow(
                id=worker_id,
                lease=36_000.0,
                host="bench",
                pid=1,
                build="bench",
                queues=("default",),
                served=("trivial",),
            )
            await client.storage.register(row, [])
            async with scene(dsn, client, worker_id):
                for batch, claims in BATCHES.items():
                    took = await _claims(client, worker_id, batch, claims)
                    times = spread(took, f"{name}_{batch}")
                    result |= {field: times[field] for field in times if "p95" not in field}
                    empty = result[f"nothing_{batch}_p50_ms"]
                    result[f"{name}_{batch}_ratio"] = round(1000 * statistics.median(took) / empty, 2)
    return result


async def _claims(client: rq.Client, worker_id: int, batch: int, claims: int) -> list[float]:
    """Seconds of each claim. What it takes is ended, and there is always more."""
    took = []
    for number in range(claims):
        if number % 10 == 0:
            await client.start_many(trivial, [(1,)] * (10 * batch))
            await client.storage.wake_due(500)  # as a worker does each second
        began = time.perf_counter()
        runs = await _claim(client.storage, worker_id, batch)
        took.append(time.perf_counter() - began)
        assert len(runs) == batch
        await _end(client.storage, runs)
    return took


async def _claim(storage: Storage, worker_id: int, batch: int) -> list[tuple[str, int]]:
    pairs = (("default", "trivial"), ("default", "waiting@1"))
    request = ClaimRequest(worker_id=worker_id, token=new_token(), pairs=pairs, limit=batch)
    return [(run.id, run.token) for run in (await storage.claim(request)).runs]


async def _end(storage: Storage, runs: list[tuple[str, int]]) -> None:
    move = End(status="completed", result="1")
    await storage.commit([Turn(run_id=run_id, token=token, seen=0, move=move) for run_id, token in runs])


@asynccontextmanager
async def _nothing(dsn: str, client: rq.Client, worker_id: int) -> AsyncIterator[None]:  # noqa: ARG001 - a scene
    yield


@asynccontextmanager
async def _parked(dsn: str, client: rq.Client, worker_id: int) -> AsyncIterator[None]:  # noqa: ARG001 - a scene
    await _filled(dsn, PARK)
    yield


@asynccontextmanager
async def _ready(dsn: str, client: rq.Client, worker_id: int) -> AsyncIterator[None]:  # noqa: ARG001 - a scene
    await _filled(dsn, QUEUE)
    yield


@asynccontextmanager
async def _held_open(dsn: str, client: rq.Client, worker_id: int) -> AsyncIterator[None]:
    """50,000 runs have gone through, and 20,000 timers, since a transaction began that is still open."""
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction(isolation="repeatable_read"):
            await connection.fetchval("select count(*) from runnerq.live")
            await _filled(dsn, TIME)
            while await client.storage.wake_due(500):
                pass
            await _drop_woken(dsn)
            for _ in range(THROUGH // 1000):
                await client.start_many(trivial, [(1,)] * 1000)
                while runs := await _claim(client.storage, worker_id, 500):
                    await _end(client.storage, runs)
            await asyncio.sleep(1.5)  # until the statistics know of it
            yield
    finally:
        await connection.close()


async def _drop_woken(dsn: str) -> None:
    """The runs of the timers are no part of this; their dead entries are."""
    await _filled(dsn, "delete from runnerq.live where served = 'waiting@1'", vacuum=False)


async def _filled(dsn: str, statement: str, *, vacuum: bool = True) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
        if vacuum:
            await connection.execute("vacuum (analyze) runnerq.live, runnerq.run")
    finally:
        await connection.close()


SCENES: dict[str, Scene] = {"nothing": _nothing, "parked": _parked, "ready": _ready, "open": _held_open}
