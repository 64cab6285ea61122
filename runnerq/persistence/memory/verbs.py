"""What a person asks of one run or one queue, and runs that nobody knew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from runnerq.persistence.memory.book import Book, Open, rank
from runnerq.persistence.records import HEAD_START, Changed, Definition
from runnerq.workflow.given import EARLIEST, FARTHEST


def run_now(book: Book, run_id: str, now: datetime) -> Changed:
    """Make a delayed run, or one between two attempts, ready."""
    row = book.open.get(run_id)
    if row is None:
        return _not_open(book, run_id)
    if row.state == "running" or (row.state == "pending" and row.due_at is None):
        return Changed.UNCHANGED
    attempts = book.attempts.get(run_id, {})
    if row.state == "blocked" or (row.state == "waiting" and all(each.next_at is None for each in attempts.values())):
        return Changed.REFUSED
    for position, attempt in attempts.items():
        if attempt.next_at is not None and attempt.next_at > now:
            attempts[position] = msgspec.structs.replace(attempt, next_at=now)
    book.make_ready(row, now)
    return _changed(book, row, "run_now", now)


def reschedule(book: Book, run_id: str, at: datetime, now: datetime) -> Changed:
    """Have a pending run become due at another time."""
    row = book.open.get(run_id)
    if row is None:
        return _not_open(book, run_id)
    # A cancel that was requested must not wait.
    if row.state != "pending" or row.cancel is not None:
        return Changed.REFUSED
    wanted = max(EARLIEST, min(at, FARTHEST))
    new_rank = rank(book.runs[run_id].new.priority, wanted)
    due_at = wanted if wanted > now else None
    if (row.due_at, row.rank) == (due_at, new_rank):
        return Changed.UNCHANGED
    attempts = book.attempts.get(run_id, {})
    if "" in attempts and attempts[""].next_at is not None:
        attempts[""] = msgspec.structs.replace(attempts[""], next_at=at)
    if due_at is None:
        book.make_ready(row, wanted)
    else:
        row.due_at, row.rank = due_at, new_rank
        book.heard.queues.add(book.runs[run_id].new.queue)
    return _changed(book, row, "rescheduled", now, {"at": at})


def set_priority(book: Book, run_id: str, priority: int, now: datetime) -> Changed:
    """Change the priority of an open run, and its rank."""
    row = book.open.get(run_id)
    if row is None:
        return _not_open(book, run_id)
    run = book.runs[run_id]
    if run.new.priority == priority:
        return Changed.UNCHANGED
    row.rank += timedelta(seconds=HEAD_START[run.new.priority] - HEAD_START[priority])
    run.new = msgspec.structs.replace(run.new, priority=priority)
    return _changed(book, row, "prioritized", now, {"priority": priority})


def pause(book: Book, queue: str, now: datetime) -> bool:
    """Have no run of the queue claimed."""
    if queue in book.paused:
        return False
    book.paused[queue] = now
    book.note("paused", now, queue=queue)
    return True


def resume(book: Book, queue: str, now: datetime) -> bool:
    """End a pause."""
    if book.paused.pop(queue, None) is None:
        return False
    book.heard.queues.add(queue)
    book.note("resumed", now, queue=queue)
    return True


def adopt(book: Book, definitions: Sequence[Definition], limit: int) -> int:
    """Give runs that were started by a name that nobody knew their kind and version."""
    known: dict[str, Definition] = {}
    for each in sorted(definitions, key=lambda definition: definition.version):
        known[each.name] = each
    count = 0
    for run_id in sorted(book.open):
        run = book.runs[run_id]
        found = known.get(run.new.name)
        if run.new.kind != "workflow" or run.new.version != 0 or found is None:
            continue
        if count == limit:
            break
        run.new = msgspec.structs.replace(run.new, kind=found.kind, version=found.version)
        book.heard.queues.add(run.new.queue)
        count += 1
    return count


def _not_open(book: Book, run_id: str) -> Changed:
    return Changed.REFUSED if run_id in book.runs else Changed.UNKNOWN


def _changed(book: Book, row: Open, kind: str, now: datetime, data: Mapping[str, object] | None = None) -> Changed:
    book.note(kind, now, row.run_id, data)
    book.heard.runs.add(row.run_id)
    return Changed.CHANGED
