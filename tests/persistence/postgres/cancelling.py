"""Cancels a coroutine at a place of one's choice: each of its waits is one."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from enum import Enum, auto
from typing import Any


class When(Enum):
    """Relative to one wait of a coroutine."""

    IT_WAITS = auto()
    IT_IS_ANSWERED = auto()
    """The cancel and the answer come together."""
    IT_WAITS_AND_EVER_AFTER = auto()
    """What it waits for as it cleans up is cancelled as well."""


async def cancelled(work: Coroutine[Any, Any, object], wait: int, when: When) -> bool:
    """Carry it out in a task of its own, which is cancelled at its n-th wait. False: it had ended by then."""
    reached: list[int] = []

    async def carried_out() -> None:
        await _awaited(work, wait, when, reached)

    task = asyncio.create_task(carried_out())
    try:
        await task
    except asyncio.CancelledError:
        assert reached
    return bool(reached)


@types.coroutine
def _awaited(work: Coroutine[Any, Any, object], wait: int, when: When, reached: list[int]) -> Generator[Any, Any, None]:
    task = asyncio.current_task()
    assert task is not None
    waits = 0
    error: BaseException | None = None
    while True:
        try:
            # Passed on as it is: a task that is cancelled cancels what it waits for.
            waited_for = work.send(None) if error is None else work.throw(error)
        except StopIteration:
            return
        error = None
        if waits == wait or (waits > wait and when is When.IT_WAITS_AND_EVER_AFTER):
            reached.append(waits)
            if when is When.IT_IS_ANSWERED and waited_for is not None:
                # Before the task itself hears of it.
                waited_for.add_done_callback(lambda _: task.cancel())
            else:
                task.cancel()
        waits += 1
        try:
            yield waited_for
        except BaseException as thrown:
            error = thrown
