"""Timers that no real time moves.

Rules
- ``VirtualTimers`` go by the test's clock: what has come due is called when that clock was moved.
- ``Looks`` are for what is looked at again and again: all of it is looked at when ``ring`` is called, and never by
  itself. A month's sleep would else be a million looks.
- A callback comes from the event loop, never from within the call that let it come.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from runnerq.clock import ManualClock


class Call:
    """A call that is to come."""

    __slots__ = ("args", "callback", "over", "when")

    def __init__(self, when: float, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.when = when
        self.callback = callback
        self.args = args
        self.over = False

    def cancel(self) -> None:
        self.over = True


class _Kept:
    """Calls in the order of their times, and as they were made where these are equal."""

    def __init__(self) -> None:
        self._calls: list[tuple[float, int, Call]] = []
        self._number = count()

    def keep(self, call: Call) -> Call:
        heapq.heappush(self._calls, (call.when, next(self._number), call))
        return call

    def next(self) -> float | None:
        while self._calls and self._calls[0][2].over:
            heapq.heappop(self._calls)
        return self._calls[0][0] if self._calls else None

    def take(self, until: float) -> list[Call]:
        taken = []
        while (when := self.next()) is not None and when <= until:
            taken.append(heapq.heappop(self._calls)[2])
        return taken


class VirtualTimers:
    """Timers by a clock that stands still until it is moved."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._start = clock.now()
        self._kept = _Kept()

    def time(self) -> float:
        return (self._clock.now() - self._start).total_seconds()

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Call:
        call = Call(self.time() + delay, callback, args)
        if delay <= 0:
            asyncio.get_running_loop().call_soon(_come, call)
            return call
        return self._kept.keep(call)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Call:
        return self.call_later(when - self.time(), callback, *args)

    def next_due(self) -> datetime | None:
        """When the next call is to come."""
        when = self._kept.next()
        return None if when is None else self._start + timedelta(seconds=when)

    def fire(self) -> None:
        """Let come what is due by now."""
        loop = asyncio.get_running_loop()
        # Whole microseconds are what a date can hold: a call a fraction of one ahead is due.
        for call in self._kept.take(self.time() + 1e-6):
            loop.call_soon(_come, call)


class Looks:
    """Timers for what is looked at again and again: nothing comes before it is rung for."""

    def __init__(self) -> None:
        self._now = 0.0
        self._kept = _Kept()

    def time(self) -> float:
        return self._now

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Call:
        call = Call(self._now + delay, callback, args)
        if delay <= 0:
            asyncio.get_running_loop().call_soon(_come, call)
            return call
        return self._kept.keep(call)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Call:
        return self.call_later(when - self._now, callback, *args)

    def ring(self) -> None:
        """Let everything come that is kept now; by their own time, all of it has fallen due."""
        loop = asyncio.get_running_loop()
        for call in self._kept.take(float("inf")):
            self._now = max(self._now, call.when)
            loop.call_soon(_come, call)


def _come(call: Call) -> None:
    if not call.over:
        call.over = True
        call.callback(*call.args)
