"""What runs in a peer's venv: a worker process of it, or a workload's measurement."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import uvloop

from benchmarks.databases import place_of
from benchmarks.measures import MEASURES
from benchmarks.systems import System, works


def main(system: System, work: Callable[[str], Awaitable[None]], others: Mapping[str, System] | None = None) -> None:
    """Do what the command line says; ``others`` are what the system is in workloads where it is another one."""
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    if sys.argv[1] != "measure":
        works(work)
        return
    _, _, workload, dsn = sys.argv
    print(json.dumps(asyncio.run(_measured(workload, dsn, (others or {}).get(workload, system)))), flush=True)


@asynccontextmanager
async def asking(dsn: str, query: str) -> AsyncIterator[Callable[[Any], Awaitable[None]]]:
    """For a system that has no way to wait for a run: ask the database each millisecond, on one connection."""
    connection = await asyncpg.connect(dsn)
    statement = await connection.prepare(query)

    async def ended(run: Any) -> None:
        async with asyncio.timeout(60):
            while True:
                if await statement.fetchval(run):
                    return
                await asyncio.sleep(0.001)

    try:
        yield ended
    finally:
        await connection.close()


async def _measured(workload: str, dsn: str, system: System) -> dict[str, Any]:
    return await MEASURES[workload](await place_of(dsn), system)
