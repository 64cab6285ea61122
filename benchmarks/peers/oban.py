"""Oban for Python: one process, a queue of 100, a psycopg pool, its Postgres notifier."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from oban import Oban, worker
from oban.schema import install

from benchmarks.peers.side import asking, main
from benchmarks.pickup import tell
from benchmarks.systems import for_ever, told_to_go

CONCURRENCY = 100
POOL = 10
ENDED = "select count(*) from oban_jobs where state = 'completed'"


@worker(queue="bench")
class Trivial:
    async def process(self, job: Any) -> None:
        del job


@worker(queue="bench")
class Told:
    async def process(self, job: Any) -> None:
        del job
        tell()


NAMES = {"trivial": Trivial, "told": Told}


class Enqueuer:
    def __init__(self, oban: Oban, ended: Callable[[Any], Awaitable[None]]) -> None:
        self._oban = oban
        self._ended = ended

    async def one(self, name: str) -> Any:
        return (await self._oban.enqueue(NAMES[name].new({"n": 1}))).id

    async def many(self, name: str, count: int) -> None:
        for first in range(0, count, 1000):
            await self._oban.enqueue_many([NAMES[name].new({"n": i}) for i in range(min(1000, count - first))])

    async def result(self, run: Any) -> None:
        await self._ended(run)


class ObanSystem:
    name = "oban"
    module = "benchmarks.peers.oban"
    ended = ENDED
    workers = 1

    async def prepare(self, dsn: str) -> None:
        pool = await Oban.create_pool(dsn, min_size=1, max_size=2)
        await install(pool)
        await pool.close()

    @asynccontextmanager
    async def producer(self, dsn: str, connections: int) -> AsyncIterator[Enqueuer]:
        pool = await Oban.create_pool(dsn, min_size=connections + 1, max_size=connections + 1)
        oban = Oban(pool=pool, name=f"producer{connections}")
        await oban.start()
        try:
            async with asking(dsn, f"{ENDED} and id = $1") as ended:
                yield Enqueuer(oban, ended)
        finally:
            await oban.stop()
            await pool.close()


async def work(dsn: str) -> None:
    pool = await Oban.create_pool(dsn, min_size=POOL, max_size=POOL)
    oban = Oban(pool=pool, queues={"bench": CONCURRENCY})
    await told_to_go()
    await oban.start()
    await for_ever()


if __name__ == "__main__":
    main(ObanSystem(), work)
