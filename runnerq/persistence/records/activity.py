"""What was done when, and what went wrong alike: the forms of charts and of lists of failures.

Rules, the same for every backend
- A duration is counted in one of ``BUCKETS`` slots, each reaching ``STEP`` times as far as the one before it; a
  percentile is read from these counts, and is right to within a slot, from below in the last one: it is never longer
  than what was counted.
- Two failures are alike if their type and message are, with every word that has a digit in it put as ``#``: ids,
  numbers and times are told apart by nobody. See ``fingerprint``.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from datetime import datetime

import msgspec

from runnerq.persistence.records.base import Status, Struct
from runnerq.persistence.records.reads import RunFilter

FAILED = (Status.FAILED, Status.DEAD_LETTER)

BUCKETS = 64
SHORTEST = 0.001
"""Seconds up to which a duration is in the first slot."""
STEP: float = math.sqrt(2)

SAMPLED = 1_000
"""Characters of a message that are looked at to tell what it is."""
TOLD_APART = 200
"""Characters of a message by which two are told apart."""

MOST_GROUPS = 200
"""Groups of failures that are told of."""

_WITH_DIGIT = re.compile(r"[A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*")


class FailureGroup(Struct, frozen=True, kw_only=True):
    """Runs of one name and status whose failures are alike. ``error`` is that of the newest one, ``sample_id``; None
    where it ended without. Times are those of ends. Sealed errors are all alike: what they hold is not seen."""

    name: str
    status: Status
    fingerprint: str
    count: int
    first_at: datetime
    last_at: datetime
    sample_id: str
    error: str | None = None
    reason: str | None = None


class Failures(Struct, frozen=True, kw_only=True):
    """The groups, the largest first. ``capped`` says that only the newest runs, or the largest groups, are in it."""

    groups: tuple[FailureGroup, ...]
    capped: bool = False


class Activity(Struct, frozen=True, kw_only=True):
    """What happened in a span of time that begins ``at``: runs that were started, and that ended, by how.

    ``name`` is whose, None: of all. ``durations`` counts the ends by the time since the run was first taken up.
    """

    at: datetime
    name: str | None = None
    started: int = 0
    completed: int = 0
    failed: int = 0
    dead_letter: int = 0
    cancelled: int = 0
    durations: tuple[int, ...] = ()


def failed_ones(where: RunFilter) -> RunFilter:
    """Of what fits, that which failed or is a dead letter."""
    given = (where.status,) if isinstance(where.status, str) else where.status
    return msgspec.structs.replace(where, status=tuple(status for status in FAILED if given is None or status in given))


def bucket_of(seconds: float) -> int:
    """The slot that a duration is counted in, from 0."""
    if seconds <= SHORTEST:
        return 0
    return min(BUCKETS - 1, math.ceil(math.log(seconds / SHORTEST, STEP)))


def percentile(durations: Sequence[int], share: float) -> float | None:
    """Seconds within which about this share of what was counted ended, never more than the longest of it took; None if
    nothing was."""
    wanted = sum(durations) * share
    if not wanted:
        return None
    # Where in its slot the longest one lies is not known: it took as long as the slot begins at least.
    last = max(slot for slot, count in enumerate(durations) if count)
    longest = SHORTEST * math.pow(STEP, last - 1) if last else 0.0
    seen = 0.0
    for slot, count in enumerate(durations):
        if count and seen + count >= wanted:
            # Within a slot by its share, on the scale that slots are cut by.
            return min(longest, SHORTEST * math.pow(STEP, slot - 1 + (wanted - seen) / count))
        seen += count
    return longest


def fingerprint(error: str | None, reason: str | None) -> str:
    """What failures that are alike share. The SQL function of this name says the same."""
    # An escaped quote is put as another one, so that the next quote ends a text.
    text = "" if error is None else error.replace('\\"', "'")
    message = (_said(text, "message") or reason or "")[:SAMPLED]
    alike = _WITH_DIGIT.sub("#", message)[:TOLD_APART]
    return hashlib.sha256(f"{_said(text, 'type')}\n{alike}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _said(text: str, field: str) -> str:
    """What stands first under this name; nothing if that is no text."""
    _, _, behind = text.partition(f'"{field}"')
    return behind.split('"', 2)[1] if '"' in behind else ""
