"""A worker for clients that have no event loop: in a thread of its own, as another process would have it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from runnerq.client.connect import connect
from runnerq.client.sync.client import SyncClient
from runnerq.runtime.worker import Worker
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.client.shop import checkout, mail

SOON = 20.0
"""Seconds after which what a test waits for is taken to be lost."""


@activity
async def explode() -> None:
    raise ValueError("as it must")


@workflow
def telling(ctx: Context) -> Flow[str]:
    yield ctx.publish(seen=1)
    return (yield from ctx.signal("go on"))


@contextmanager
def a_worker(dsn: str) -> Iterator[None]:
    """A worker in a thread and on an event loop of its own, as another process would have it."""
    begun, over = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        flows = [checkout, telling]
        async with connect(dsn) as client, Worker(client, workflows=flows, activities=[mail, explode], build="tests"):
            begun.set()
            await over.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert begun.wait(SOON)
    yield
    loops[0].call_soon_threadsafe(over.set)
    thread.join()


def cursor_of(client: SyncClient) -> str:
    """A place in what happens, behind which there is something."""
    events = client.events()
    with ThreadPoolExecutor() as threads:
        first = threads.submit(next, events)
        while not first.done():
            client.options(queue="unserved").start(mail, "x")
        cursor = first.result().cursor
    client.options(queue="unserved").start(mail, "x")
    return cursor
