"""What an attempt is asked with, and what may come of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from runnerq.runtime.current import Current


class Bound(Protocol):
    """An async attempt, for what is done around its function: that begins and ends more than once, perhaps.

    Its timeout counts from each begin of the function, until it ``rests``.
    """

    call: Call

    @property
    def is_cut(self) -> bool:
        """Whether somebody has asked it to end."""
        ...

    def begins(self) -> None:
        """The function is being called."""
        ...

    def rests(self) -> None:
        """It is not, for now."""
        ...

    def break_off(self) -> None:
        """Cancel what it waits for, though nobody has asked it to end."""
        ...


class Around(Protocol):
    """What is done around an async function. It gets its attempt before anything else.

    What ``run`` returns is the attempt's result, whatever it was asked meanwhile.
    """

    def bind(self, bound: Bound) -> None: ...

    @property
    def may_be_cut(self) -> bool:
        """Whether it is to be cancelled now that somebody has asked it to end. If not, it sees to that itself."""
        ...

    async def run(self) -> Any: ...

    def abandon(self) -> None:
        """It was cut off, and has not ended in its grace."""
        ...


class Call(msgspec.Struct, frozen=True):
    """What to run. ``timeout`` is seconds; None where ``around`` sees to it."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    is_async: bool
    timeout: float | None
    current: Current
    around: Around | None = None


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


class AttemptStats(msgspec.Struct, frozen=True, kw_only=True):
    """``stuck`` are given up or timed out and still go on; ``late`` counts those that came back after that."""

    running: int
    waiting: int
    threads: int
    stuck: int
    late: int


class AttemptListener(Protocol):
    """Hears of attempts. Neither MUST raise. Whatever has begun ends, once; what has not may end all the same."""

    def began(self, call: Call) -> None:
        """The function is about to be called: told on the event loop, in the very context that it will have."""
        ...

    def ended(self, call: Call, result: Result) -> None:
        """This came of it."""
        ...
