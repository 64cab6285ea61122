"""PgQueuer: QueueManager over an asyncpg pool, batches of 100, its default durability."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.core.completion import CompletionWatcher
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.queries import Queries

from benchmarks.peers.side import main
from benchmarks.pickup import tell
from benchmarks.systems import told_to_go

BATCH = 100
POOL = 10
BULK = 1000


class Enqueuer:
    def __init__(self, queries: Queries, watcher: CompletionWatcher) -> None:
        self._queries = queries
        self._watcher = watcher

    async def one(self, name: str) -> Any:
        [job] = await self._queries.enqueue(name, b"1")
        return job

    async def many(self, name: str, count: int) -> None:
        for first in range(0, count, BULK):
            some = min(BULK, count - first)
            await self._queries.enqueue([name] * some, [b"1"] * some, [0] * some)

    async def result(self, run: Any) -> None:
        async with asyncio.timeout(60):
            await self._watcher.wait_for(run)


class PgQueuerSystem:
    name = "pgqueuer"
    module = "benchmarks.peers.pgqueuer"
    ended = "select count(*) from pgqueuer_log where status = 'successful'"
    workers = 1

    async def prepare(self, dsn: str) -> None:
        async with asyncpg.create_pool(dsn, min_size=1, max_size=2) as pool:
            await Queries(AsyncpgPoolDriver(pool)).install()

    @asynccontextmanager
    async def producer(self, dsn: str, connections: int) -> AsyncIterator[Enqueuer]:
        async with (
            asyncpg.create_pool(dsn, min_size=connections, max_size=connections + 2) as pool,
            AsyncpgPoolDriver(pool) as driver,
        ):
            queries = Queries(driver)
            async with CompletionWatcher(driver, queries=queries, debounce=timedelta(milliseconds=1)) as watcher:
                yield Enqueuer(queries, watcher)


async def work(dsn: str) -> None:
    async with asyncpg.create_pool(dsn, min_size=POOL, max_size=POOL) as pool:
        queuer = PgQueuer.from_asyncpg_pool(pool)

        @queuer.entrypoint("trivial")
        async def trivial(job: Any) -> None:
            del job

        @queuer.entrypoint("told")
        async def told(job: Any) -> None:
            del job
            tell()

        await told_to_go()
        await queuer.run(batch_size=BATCH)


if __name__ == "__main__":
    main(PgQueuerSystem(), work)
