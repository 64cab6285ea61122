"""Records of claims and mailboxes: what a run is handed to its holder with, and what comes for it meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from runnerq.persistence.records.base import Ended, Kind, Struct
from runnerq.persistence.records.limits import Limit
from runnerq.workflow.journal import Row


class ClaimRequest(Struct, frozen=True, kw_only=True):
    """``pairs`` are the (queue, served name) to claim from; ``held`` the parked runs whose generators this worker still
    has, with the token they were parked under. ``freed`` are the limits of runs that this worker held and does not hold
    any more: hints, which need not be complete; what waits for them is admitted a little earlier."""

    worker_id: int
    token: int
    pairs: tuple[tuple[str, str], ...]
    limit: int
    held: Mapping[str, int] = {}
    freed: tuple[Limit, ...] = ()


class Mail(msgspec.Struct, frozen=True, gc=False):
    """A signal in a run's mailbox. ``number`` is the inbox count it made: its order. ``trace`` is as it was sent."""

    id: int
    number: int
    at: datetime
    channel: str
    value: str | None
    trace: str | None = None


class Outcome(Struct, frozen=True, kw_only=True):
    """How a run ended. ``result`` and ``error`` (a Failure) are JSON text."""

    run_id: str
    status: Ended
    ended_at: datetime
    result: str | None = None
    error: str | None = None
    reason: str | None = None
    cancel_requested: bool = False


class Attempt(Struct, frozen=True, kw_only=True):
    """The last failed attempt at a step (or, with position ``""``, at an activity run). ``number`` counts the failures
    so far, ``next_at`` says when the next attempt is due, ``details`` are the last heartbeat details."""

    position: str
    number: int
    error: str | None
    at: datetime
    next_at: datetime | None
    details: str | None = None


class Claimed(Struct, frozen=True, kw_only=True):
    """One claimed run, with all that is needed to go on.

    ``seen`` is the inbox count of the very snapshot that read ``signals`` and ``outcomes``; ``resumed`` says that the
    run still carried the token given in ``held``, and then ``rows`` is empty. ``outcomes`` covers the children that the
    park named; what it did not name is read with ``inbox``. ``cancel`` is the reason of a requested cancel. ``faults``
    is how many times in a row the run was blocked by a fault of its worker. ``rank`` is when it became ready, less the
    head start of its priority.
    """

    id: str
    token: int
    kind: Kind
    name: str
    version: int
    queue: str
    priority: int
    input: str
    created_at: datetime
    root_id: str
    parent_id: str | None = None
    depth: int = 0
    key: str | None = None
    metadata: str | None = None
    options: str | None = None
    generation: int = 1
    crashes: int = 0
    faults: int = 0
    cancel: str | None = None
    seen: int = 0
    resumed: bool = False
    rows: tuple[Row, ...] = ()
    signals: tuple[Mail, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    state: str | None = None
    limit: Limit | None = None
    rank: datetime | None = None


class Claim(Struct, frozen=True, kw_only=True):
    """The reply to a claim. ``now`` is database time; ``next_due`` when the next delayed or waiting run is due, or a
    limit admits the next one. ``more`` says that something was left because others were at it: look again soon."""

    runs: tuple[Claimed, ...]
    now: datetime
    next_due: datetime | None
    more: bool = False


class NewSignal(Struct, frozen=True, kw_only=True):
    """A value to send. One ``dedup`` id counts once a run and channel. ``trace`` is the W3C traceparent of what it was
    sent in, if somebody keeps traces."""

    run_id: str
    channel: str
    value: str
    dedup: str | None = None
    trace: str | None = None


class Sent(StrEnum):
    """What became of a signal, a cancel or a termination."""

    SENT = "sent"
    DUPLICATE = "duplicate"
    FINISHED = "finished"
    UNKNOWN = "unknown"


class Changed(StrEnum):
    """What became of a change that somebody asked for. REFUSED: not in the state that the run is in."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Ask(Struct, frozen=True, kw_only=True):
    """Whose mailbox to read, and which children's ends to look for."""

    run_id: str
    children: tuple[str, ...] = ()


class Inbox(Struct, frozen=True, kw_only=True):
    """A held run's mailbox, all of one snapshot: ``seen`` is its inbox count, ``now`` its database time."""

    run_id: str
    seen: int
    now: datetime
    cancel: str | None = None
    signals: tuple[Mail, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
