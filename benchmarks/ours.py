"""runnerq as a system that is measured. ``python -m benchmarks.ours DSN`` is its worker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import runnerq as rq
from benchmarks.systems import for_ever, told_to_go, works
from benchmarks.workflows import child, echo, echoes, entries, parent, steps, told, trivial, waiting
from runnerq.runtime.collector import look_less_often

SLOTS = 500
QUEUE_SLOTS = 2000
"""Of a worker for short runs: while some are claimed others are written, each in batches of hundreds."""
STEPS = 20


class OurProducer:
    """Starts runs through a client."""

    def __init__(self, client: rq.Client) -> None:
        self.client = client

    async def one(self, name: str) -> Any:
        match name:
            case "trivial":
                return await self.client.start(trivial, 1)
            case "told":
                return await self.client.start(told, 1)
            case _:
                return await self.client.start(steps, STEPS)

    async def many(self, name: str, count: int) -> None:
        if name == "trivial":
            await self.client.start_many(trivial, [(i,) for i in range(count)])
        else:
            await self.client.start_many(steps, [(STEPS,)] * count)

    async def result(self, run: Any) -> None:
        await run.result(timeout=60)


class Ours:
    name = "runnerq"
    module = "benchmarks.ours"
    ended = "select count(*) from runnerq.outcome"
    workers = 1

    async def prepare(self, dsn: str) -> None:
        async with rq.connect(dsn):
            pass

    @asynccontextmanager
    async def producer(self, dsn: str, connections: int) -> AsyncIterator[OurProducer]:  # noqa: ARG002 - has a pool
        async with rq.connect(dsn, migrate=False) as client:
            yield OurProducer(client)

    async def fan_out(self, producer: OurProducer, children: int) -> None:
        run = await producer.client.start(parent, children)
        await run.result(timeout=120)


@asynccontextmanager
async def worker(client: rq.Client, slots: int = SLOTS) -> AsyncIterator[rq.Worker]:
    """A worker in this process, of everything that is measured."""
    async with rq.Worker(
        client,
        workflows=[steps, told, parent, waiting, entries, echoes],
        activities=[trivial, child, echo],
        max_workers=slots,
        max_steps=slots,
    ) as working:
        yield working


async def work(dsn: str) -> None:
    look_less_often()  # as `runnerq worker` does
    async with rq.connect(dsn, migrate=False) as client:
        await told_to_go()
        async with worker(client, QUEUE_SLOTS):
            await for_ever()


if __name__ == "__main__":
    works(work)
