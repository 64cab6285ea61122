"""A run's attempts, as far as they are on record: an attempt that failed is kept until its step is answered."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial

import msgspec

from runnerq.client.history import ATTEMPTED, Entry, EntryKind, EntryState
from runnerq.console.models.context import Context, bounded
from runnerq.console.models.history import LISTED
from runnerq.console.models.journal import ReadJournal, read_journal
from runnerq.console.models.payloads import ErrorView, Payload, error_of, failure_view, payload_of
from runnerq.console.models.records import error_spot, record_of, spot
from runnerq.persistence.records import Attempt, RunRecord, Status

MOST = 300
_STATES: Mapping[Status, EntryState] = {
    Status.COMPLETED: "answered",
    Status.FAILED: "failed",
    Status.DEAD_LETTER: "failed",
    Status.CANCELLED: "interrupted",
}


class AttemptRow(msgspec.Struct, frozen=True, kw_only=True):
    """The attempts at one step, or at the run itself where it is an activity (position ``""``). ``count`` are those on
    record; ``error`` is the last one's, ``next_at`` when the next is due, ``heartbeat`` what the last start said of
    itself. ``number`` is its entry's, None for a run."""

    number: int | None
    position: str
    kind: EntryKind | None
    name: str
    state: EntryState
    count: int
    at: datetime
    next_at: datetime | None
    error: ErrorView | None
    heartbeat: Payload | None


class AttemptsView(msgspec.Struct, frozen=True, kw_only=True):
    """Those that go on first, then the newest; three hundred at most of ``total``."""

    run_id: str
    rows: tuple[AttemptRow, ...]
    total: int
    sealed: str | None


@bounded
async def attempts(context: Context, run_id: str) -> AttemptsView:
    """The attempts of the present generation. Raises RunNotFound."""
    record = await record_of(context, run_id)
    found = await read_journal(context, record)
    return await context.aside(found.size, partial(_view, context, record, found))


def _view(context: Context, record: RunRecord, found: ReadJournal) -> AttemptsView:
    failed = {attempt.position: attempt for attempt in found.attempts}
    rows = [
        _of_entry(context, record, number, entry, failed.get(entry.position))
        for number, entry in enumerate(found.entries, 1)
        if entry.kind in ATTEMPTED and (entry.attempts or entry.position in failed)
    ]
    if record.kind == "activity":
        rows += _of_run(context, record, failed.get(""))
    rows.sort(key=lambda row: (row.state != "asked", -row.at.timestamp()))
    return AttemptsView(run_id=record.id, rows=tuple(rows[:MOST]), total=len(rows), sealed=found.sealed)


def _of_entry(context: Context, record: RunRecord, number: int, entry: Entry, failed: Attempt | None) -> AttemptRow:
    error, heartbeat = _of_failed(context, record, failed, entry.name)
    if entry.error is not None:
        error = failure_view(context, error_spot(record, entry), entry.error)
    return AttemptRow(
        number=number,
        position=entry.position,
        kind=entry.kind,
        name=entry.name,
        state=entry.state,
        count=entry.attempts if failed is None else max(entry.attempts, failed.number),
        at=entry.answered_at or (entry.asked_at if failed is None else failed.at),
        next_at=None if failed is None else failed.next_at,
        error=error,
        heartbeat=heartbeat,
    )


def _of_run(context: Context, record: RunRecord, failed: Attempt | None) -> list[AttemptRow]:
    """The attempts at an activity that is a run of its own: those that failed, and the one that ended it."""
    error, heartbeat = _of_failed(context, record, failed)
    final = error_of(context, spot("error", record), record.error)
    count = final.attempts if final is not None else (0 if failed is None else failed.number)
    if record.status is Status.COMPLETED:
        count += 1
    at = record.ended_at or (record.started_at if failed is None else failed.at)
    if at is None:
        return []
    return [
        AttemptRow(
            number=None,
            position="",
            kind=None,
            name=record.name,
            state=_STATES.get(record.status, "asked"),
            count=count,
            at=at,
            next_at=None if failed is None else failed.next_at,
            error=final or error,
            heartbeat=heartbeat,
        )
    ]


def _of_failed(
    context: Context, record: RunRecord, failed: Attempt | None, name: str = ""
) -> tuple[ErrorView | None, Payload | None]:
    if failed is None:
        return None, None
    what = f"the last attempt at {failed.position!r}"
    return (
        error_of(context, spot("error", record, name), failed.error, what),
        payload_of(context, spot("heartbeat", record, name), failed.details, what, limit=LISTED),
    )
