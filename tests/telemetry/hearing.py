"""What the tests of telemetry stand on: a listener that keeps what it hears, and a client and worker that it hears."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from runnerq.client.client import Client
from runnerq.persistence.memory import MemoryStorage
from runnerq.runtime.worker import Worker
from runnerq.telemetry.events import Event
from runnerq.telemetry.listeners import Listener
from runnerq.workflow.declare import WorkflowDeclaration, declaration_of

E = TypeVar("E", bound=Event)

SOON = 20.0
"""Seconds after which what a test waits for is taken to be lost."""


class Ear:
    """Keeps what it hears; a test waits for what it has not heard yet."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._heard = asyncio.Event()

    def hear(self, event: Event) -> None:
        self.events.append(event)
        self._heard.set()

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, kind: type[E], fits: Callable[[E], bool] = lambda _: True) -> E:
        """The first event of this kind that fits."""
        async with asyncio.timeout(SOON):
            while not (found := [event for event in self.of(kind) if fits(event)]):
                self._heard.clear()
                await self._heard.wait()
        return found[0]


def worker_of(client: Client, functions: Iterable[Callable[..., Any]], **options: Any) -> Worker:
    """A worker that polls once a minute: what is not woken by an event is late."""
    functions = list(functions)
    flows = [fn for fn in functions if isinstance(declaration_of(fn), WorkflowDeclaration)]
    usual: dict[str, Any] = {"poll_interval": 60, "beat": 0.1, "shutdown_grace": 5, "build": "tests"}
    return Worker(client, workflows=flows, activities=[fn for fn in functions if fn not in flows], **usual | options)


@asynccontextmanager
async def heard(*functions: Callable[..., Any], listeners: Sequence[Listener], **options: Any) -> AsyncIterator[Client]:
    """A client in memory with a worker of these, both heard."""
    async with Client(MemoryStorage(), listeners=listeners) as client, worker_of(client, functions, **options):
        yield client
