"""What time it is: the machine's, or a test's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Whoever needs the time takes it from one of these, so that a test can set it."""

    def now(self) -> datetime:
        """The time, aware and in UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class ManualClock:
    """A clock that stands still until it is moved. May be read from any thread."""

    def __init__(self, start: datetime = datetime(2025, 1, 1, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def advance(self, by: float | timedelta) -> datetime:
        """Move on by so many seconds, or so long; the new time."""
        self._now += by if isinstance(by, timedelta) else timedelta(seconds=by)
        return self._now
