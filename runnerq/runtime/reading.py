"""A worker's reading of database time: what the last reply said, and the monotonic clock since.

A reply is older than its arrival, so the reading lags behind the database by that much and never runs ahead of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

LAST = datetime.max.replace(tzinfo=UTC)
SLACK = 0.001
"""Seconds added to a due time: the database's clock decides, and looking early costs a look."""


def later(when: datetime, seconds: float) -> datetime:
    """So many seconds later; the last time there is, if that is beyond it."""
    try:
        return when + timedelta(seconds=seconds)
    except OverflowError:
        return LAST


class DatabaseTime:
    """``now()`` in database time."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._base: datetime | None = None
        self._since = 0.0

    def sync(self, now: datetime) -> None:
        """Take the time of a reply."""
        self._base = now
        self._since = self._monotonic()

    def now(self) -> datetime:
        if self._base is None:
            raise AssertionError("database time was read before any reply was had")
        # timedelta(seconds=...) takes three times as long, and this is read for every answer.
        return self._base + timedelta(0, 0, int((self._monotonic() - self._since) * 1_000_000))

    def until(self, when: datetime) -> float:
        """Seconds until then, at least 0."""
        return max(0.0, (when - self.now()).total_seconds())

    def past(self, when: datetime) -> float:
        """Seconds until it is over by the database's clock, too."""
        return self.until(when) + SLACK
