"""DBOS Transact: with a queue and a worker process in W2; elsewhere in the producer's own process, its quickest way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from dbos import DBOS, DBOSClient

from benchmarks.peers.side import main
from benchmarks.pickup import tell
from benchmarks.systems import for_ever, told_to_go

POOL = 8
THREADS = 4
POLL = 0.05
STEPS = 20
AT_ONCE = 16
QUEUE = "bench"


@DBOS.step()
async def nothing(i: int) -> int:
    return i


@DBOS.step()
async def telling(i: int) -> int:
    tell()
    return i


@DBOS.workflow()
async def trivial(i: int) -> int:
    return i


@DBOS.workflow()
async def told(i: int) -> int:
    return await telling(i)


@DBOS.workflow()
async def steps(count: int) -> int:
    return sum([await nothing(i) for i in range(count)])


@DBOS.workflow()
async def parent(children: int) -> int:
    handles = await asyncio.gather(*(DBOS.start_workflow_async(trivial, i) for i in range(children)))
    return sum(await asyncio.gather(*(handle.get_result() for handle in handles)))


NAMES = {"trivial": (trivial, 1), "told": (told, 1), "steps": (steps, STEPS)}


def _url(dsn: str) -> str:
    """As SQLAlchemy takes it: with a password."""
    parts = urlsplit(dsn)
    user, at, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user}{'' if ':' in user else ':none'}{at}{host}").geturl()


def _launch(dsn: str) -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": _url(dsn),
            "sys_db_pool_size": POOL,
            "max_executor_threads": THREADS,
            "log_level": "ERROR",
            "application_version": "1",
            "run_admin_server": False,
        }
    )
    DBOS.launch()


@asynccontextmanager
async def _launched(dsn: str) -> AsyncIterator[None]:
    await asyncio.to_thread(_launch, dsn)
    try:
        yield
    finally:
        DBOS.destroy()
        # It has shut the loop's threads down with its own.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())


class InProcess:
    """Starts workflows in the process that runs them."""

    async def one(self, name: str) -> Any:
        workflow, argument = NAMES[name]
        return await DBOS.start_workflow_async(workflow, argument)

    async def many(self, name: str, count: int) -> None:
        await asyncio.gather(*(self.one(name) for _ in range(count)))

    async def result(self, run: Any) -> None:
        await run.get_result()


class Enqueuer:
    """Puts workflows into a queue."""

    def __init__(self, client: DBOSClient) -> None:
        self._client = client

    async def one(self, name: str) -> Any:
        workflow, argument = NAMES[name]
        options: Any = {"queue_name": QUEUE, "workflow_name": workflow.__qualname__, "app_version": "1"}
        return await self._client.enqueue_async(options, argument)

    async def many(self, name: str, count: int) -> None:
        # It has no bulk call: as many at once as its pool is made for.
        numbers = iter(range(count))

        async def each() -> None:
            for _ in numbers:
                await self.one(name)

        await asyncio.gather(*(each() for _ in range(AT_ONCE)))

    async def result(self, run: Any) -> None:
        await run.get_result(polling_interval_sec=POLL)


class DbosInProcess:
    name = "dbos"
    module = "benchmarks.peers.dbos"
    ended = "select count(*) from dbos.workflow_status where status = 'SUCCESS'"
    workers = 0

    async def prepare(self, dsn: str) -> None:
        async with _launched(dsn):
            await asyncio.to_thread(DBOS.register_queue, QUEUE, polling_interval_sec=POLL)

    @asynccontextmanager
    async def producer(self, dsn: str, connections: int) -> AsyncIterator[Any]:  # noqa: ARG002 - has a pool
        async with _launched(dsn):
            yield InProcess()

    async def fan_out(self, producer: InProcess, children: int) -> None:  # noqa: ARG002 - it starts its own
        handle = await DBOS.start_workflow_async(parent, children)
        await handle.get_result()


class DbosQueue(DbosInProcess):
    workers = 1

    @asynccontextmanager
    async def producer(self, dsn: str, connections: int) -> AsyncIterator[Any]:
        client = DBOSClient(system_database_url=_url(dsn), system_database_pool_size=connections + 4)
        try:
            yield Enqueuer(client)
        finally:
            client.destroy()


async def work(dsn: str) -> None:
    await told_to_go()
    async with _launched(dsn):
        await for_ever()


if __name__ == "__main__":
    main(DbosInProcess(), work, {"W2": DbosQueue()})
