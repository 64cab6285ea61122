"""An event loop whose time jumps to the next timer when nothing else is left to do."""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Awaitable, Callable
from typing import Any


class _Jumping(selectors.DefaultSelector):
    """Looks at real events without waiting for any, and moves the loop's time instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("nothing will ever happen: every task waits for another, and there is no timer")
        events = super().select(0)
        if not events and timeout > 0:
            self.now += timeout
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """Begins at time 0. For tests without threads: nothing from outside the loop is waited for."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def in_virtual_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test on a loop of its own, in virtual time."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def whole() -> None:
            await test(*args, **kwargs)

        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(whole())

    return run


async def settle() -> None:
    """Let everything that is ready run, and what that makes ready; time stands still."""
    for _ in range(20):
        await asyncio.sleep(0)


async def until(true: Callable[[], bool]) -> None:
    """Let the loop turn, in real time, until something that a thread does is true."""
    while not true():
        await asyncio.sleep(0)
