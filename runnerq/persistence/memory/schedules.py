"""Schedules in memory: records by name, each replaced as a whole."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from runnerq.ids import new_token
from runnerq.persistence.memory import sending, starting
from runnerq.persistence.memory.book import Book
from runnerq.persistence.records import (
    KEPT_RUNS,
    Changed,
    DueSchedule,
    DueSchedules,
    Fired,
    Firing,
    NewRun,
    ScheduleRecord,
    ScheduleRow,
    Sent,
    StartReply,
)


def create(book: Book, row: ScheduleRow, since: datetime, next_at: datetime | None, now: datetime) -> bool:
    """Create the schedule, unless there is one of its name."""
    if row.name in book.schedules:
        return False
    # As for leases: no serial is one that a schedule of this name had before.
    book.schedules[row.name] = ScheduleRecord(row=row, serial=new_token(), since=since, created_at=now, next_at=next_at)
    book.heard.schedules = True
    return True


def replace(
    book: Book, row: ScheduleRow, seen: int, *, since: datetime, next_at: datetime | None, behind: bool
) -> bool:
    """Replace the schedule that was seen."""
    known = book.schedules.get(row.name)
    if known is None or known.serial != seen:
        return False
    _change(book, known, row=row, since=since, next_at=next_at, behind=behind)
    book.heard.schedules = True
    return True


def pause(book: Book, name: str, now: datetime) -> Changed:
    """Have it fire no more."""
    known = book.schedules.get(name)
    if known is None:
        return Changed.UNKNOWN
    if known.paused_at is not None:
        return Changed.UNCHANGED
    _change(book, known, paused_at=now)
    return Changed.CHANGED


def resume(book: Book, name: str, seen: int, next_at: datetime | None) -> bool:
    """End the pause of the schedule that was seen."""
    known = book.schedules.get(name)
    if known is None or known.serial != seen or known.paused_at is None:
        return False
    _change(book, known, paused_at=None, next_at=next_at, behind=False)
    book.heard.schedules = True
    return True


def due(book: Book, limit: int, after: DueSchedule | None, now: datetime) -> DueSchedules:
    """Those that are due, and when the next of the others is."""
    ticking = [
        DueSchedule(each.row.name, each.serial, each.next_at)
        for each in book.schedules.values()
        if each.next_at is not None and each.paused_at is None
    ]
    found = sorted((each for each in ticking if each.next_at <= now), key=_place)
    if after is not None:
        found = [each for each in found if _place(each) > _place(after)]
    return DueSchedules(
        now=now,
        schedules=tuple(found[:limit]),
        next_at=min((each.next_at for each in ticking if each.next_at > now), default=None),
    )


def _place(due: DueSchedule) -> tuple[datetime, str]:
    return due.next_at, due.name


def fire(book: Book, firing: Firing, now: datetime) -> Fired | None:
    """Start its runs, unless an open one is in their way, and move the schedule on."""
    known = book.schedules.get(firing.name)
    if known is None or known.serial != firing.serial:
        return None
    fired = _started(book, firing, [run_id for run_id in known.runs if run_id in book.open], now)
    _change(
        book,
        known,
        next_at=firing.next_at,
        last_at=firing.last_at,
        behind=firing.behind and not fired.skipped,
        started=known.started + len(fired.runs),
        skipped=known.skipped + fired.skipped,
        runs=_with(known.runs, fired.runs),
    )
    return fired


def trigger(book: Book, name: str, run: NewRun, now: datetime) -> StartReply | None:
    """Start a run as one of the schedule's."""
    known = book.schedules.get(name)
    if known is None:
        return None
    [reply] = starting.start_all(book, [run], now)
    _change(book, known, runs=_with(known.runs, (reply.id,)))
    return reply


def _started(book: Book, firing: Firing, open_runs: list[str], now: datetime) -> Fired:
    if open_runs and firing.overlap == "skip":
        return Fired(skipped=len(firing.runs))
    runs = tuple(reply.id for reply in starting.start_all(book, firing.runs, now))
    cancelled: tuple[str, ...] = ()
    if runs and firing.overlap == "cancel":
        reason = f"schedule {firing.name!r} goes on"
        asked = [run_id for run_id in open_runs if run_id not in runs]
        cancelled = tuple(run_id for run_id in asked if sending.cancel(book, run_id, reason, now) is Sent.SENT)
    return Fired(runs=runs, cancelled=cancelled)


def _with(runs: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return (*(run_id for run_id in runs if run_id not in new), *new)[-KEPT_RUNS:]


def _change(book: Book, known: ScheduleRecord, **changes: Any) -> None:
    book.schedules[known.row.name] = msgspec.structs.replace(known, serial=known.serial + 1, **changes)
