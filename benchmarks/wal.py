"""W11, WAL: what a trivial activity run and a step write, with every shipped index, and without full page images."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

import runnerq as rq
from benchmarks.databases import Place, until
from benchmarks.ours import Ours, worker
from benchmarks.workflows import echo, echoes

RUNS = 2000
STEPS = 20
TEXT = "x" * 196
"""200 bytes as an argument, and as a result."""


async def w11_wal(place: Place) -> dict[str, Any]:
    """Bytes of WAL of a trivial activity run with 200 B in and out, and of a step with 200 B in its answer."""
    async with place.fresh() as dsn, _without_images(place.dsn), rq.connect(dsn) as client, worker(client):

        async def runs() -> None:
            wanted = await _ended(dsn) + RUNS
            await client.start_many(echo, [(TEXT,)] * RUNS)
            await until(dsn, Ours.ended, wanted)

        def steps(count: int) -> Callable[[], Awaitable[None]]:
            async def run() -> None:
                wanted = await _ended(dsn) + RUNS // STEPS
                await client.start_many(echoes, [(count,)] * (RUNS // STEPS))
                await until(dsn, Ours.ended, wanted)

            return run

        await runs()
        a_run = await _written(dsn, runs) / RUNS
        few, many = await _written(dsn, steps(STEPS)), await _written(dsn, steps(2 * STEPS))
    return {"run_bytes": round(a_run), "step_bytes": round((many - few) / RUNS)}


async def _ended(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        return int(await connection.fetchval(Ours.ended))
    finally:
        await connection.close()


async def _written(dsn: str, work: Callable[[], Awaitable[None]]) -> float:
    """Bytes of WAL of all that the server did meanwhile; beats and looks of the idle worker are a part of it."""
    connection = await asyncpg.connect(dsn)
    try:
        began = await connection.fetchval("select pg_current_wal_insert_lsn()")
        await work()
        return float(await connection.fetchval("select pg_current_wal_insert_lsn() - $1::pg_lsn", began))
    finally:
        await connection.close()


@asynccontextmanager
async def _without_images(dsn: str) -> AsyncIterator[None]:
    """full_page_writes off for the whole server, for a while: it must be one that nobody else needs."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("alter system set full_page_writes = off")
        await connection.execute("select pg_reload_conf()")
        yield
    finally:
        await connection.execute("alter system reset full_page_writes")
        await connection.execute("select pg_reload_conf()")
        await connection.close()
