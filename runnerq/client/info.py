"""What a run looks like from outside: RunInfo of a stored record, and in words what it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Generic, TypeVar

import msgspec

from runnerq.errors import DecodingError
from runnerq.persistence.records import Priority, RunRecord, Status, served_name
from runnerq.serialization.failures import Failure, read
from runnerq.serialization.sealing import unreadable
from runnerq.workflow.journal import Started
from runnerq.workflow.options import Limit

T = TypeVar("T")


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it stands. ``workflow`` is the name of the workflow or activity; ``build`` the one that began it;
    ``waiting_for`` says in words what a parked, delayed or ready run waits for, ``limit`` what it counts against."""

    id: str
    workflow: str
    version: int
    build: str | None
    key: str | None
    queue: str
    priority: Priority
    status: Status
    generation: int
    parent_id: str | None
    root_id: str
    created_at: datetime
    due_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    waiting_for: str | None
    parked_at: datetime | None
    metadata: Mapping[str, str]
    error: Failure | None
    reason: str | None
    cancel_requested: bool
    limit: Limit | None = None


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some of a listing. ``next`` is the cursor of the rest, None at the end.

    A page of runs that is not full, and has a ``next``, ended there because 20,000 runs had been looked at for it.
    """

    items: list[T]
    next: str | None


def info_of(record: RunRecord) -> RunInfo:
    """The record in the API's shape."""
    return RunInfo(
        id=record.id,
        workflow=record.name,
        version=record.version,
        build=_build(record.started),
        key=record.key,
        queue=record.queue,
        priority=Priority(record.priority),
        status=record.status,
        generation=record.generation,
        parent_id=record.parent_id,
        root_id=record.root_id,
        created_at=record.created_at,
        due_at=record.due_at,
        started_at=record.started_at,
        ended_at=record.ended_at,
        waiting_for=waiting_for(record),
        parked_at=record.parked_at,
        metadata=_metadata(record.metadata),
        error=failure_of(record.error, record.id),
        reason=record.reason,
        cancel_requested=record.cancel_requested,
        limit=record.limit,
    )


def waiting_for(record: RunRecord) -> str | None:
    """What the run waits for, in words, with the time that it is due; None if it waits for nothing."""
    what = waits_for(record)
    if what is None or record.due_at is None:
        return what
    match record.status:
        case Status.SCHEDULED | Status.RETRYING:
            return f"{what}, {_time(record.due_at)}"
        case Status.WAITING:
            return f"{what}, {'or ' if _parked_for(record) else ''}{_time(record.due_at)}"
        case _:
            return what


def waits_for(record: RunRecord) -> str | None:
    """What the run waits for, in words without a time; None if it waits for nothing."""
    match record.status:
        case Status.SCHEDULED:
            return "its time"
        case Status.RETRYING:
            return "its next attempt"
        case Status.PENDING:
            if record.kind == "workflow" and not record.version:
                return f"a worker that registers {record.name!r}: none has so far"
            served = served_name(record.kind, record.name, record.version)
            worker = f"a worker that serves {served!r} on queue {record.queue!r}, or for its queue to be resumed"
            if record.limit is None or record.cancel_requested:  # a cancel needs no place
                return worker
            return f"its turn under {_under(record.limit)}, then for {worker}"
        case Status.BLOCKED:
            return "somebody: it is blocked, and its block says why"
        case Status.WAITING:
            return _parked_for(record) or ("its time" if record.due_at is not None else "its children")
        case _:
            return None


def _parked_for(record: RunRecord) -> str:
    """The signals and children that a parked run waits for, as far as it names any."""
    parts = [f"signal {name!r}" for name in record.waiting_signals]
    match record.waiting_children:
        case ():
            pass
        case (child,):
            parts.append(f"child {child}")
        case children:
            parts.append(f"{len(children)} children")
    return " or ".join(parts)


def _under(limit: Limit) -> str:
    return f"the limit {limit.scope!r}" + (f" for key {limit.key!r}" if limit.key else "")


def _time(at: datetime) -> str:
    return at.isoformat(sep=" ", timespec="seconds").replace("+00:00", " UTC")


def _build(started: str | None) -> str | None:
    """None as well where other rules than ours have written it: a list must show the run beside the others."""
    if started is None:
        return None
    try:
        return msgspec.json.decode(started, type=Started).build
    except msgspec.DecodeError:
        return None


def _metadata(text: str | None) -> Mapping[str, str]:
    if text is None:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError:
        return {}


def failure_of(text: str | None, run_id: str) -> Failure | None:
    """What a run failed with; of one that cannot be opened here, that."""
    if text is None:
        return None
    refused = unreadable(text, run_id, "the error")
    if refused is not None:
        return Failure(type=type(refused).__name__, module=type(refused).__module__, message=str(refused))
    try:
        return read(text)
    except DecodingError:
        return None
