"""The wake-ups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from runnerq.persistence.records import (
    Wake,
)


class Changes(Protocol):
    """Wake-ups: hints that arrive soon, and may be lost. Polling is the truth."""

    def subscribe(self, hear: Callable[[Wake], None]) -> Callable[[], None]:
        """Call ``hear`` on the event loop for each wake, this storage object's own and other processes'; returns what
        ends it. ``hear`` must not block or raise."""
        ...
