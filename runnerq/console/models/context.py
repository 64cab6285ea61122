"""What every read and every action is given: whose client it is, who asks, and what they may see."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Concatenate, ParamSpec, TypeVar

import msgspec

from runnerq.client import aside
from runnerq.client.client import Client
from runnerq.client.patience import patience
from runnerq.console.access import Principal
from runnerq.console.models.batches import Batches
from runnerq.console.models.cache import Cache
from runnerq.console.models.paging import Cursors
from runnerq.console.models.redaction import Redactor, mask

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE = 5.0
"""Seconds for one read: what takes longer is given up, on the server too."""


class Context(msgspec.Struct, frozen=True):
    """One request's. The console makes one for each; ``cursors``, ``cache`` and ``batches`` are the console's own.

    ``zone`` is the name of the time zone in which times without one are meant.
    """

    client: Client
    principal: Principal
    cursors: Cursors
    cache: Cache
    batches: Batches
    redact: Redactor = mask
    zone: str = "UTC"

    async def now(self) -> datetime:
        """Database time."""
        return await self.client.storage.now()

    async def aside(self, size: int, work: Callable[[], T]) -> T:
        """What the work answers, which goes through so many characters of a journal: if these are many, in a thread."""
        return work() if size <= aside.SHORT else await self.in_thread(work)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """What the work answers, done without holding up the event loop; one at a time."""
        async with self.cache.turn:
            return await asyncio.to_thread(work)


def bounded(read: Callable[Concatenate[Context, P], Awaitable[T]]) -> Callable[Concatenate[Context, P], Awaitable[T]]:
    """The read, given up with ReadTimeout where it takes longer than anybody should wait for a page."""

    @functools.wraps(read)
    async def within(context: Context, /, *args: P.args, **kwargs: P.kwargs) -> T:
        async with patience(PATIENCE):
            return await read(context, *args, **kwargs)

    return within
