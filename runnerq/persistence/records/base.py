"""What every record stands on: the names of kinds and states, and the numbers that backends agree on."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Literal

import msgspec

from runnerq.workflow.options import OnDuplicate

__all__ = [
    "CRASH_CAP", "DEFAULT_QUEUE", "HEAD_START", "MANY_CHILDREN", "Ended", "Kind", "OnDuplicate", "Priority", "Status",
    "Stored", "Struct",
]  # fmt: skip

Kind = Literal["workflow", "activity"]
Stored = Literal["pending", "running", "waiting", "blocked"]
Ended = Literal["completed", "failed", "dead_letter", "cancelled"]

DEFAULT_QUEUE = "default"
"""Where a run goes that nobody gave a queue."""

MANY_CHILDREN = 16
"""A park that waits for more children than this names none of them: any child's end counts then."""

CRASH_CAP = 5
"""Lost leases without an answer in between after which a run is dead-lettered as a crash loop."""


VISIBLY_GONE = 3.0
"""Seconds without a beat after which a worker whose beat's connection is visibly gone is taken for gone."""


def heard_within(lease: float) -> float:
    """Seconds within which a worker that is well is heard of: several beats. One that is not counts as silent."""
    return min(lease, max(VISIBLY_GONE, lease / 6))


class Status(StrEnum):
    """What a run is doing. The first four and the last four are stored; a pending run due later shows the other two."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    RETRYING = "retrying"
    COMPLETED = "completed"
    FAILED = "failed"
    DEAD_LETTER = "dead_letter"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether a run of this status has ended."""
        return self in _ENDED


_ENDED = frozenset({Status.COMPLETED, Status.FAILED, Status.DEAD_LETTER, Status.CANCELLED})


class Priority(IntEnum):
    """Who goes first: a head start in the queue of 1 h, 10 min, nothing, and -10 min."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3


HEAD_START = {0: 3600, 1: 600, 2: 0, 3: -600}
"""Seconds by priority; ``rank`` is the time a run became ready minus this. The SQL says the same, in a ``case``."""


class Struct(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A record. It holds texts, numbers and records, so it is in no cycle, and the collector need not look at it."""
