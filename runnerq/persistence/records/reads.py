"""Records of what is read: runs as they stand, journals, blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal

from runnerq.persistence.records.base import Kind, Status, Struct
from runnerq.persistence.records.claims import Attempt
from runnerq.persistence.records.limits import Limit
from runnerq.persistence.records.liveness import WorkerRecord
from runnerq.workflow.journal import Row

LOOK = 20_000
"""Runs that are looked at for one page of a list, at most: one for which few fit does not read them all."""


class RunFilter(Struct, frozen=True, kw_only=True):
    """Which runs: all given conditions hold.

    ``metadata`` pairs must all be there. ``since`` and ``until`` bound ``created_at``, ``ended_since`` and
    ``ended_until`` when the run ended. ``id_prefix`` is the beginning of an id, with hyphens or without. ``roots``
    leaves out what has a parent. ``error`` is a piece of a recorded failure's text, in upper or lower case;
    ``fingerprint`` one of ``failures``. Both are of runs that did not complete, and find nothing in what is sealed.
    ``worker`` is the id of the worker that a run is claimed by: of those that are running.
    """

    status: tuple[Status, ...] | Status | str | None = None
    workflow: str | None = None
    queue: str | None = None
    key_prefix: str | None = None
    metadata: Mapping[str, str] | None = None
    parent: str | None = None
    root: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    ended_since: datetime | None = None
    ended_until: datetime | None = None
    id_prefix: str | None = None
    version: int | None = None
    roots: bool = False
    error: str | None = None
    fingerprint: str | None = None
    worker: int | None = None


class RunRecord(Struct, frozen=True, kw_only=True):
    """A run as it stands, in one row. Texts are JSON; ``status`` may be ``scheduled`` or ``retrying``; ``stack`` says
    where the code of a waiting run stands, ``worker_id`` which worker a running one is claimed by."""

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
    stack: tuple[str, ...] = ()
    input: str | None = None
    metadata: str | None = None
    options: str | None = None
    result: str | None = None
    error: str | None = None
    reason: str | None = None
    cancel_requested: bool = False
    limit: Limit | None = None
    worker_id: int | None = None


class Found(Struct, frozen=True, kw_only=True):
    """Some runs of a list. ``next`` is the id behind which to go on; None: there are no more.

    A page that is not full, or empty, and has a ``next`` ended there because so many runs had been looked at.
    """

    runs: tuple[RunRecord, ...]
    next: str | None = None


class Counted(Struct, frozen=True, kw_only=True):
    """How many runs fit. ``capped`` says that not all runs were looked at: it may be more."""

    count: int
    capped: bool = False


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


class Depth(Struct, frozen=True, kw_only=True):
    """How many open runs share a status, a name, a version, a queue and a priority. ``oldest_ready_at`` is when the one
    that waits longest for a worker became ready (None where none is ready), its head start not counted."""

    status: Status
    name: str
    version: int
    queue: str
    priority: int
    count: int
    oldest_ready_at: datetime | None = None


class Stats(Struct, frozen=True, kw_only=True):
    """What is open at ``at``, and the workers that live. Ended runs are counted by ``aggregate``. ``capped`` says that
    more is ready, delayed or waiting than was counted."""

    at: datetime
    depths: tuple[Depth, ...] = ()
    workers: tuple[WorkerRecord, ...] = ()
    capped: bool = False


class QueueRecord(Struct, frozen=True, kw_only=True):
    """A queue that has open runs, a living worker or a pause. ``workers`` is how many living ones serve it.

    ``capped``, of all queues or of none, says that more is ready, delayed or waiting than was counted: on this queue,
    or on one that is not among them.
    """

    name: str
    paused_at: datetime | None = None
    ready: int = 0
    delayed: int = 0
    running: int = 0
    waiting: int = 0
    blocked: int = 0
    oldest_ready_at: datetime | None = None
    workers: int = 0
    capped: bool = False


GroupBy = Literal["status", "workflow", "queue", "priority", "minute", "hour", "day"]


class Group(Struct, frozen=True, kw_only=True):
    """How many runs share a value: a status, a name, a queue, a priority's number, or the beginning of a span of
    ``created_at`` (ISO 8601, UTC)."""

    value: str
    count: int


class Aggregate(Struct, frozen=True, kw_only=True):
    """Groups, the largest first (spans: the oldest first). ``capped`` says that only the newest runs were looked at."""

    groups: tuple[Group, ...]
    capped: bool = False


def in_order(groups: Iterable[Group], by: GroupBy) -> tuple[Group, ...]:
    """The largest first; spans by time."""
    if by in ("minute", "hour", "day"):
        return tuple(sorted(groups, key=lambda group: group.value))
    return tuple(sorted(groups, key=lambda group: (-group.count, group.value)))


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened. ``cursor`` is where it stands in the tail: ``events(after=cursor)`` goes on behind it.

    ``kind`` is ``started``, ``completed``, ``failed``, ``dead_letter``, ``cancelled`` of a run, or what no other row
    shows: ``crashed``, ``blocked``, ``reopened``, ``terminated``, ``run_now``, ``rescheduled``, ``prioritized``,
    ``deleted`` of a run, ``paused`` and ``resumed`` of a queue. ``data`` is a JSON object's text.

    An end is not told if the run was opened again, or deleted, before the reader came by; ``reopened`` says ``from``
    which status.
    """

    cursor: str
    at: datetime
    kind: str
    run_id: str | None = None
    name: str | None = None
    queue: str | None = None
    data: str | None = None


class Tail(Struct, frozen=True, kw_only=True):
    """Some of the tail. ``cursor`` is where to go on, also where nothing has happened. Fewer events than were asked for
    say nothing about more; none say that there is no more for now."""

    events: tuple[Event, ...]
    cursor: str
