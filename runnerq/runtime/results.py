"""What an attempt is asked with, and what may come of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from runnerq.runtime.current import Current


class Call(msgspec.Struct, frozen=True):
    """What to run. ``timeout`` is seconds."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    is_async: bool
    timeout: float | None
    current: Current


class Returned(msgspec.Struct, frozen=True):
    """The function returned."""

    value: Any


class Raised(msgspec.Struct, frozen=True):
    """The function raised."""

    error: BaseException


class TimedOut(msgspec.Struct, frozen=True):
    """It took longer than its timeout; it may still go on."""


class Interrupted(msgspec.Struct, frozen=True):
    """It was cancelled before it had an answer; what it did is unknown."""


class NotBegun(msgspec.Struct, frozen=True):
    """Nothing was done: it still waited for a place when the worker stopped, or the lease may have run out."""


Result: TypeAlias = Returned | Raised | TimedOut | Interrupted | NotBegun
Ended: TypeAlias = Callable[[Result], None]

TIMED_OUT = TimedOut()
INTERRUPTED = Interrupted()
NOT_BEGUN = NotBegun()


class Running(Protocol):
    """An attempt that was started."""

    def cancel(self, reason: str | None = None) -> None:
        """Ask it to end; ``ended`` is told as ever. Harmless on one that has ended, and twice."""
        ...
