"""Procrastinate: one process of 50 tasks at once, a psycopg pool, LISTEN and NOTIFY."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from procrastinate import App, PsycopgConnector

from benchmarks.peers.side import asking, main
from benchmarks.pickup import tell
from benchmarks.systems import told_to_go

CONCURRENCY = 50
POOL = 20
DONE = "select count(*) from procrastinate_jobs where status = 'succeeded'"


def an_app(dsn: str, connections: int) -> App:
    app = App(connector=PsycopgConnector(conninfo=dsn, min_size=connections, max_size=connections))

    @app.task(name="trivial", queue="bench")
    async def trivial(n: int) -> int:
        return n

    @app.task(name="told", queue="bench")
    async def told(n: int) -> None:
        del n
        tell()

    return app


class Deferrer:
    def __init__(self, app: App, ended: Callable[[Any], Awaitable[None]]) -> None:
        self._app = app
        self._ended = ended

    async def one(self, name: str) -> Any:
        return await self._app.tasks[name].defer_async(n=1)

    async def many(self, name: str, count: int) -> None:
        for first in range(0, count, 1000):
            await self._app.tasks[name].batch_defer_async(*[{"n": i} for i in range(min(1000, count - first))])

    async def result(self, run: Any) -> None:
        await self._ended(run)


class ProcrastinateSystem:
    name = "procrastinate"
    module = "benchmarks.peers.procrastinate"
    ended = DONE
    workers = 1

    async def prepare(self, dsn: str) -> None:
        async with an_app(dsn, 2).open_async() as app:
            await app.schema_manager.apply_schema_async()

    @asynccontextmanager
    async def producer(self, dsn: str, connections: int) -> AsyncIterator[Deferrer]:
        async with an_app(dsn, connections).open_async() as app, asking(dsn, f"{DONE} and id = $1") as ended:
            yield Deferrer(app, ended)


async def work(dsn: str) -> None:
    logging.disable(logging.WARNING)
    async with an_app(dsn, POOL).open_async() as app:
        await told_to_go()
        await app.run_worker_async(queues=["bench"], concurrency=CONCURRENCY, install_signal_handlers=False)


if __name__ == "__main__":
    main(ProcrastinateSystem(), work)
