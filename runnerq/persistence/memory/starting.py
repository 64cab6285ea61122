"""Creating runs, from outside and as children, and who holds an idempotency key."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from runnerq.errors import KeyTaken
from runnerq.persistence.memory.book import Book, Box, Open, Run, rank
from runnerq.persistence.records import NewRun, Outcome, StartReply
from runnerq.workflow.given import EARLIEST, FARTHEST

_FAILED = frozenset({"failed", "dead_letter", "cancelled"})
_REFUSING = frozenset({"no_reuse", "allow_reuse_on_failure"})


def start_all(book: Book, news: Sequence[NewRun], now: datetime) -> list[StartReply]:
    """Create the runs of one call."""
    together = frozenset(new.id for new in news)
    fresh_keys: set[tuple[str, str]] = set()
    return [_start(book, new, together, fresh_keys, now) for new in news]


def _start(
    book: Book, new: NewRun, together: frozenset[str], fresh_keys: set[tuple[str, str]], now: datetime
) -> StartReply:
    """Create the run unless the holder of its key stands for it. ``fresh_keys`` were given earlier in the same call."""
    if new.id in book.runs:
        return StartReply(id=new.id, created=True)
    if new.parent_id is not None and new.parent_id not in book.open and new.parent_id not in together:
        return StartReply(id=new.id, created=False, refused=True)
    holder = _holder(book, new)
    taken = _named(new) in fresh_keys and new.on_duplicate != "allow_reuse"
    if holder is not None and (taken or not _may_take(book, new, holder)):
        return StartReply(id=holder, created=False, refused=new.on_duplicate in _REFUSING)
    _create(book, new, now)
    if new.key is not None:
        fresh_keys.add((new.name, new.key))
    return StartReply(id=new.id, created=True)


def start_child(book: Book, new: NewRun, now: datetime) -> None:
    """Create the child; one whose key another run holds ends at once, and tells its parent so."""
    if new.id in book.runs:
        return
    holder = _holder(book, new)
    if holder is None or _may_take(book, new, holder):
        _create(book, new, now)
        return
    book.runs[new.id] = Run(new=new, created_at=now, root_id=new.root_id or new.id)
    book.note("started", now, new.id)
    if new.parent_id is not None:
        book.children.setdefault(new.parent_id, []).append(new.id)
    error = _key_taken(new, holder)
    book.end(Outcome(run_id=new.id, status="failed", ended_at=now, error=error), now)


def _create(book: Book, new: NewRun, now: datetime) -> None:
    due_at = new.due_at
    if new.due_in is not None:
        due_at = now + timedelta(seconds=min(new.due_in, 1e11))
    if due_at is not None:
        # One run outside of the years that a datetime holds would stop whoever reckons with it.
        due_at = max(EARLIEST, min(due_at, FARTHEST))
    book.runs[new.id] = Run(new=new, created_at=now, root_id=new.root_id or new.id)
    book.note("started", now, new.id)
    row = Open(run_id=new.id, state="pending", rank=rank(new.priority, due_at or now), due_at=due_at)
    book.open[new.id] = row
    book.boxes[new.id] = Box()
    if new.rows:
        book.journals[new.id, 1] = {row.place: row for row in new.rows}
    if new.key is not None:
        book.keys[new.name, new.key] = new.id
    if new.parent_id is not None:
        book.children.setdefault(new.parent_id, []).append(new.id)
    if due_at is None or due_at <= now:
        book.make_ready(row, due_at or now)
    else:
        # Whoever waits for this queue is to look anew when the next run is due.
        book.heard.queues.add(new.queue)


def _named(new: NewRun) -> tuple[str, str]:
    return new.name, new.key or ""


def _holder(book: Book, new: NewRun) -> str | None:
    return None if new.key is None else book.keys.get((new.name, new.key))


def _may_take(book: Book, new: NewRun, holder: str) -> bool:
    match new.on_duplicate:
        case "allow_reuse":
            return True
        case "allow_reuse_on_failure":
            outcome = book.outcomes.get(holder)
            return outcome is not None and outcome.status in _FAILED
        case "return_existing" | "no_reuse":
            return False


def _key_taken(new: NewRun, holder: str) -> str:
    error = KeyTaken(new.name, new.key or "", holder)
    failure = {
        "type": "KeyTaken",
        "module": "runnerq.errors",
        "message": str(error),
        "args": [new.name, new.key, holder],
        "cause": None,
        "notes": [],
        "stack": "",
        "retryable": False,
    }
    return msgspec.json.encode(failure).decode()
