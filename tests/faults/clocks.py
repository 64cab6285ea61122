"""A process whose clock is off: every reading of wall time that runnerq and its libraries make is shifted.

The runtime counts seconds by the monotonic clock, which no fault of a machine's clock moves; wall time goes into run
ids and, without a database, into ``SystemClock``.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from runnerq import ids
from runnerq.clock import SystemClock

_SECOND = 1_000_000_000
_true_time, _true_time_ns, _true_now = time.time, time.time_ns, SystemClock.now


def put_off(seconds: float) -> None:
    """From now on this process's clock is so many seconds ahead; behind, if negative."""
    by = timedelta(seconds=seconds)

    def shifted_ns() -> int:
        return _true_time_ns() + int(seconds * _SECOND)

    def now(clock: SystemClock) -> datetime:
        return _true_now(clock) + by

    # What is assigned over is the fault itself, whatever a type checker says to that.
    for owner, name, shifted in (
        (time, "time", lambda: _true_time() + seconds),
        (time, "time_ns", shifted_ns),
        (ids, "time_ns", shifted_ns),
        (SystemClock, "now", now),
    ):
        setattr(owner, name, shifted)
