"""What crosses the storage protocol: frozen records of ids, times, numbers and JSON text. No user types, no functions.

Rules
- A run id is UUIDv7 text. A token is a random positive 63-bit integer made by the worker for each claim.
- Times are aware UTC datetimes of the database's clock, kept to the microsecond.
- Payloads are JSON text; a payload of ``None`` is the text ``null``, a missing one is ``None``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Literal, TypeAlias

import msgspec

from runnerq.workflow.journal import Row

Kind = Literal["workflow", "activity"]
Stored = Literal["pending", "running", "waiting", "blocked"]
Ended = Literal["completed", "failed", "dead_letter", "cancelled"]
OnDuplicate = Literal["return_existing", "no_reuse", "allow_reuse", "allow_reuse_on_failure"]

DEFAULT_QUEUE = "default"
"""Where a run goes that nobody gave a queue."""

MANY_CHILDREN = 16
"""A park that waits for more children than this names none of them: any child's end counts then."""

CRASH_CAP = 5
"""Lost leases without an answer in between after which a run is dead-lettered as a crash loop."""


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


# --- starting ---------------------------------------------------------------------------------------------------------


class NewRun(Struct, frozen=True, kw_only=True):
    """A run to create. ``input`` and ``options`` are JSON objects' text; ``metadata`` too.

    ``due_at`` (database time) or ``due_in`` (seconds from the commit) delay it. A child names its parent and the
    position in the parent's journal that asked for it.
    """

    id: str
    kind: Kind
    name: str
    version: int
    queue: str
    input: str
    priority: int = 2
    root_id: str | None = None
    parent_id: str | None = None
    parent_position: str | None = None
    depth: int = 0
    key: str | None = None
    on_duplicate: OnDuplicate = "return_existing"
    due_at: datetime | None = None
    due_in: float | None = None
    metadata: str | None = None
    options: str | None = None

    @property
    def served(self) -> str:
        return served_name(self.kind, self.name, self.version)


def served_name(kind: Kind, name: str, version: int) -> str:
    """What a worker claims by: ``name@version`` for a workflow, the bare name for an activity."""
    return f"{name}@{version}" if kind == "workflow" else name


class StartReply(Struct, frozen=True, kw_only=True):
    """What became of one NewRun. ``id`` is the run that stands for it: the new one, or the holder of its key."""

    id: str
    created: bool
    refused: bool = False


# --- claiming ---------------------------------------------------------------------------------------------------------


class ClaimRequest(Struct, frozen=True, kw_only=True):
    """``pairs`` are the (queue, served name) to claim from; ``held`` the parked runs whose generators this worker still
    has, with the token they were parked under."""

    worker_id: int
    token: int
    pairs: tuple[tuple[str, str], ...]
    limit: int
    held: Mapping[str, int] = {}


class Mail(msgspec.Struct, frozen=True, gc=False):
    """A signal in a run's mailbox. ``number`` is the inbox count it made: its order."""

    id: int
    number: int
    at: datetime
    channel: str
    value: str | None


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
    park named; what it did not name is read with ``inbox``. ``cancel`` is the reason of a requested cancel.
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
    cancel: str | None = None
    seen: int = 0
    resumed: bool = False
    rows: tuple[Row, ...] = ()
    signals: tuple[Mail, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    state: str | None = None


class Claim(Struct, frozen=True, kw_only=True):
    """The reply to a claim. ``now`` is database time; ``next_due`` when the next delayed or waiting run is due."""

    runs: tuple[Claimed, ...]
    now: datetime
    next_due: datetime | None


# --- turns ------------------------------------------------------------------------------------------------------------


class Going(Struct, frozen=True, tag=True):
    """The run goes on under this token."""


class Park(Struct, frozen=True, kw_only=True, tag=True):
    """The run waits, with no live task. It is woken by a signal of ``signals``; by ``needs`` ends of ``children`` (of
    any child, where None), at once by one that did not complete; by a cancel; and at ``due_at``."""

    due_at: datetime | None = None
    signals: tuple[str, ...] = ()
    children: tuple[str, ...] | None = ()
    needs: int = 1


class Back(Struct, frozen=True, kw_only=True, tag=True):
    """The run is given back to its queue, at once or at ``due_at``: an orderly stop, or an activity's next attempt."""

    due_at: datetime | None = None


class Stuck(Struct, frozen=True, kw_only=True, tag=True):
    """The run is blocked: nothing of it runs until a worker of another build, or a person, takes it up. ``build`` is
    the build that could not follow it, or None for a fault of the worker, which is tried again at ``retry_at``."""

    message: str
    build: str | None
    position: str | None = None
    recorded: str | None = None
    asked: str | None = None
    line: str | None = None
    traceback: str | None = None
    retry_at: datetime | None = None


class End(Struct, frozen=True, kw_only=True, tag=True):
    """The run ends. ``result`` and ``error`` are JSON text; a completed run has a result, ``null`` included."""

    status: Ended
    result: str | None = None
    error: str | None = None
    reason: str | None = None
    cancel_requested: bool = False


Move: TypeAlias = Going | Park | Back | Stuck | End
GOING = Going()


class Turn(Struct, frozen=True, kw_only=True):
    """One advance of a run, the unit that is written: whole, or not at all.

    ``seen`` is the inbox count up to which the worker has read; a park counts only if nothing has come since.
    ``consumed`` are the ids of the signals it took, ``attempts`` the failed attempts to keep, ``settled`` the positions
    whose attempts go away with their answer, ``published`` the run's whole visible state when it changed. ``recovered``
    says that an answer was recorded and the run's crashes count for nothing.
    """

    run_id: str
    token: int
    seen: int
    generation: int = 1
    move: Move = GOING
    rows: tuple[Row, ...] = ()
    children: tuple[NewRun, ...] = ()
    consumed: tuple[int, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    settled: tuple[str, ...] = ()
    published: str | None = None
    recovered: bool = False


class Verdict(StrEnum):
    """What became of a turn."""

    DONE = "done"
    AGAIN = "again"
    BUSY = "busy"
    LOST = "lost"


# --- mailbox, cancel --------------------------------------------------------------------------------------------------


class NewSignal(Struct, frozen=True, kw_only=True):
    """A value to send. One ``dedup`` id counts once a run and channel."""

    run_id: str
    channel: str
    value: str
    dedup: str | None = None


class Sent(StrEnum):
    """What became of a signal or a cancel."""

    SENT = "sent"
    DUPLICATE = "duplicate"
    FINISHED = "finished"
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


# --- liveness ---------------------------------------------------------------------------------------------------------


class WorkerRow(Struct, frozen=True, kw_only=True):
    """A worker as it registers. ``lease`` is seconds."""

    id: int
    lease: float
    host: str
    pid: int
    build: str
    queues: tuple[str, ...]
    served: tuple[str, ...]


class Arrival(Struct, frozen=True, kw_only=True):
    """A held run whose inbox has counted something: ``inbox`` is the count now, ``cancel`` the reason of a cancel."""

    run_id: str
    inbox: int
    cancel: str | None


class Pulse(Struct, frozen=True, kw_only=True):
    """The reply to a beat. ``alive`` is False once the worker was reaped; a beat never revives it."""

    alive: bool
    now: datetime
    arrivals: tuple[Arrival, ...] = ()


class Reaped(Struct, frozen=True, kw_only=True):
    """A run taken from a worker that is gone. ``token`` is set where it has crashed too often: it is still held, by the
    reaper under this token, to be ended."""

    run_id: str
    crashes: int
    token: int | None = None


class Definition(Struct, frozen=True, kw_only=True):
    """A registered workflow or activity, as workers write it at start. ``options`` is JSON text."""

    kind: Kind
    name: str
    version: int
    queue: str
    build: str
    options: str | None = None


# --- reading ----------------------------------------------------------------------------------------------------------


class RunFilter(Struct, frozen=True, kw_only=True):
    """Which runs: all given conditions hold. ``metadata`` pairs must all be there; times bound ``created_at``."""

    status: tuple[Status, ...] | Status | str | None = None
    workflow: str | None = None
    queue: str | None = None
    key_prefix: str | None = None
    metadata: Mapping[str, str] | None = None
    parent: str | None = None
    root: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class RunRecord(Struct, frozen=True, kw_only=True):
    """A run as it stands, in one row. Texts are JSON; ``status`` may be ``scheduled`` or ``retrying``."""

    id: str
    kind: Kind
    name: str
    version: int
    queue: str
    priority: int
    status: Status
    created_at: datetime
    root_id: str
    parent_id: str | None = None
    depth: int = 0
    key: str | None = None
    generation: int = 1
    due_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    parked_at: datetime | None = None
    started: str | None = None
    waiting_signals: tuple[str, ...] = ()
    waiting_children: tuple[str, ...] = ()
    input: str | None = None
    metadata: str | None = None
    options: str | None = None
    result: str | None = None
    error: str | None = None
    reason: str | None = None
    cancel_requested: bool = False


class BlockRecord(Struct, frozen=True, kw_only=True):
    """Why a run is blocked; ``builds`` could not follow it."""

    run_id: str
    at: datetime
    message: str
    builds: tuple[str, ...] = ()
    position: str | None = None
    recorded: str | None = None
    asked: str | None = None
    line: str | None = None
    traceback: str | None = None
    retry_at: datetime | None = None


class Journal(Struct, frozen=True, kw_only=True):
    """One generation of a run's journal, with the attempts of what is still open."""

    run_id: str
    generation: int
    rows: tuple[Row, ...]
    attempts: tuple[Attempt, ...] = ()


# --- wake-ups ---------------------------------------------------------------------------------------------------------


class Wake(Struct, frozen=True, kw_only=True):
    """Names only: queues that have ready runs, workers whose held runs have mail, runs that changed (parked, published,
    ended). ``many_runs`` says that more changed than are named: look at whatever you wait for."""

    queues: frozenset[str] = frozenset()
    workers: frozenset[int] = frozenset()
    runs: frozenset[str] = frozenset()
    many_runs: bool = False
