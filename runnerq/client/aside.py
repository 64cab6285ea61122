"""Work that takes long, done where it does not hold up the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from runnerq.workflow.journal import Row

T = TypeVar("T")

SHORT = 50_000
"""Characters of a journal that are gone through in less time than anybody notices."""


async def aside(size: int, work: Callable[[], T]) -> T:
    """What the work answers, which goes through so many characters of a journal: if these are many, in a thread. The
    loop is that of somebody's app, and of the heartbeats of its worker."""
    return work() if size <= SHORT else await asyncio.to_thread(work)


def size_of(rows: Iterable[Row]) -> int:
    """The characters of these rows, about."""
    # One row may hold thousands of commands, and thousands of rows nothing but when.
    return sum(100 + len(row.value or "") + len(row.asked or "") for row in rows)
