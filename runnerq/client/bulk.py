"""Many starts, a few commits at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


async def in_order(parts: Iterable[T], do: Callable[[T], Awaitable[list[U]]], *, at_once: int) -> list[U]:
    """What ``do`` answers for each part, all in order, ``at_once`` of them under way.

    A part is made when its turn comes. The first error ends it: what is under way is cut off, done or not.
    """
    answers: list[U] = []
    under_way: deque[asyncio.Task[list[U]]] = deque()

    async def doing(part: T) -> list[U]:
        return await do(part)

    try:
        async with asyncio.TaskGroup() as group:
            for part in parts:
                if len(under_way) == at_once:
                    answers += await under_way.popleft()
                under_way.append(group.create_task(doing(part)))
        for last in under_way:
            answers += last.result()
    except BaseExceptionGroup as errors:
        error = errors.exceptions[0]
    else:
        return answers
    # Out here it keeps the cause that it came with, and gets no other.
    raise error
