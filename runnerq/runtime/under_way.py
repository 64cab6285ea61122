"""An attempt that was started: in a task of its own, or in a thread. See ``attempts`` for the rules."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol

from runnerq.runtime.deadlines import Deadlines
from runnerq.runtime.results import INTERRUPTED, TIMED_OUT, Call, Ended, Interrupted, Raised, Result, TimedOut
from runnerq.runtime.threads import Lent
from runnerq.runtime.timers import Timer


class Owner(Protocol):
    """Who started it."""

    deadlines: Deadlines[InTask | InThread]

    def cut(self, attempt: InTask, why: TimedOut | Interrupted) -> None:
        """Have it end."""
        ...

    def cancel(self, attempt: InTask) -> None:
        """Cancel its task."""
        ...

    def lend(self, attempt: InThread) -> Lent[Any]:
        """Get it a thread."""
        ...

    def back(self, attempt: InThread, value: Any, error: BaseException | None) -> None:
        """Its function has returned."""
        ...

    def later(self, attempt: InThread, result: Result) -> None:
        """Tell its result, but not from within this call."""
        ...

    def tell(self, attempt: InTask | InThread, result: Result) -> None:
        """Tell its result, once."""
        ...


class InTask:
    """An async attempt."""

    __slots__ = ("_attempts", "call", "cut", "ended", "entered", "grace", "told")

    def __init__(self, attempts: Owner, call: Call, ended: Ended) -> None:
        self._attempts = attempts
        self.call = call
        self.ended = ended
        self.cut: TimedOut | Interrupted | None = None
        self.entered = False
        self.told = False
        self.grace: Timer | None = None
        if call.around is not None:
            call.around.bind(self)

    @property
    def is_cut(self) -> bool:
        return self.cut is not None

    def begins(self) -> None:
        current = self.call.current
        current.began = time.monotonic()
        self.rests()
        if current.timeout is not None:
            self._attempts.deadlines.keep(self, current.timeout)

    def rests(self) -> None:
        timeout = self.call.current.timeout
        if timeout is not None:
            self._attempts.deadlines.drop(self, timeout)

    def break_off(self) -> None:
        self._attempts.cancel(self)

    def cancelled_with(self, error: asyncio.CancelledError) -> Result:
        return Raised(error) if self.cut is None else self.cut

    def cancel(self, reason: str | None = None) -> None:
        self.call.current.cancelled = True
        self.call.current.cancel_reason = reason
        self._attempts.cut(self, INTERRUPTED)

    def timed_out(self) -> None:
        self.call.current.cancelled = True
        self.call.current.cancel_reason = "timeout"
        self._attempts.cut(self, TIMED_OUT)


class InThread:
    """A sync attempt."""

    __slots__ = ("_attempts", "_lent", "call", "cancelled", "ended", "told")

    def __init__(self, attempts: Owner, call: Call, ended: Ended) -> None:
        self._attempts = attempts
        self.call = call
        self.ended = ended
        self.cancelled = False
        self.told = False
        self._lent = attempts.lend(self)

    def returned(self, value: Any, error: BaseException | None) -> None:
        self._attempts.back(self, value, error)

    def cancel(self, reason: str | None = None) -> None:
        if self.cancelled or self.told:
            return
        self.cancelled = True
        self.call.current.cancel_reason = reason
        self.call.current.cancelled = True
        if not self._lent.started:
            self._lent.abandon()
            self._attempts.later(self, INTERRUPTED)

    def timed_out(self) -> None:
        self.call.current.cancel_reason = "timeout"
        self.call.current.cancelled = True
        self._lent.abandon()
        self._attempts.tell(self, TIMED_OUT)
