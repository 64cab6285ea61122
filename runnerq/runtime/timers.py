"""Timers as the runtime uses them. An event loop has them; the testing kit has others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    """A call that is to come."""

    def cancel(self) -> None:
        """It is not to come; harmless once it has."""
        ...


class Timers(Protocol):
    """Seconds, by a clock of their own, and calls at a time. An ``asyncio`` event loop is one of these."""

    def time(self) -> float: ...

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer: ...

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Timer: ...


async def pause(timers: Timers, seconds: float) -> None:
    """Return after so many seconds by these timers."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = timers.call_later(seconds, _end, over)
    try:
        await over
    finally:
        timer.cancel()


def _end(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)
