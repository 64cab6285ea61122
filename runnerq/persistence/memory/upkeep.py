"""Keeping runs moving: workers that live or are gone, what is due, and what must not be."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from runnerq.persistence.memory.book import Book, Open, Worker
from runnerq.persistence.memory.sending import cancel
from runnerq.persistence.records import (
    CRASH_CAP,
    VISIBLY_GONE,
    Arrival,
    Attempt,
    Changed,
    Details,
    Load,
    Pulse,
    Reaped,
)

_VISIBLY_GONE = timedelta(seconds=VISIBLY_GONE)
"""How long a worker whose beat's connection is gone may still be silent."""

_JITTER = 0.1


def beat(book: Book, worker_id: int, load: Load, details: Sequence[Details], now: datetime) -> Pulse:
    """The worker lives, unless it was reaped; then nothing revives it."""
    worker = book.workers.get(worker_id)
    if worker is None or worker.reaped:
        return Pulse(alive=False, now=now)
    worker.beat_at = now
    worker.connected = True
    worker.load = load
    for each in details:
        _keep(book, each, now)
    arrivals = tuple(
        Arrival(run_id=row.run_id, inbox=row.inbox, cancel=row.cancel)
        for row in _held(book, worker_id)
        if row.inbox > 0
    )
    return Pulse(alive=True, now=now, arrivals=arrivals, drain=worker.drain_at is not None)


def drain(book: Book, worker_id: int, now: datetime) -> Changed:
    """Ask a worker to stop in order."""
    worker = book.workers.get(worker_id)
    if worker is None or worker.reaped:
        return Changed.UNKNOWN
    book.heard.workers.add(worker_id)
    if worker.drain_at is not None:
        return Changed.UNCHANGED
    worker.drain_at = now
    return Changed.CHANGED


def _keep(book: Book, details: Details, now: datetime) -> None:
    """Keep what an attempt said of itself, if it is still the present one."""
    run_id, position = details.run_id, details.position
    row = book.open.get(run_id)
    if row is None or row.token != details.token or row.state != "running":
        return
    if book.runs[run_id].generation != details.generation or position in book.settled.get(run_id, ()):
        return
    kept = book.attempts.setdefault(run_id, {})
    known = kept.get(position)
    if known is None:
        kept[position] = Attempt(
            position=position, number=details.failures, error=None, at=now, next_at=None, details=details.text
        )
    elif known.number == details.failures:
        kept[position] = msgspec.structs.replace(known, at=known.at if known.number else now, details=details.text)


def disconnect(book: Book, worker_id: int) -> None:
    """The connection that this worker beat over is gone."""
    worker = book.workers.get(worker_id)
    if worker is not None:
        worker.connected = False


def reap(book: Book, worker_id: int, token: int, limit: int, now: datetime) -> list[Reaped]:
    """Take the runs of workers that are gone."""
    for worker in book.workers.values():
        if not worker.reaped and worker.row.id != worker_id and _gone(worker, now):
            worker.reaped_at = now
    reaped: list[Reaped] = []
    for row in list(book.open.values()):
        if len(reaped) == limit:
            break
        holder = book.workers.get(row.worker_id) if row.worker_id is not None else None
        if row.state == "running" and (holder is None or holder.reaped):
            if holder is not None and holder.left_at is not None:
                _return(book, row)
                reaped.append(_reaped(book, row))
            else:
                reaped.append(_reap(book, row, worker_id, token, now))
    return reaped


def _reap(book: Book, row: Open, worker_id: int, token: int, now: datetime) -> Reaped:
    row.crashes += 1
    book.note("crashed", now, row.run_id, {"crashes": row.crashes, "worker": row.worker_id})
    if row.crashes >= CRASH_CAP:
        row.token = token
        row.worker_id = worker_id
        return _reaped(book, row, token)
    _take_back(book, row)
    if row.crashes == 1 or row.cancel is not None:
        book.make_ready(row, now)
    else:
        row.state = "pending"
        row.due_at = now + _backoff(row)
    return _reaped(book, row)


def _reaped(book: Book, row: Open, token: int | None = None) -> Reaped:
    return Reaped(run_id=row.run_id, name=book.runs[row.run_id].new.name, crashes=row.crashes, token=token)


def _backoff(row: Open) -> timedelta:
    """The first crash waits for nothing; the next ones 1, 2, 4 s, so that suspects part from bystanders."""
    # The jitter comes from the id, so that a test that is run again sees the same times.
    spread = zlib.crc32(row.run_id.encode()) / 2**32
    return timedelta(seconds=2.0 ** (row.crashes - 2) * (1 + _JITTER * spread))


def _gone(worker: Worker, now: datetime) -> bool:
    silent = now - worker.beat_at
    return silent > timedelta(seconds=worker.row.lease) or (worker.connected is False and silent > _VISIBLY_GONE)


def release(book: Book, worker_id: int, held: Collection[int]) -> int:
    """Give back what the worker holds under other tokens."""
    strays = [row for row in _held(book, worker_id) if row.token not in held]
    for row in strays:
        _return(book, row)
    return len(strays)


def give_back(book: Book, worker_id: int, now: datetime) -> int:
    """Give back all that the worker holds, which claims nothing any more."""
    worker = book.workers.get(worker_id)
    if worker is not None:
        worker.left_at = worker.left_at or now
        worker.reaped_at = worker.reaped_at or now
    return release(book, worker_id, ())


def wake_due(book: Book, limit: int, now: datetime) -> int:
    """Make ready what is due, the longest due first."""
    due = sorted((row.due_at, row.run_id) for row in book.open.values() if row.due_at is not None and row.due_at <= now)
    for due_at, run_id in due[:limit]:
        book.make_ready(book.open[run_id], due_at)
    return len(due[:limit])


def unblock(book: Book, build: str, served: Collection[str], limit: int, now: datetime) -> int:
    """Make blocked runs ready that this build may try."""
    count = 0
    for row in list(book.open.values()):
        if count == limit:
            break
        block = book.blocks.get(row.run_id)
        if row.state != "blocked" or block is None or book.runs[row.run_id].new.served not in served:
            continue
        if build not in block.builds and (block.retry_at is None or block.retry_at <= now):
            book.make_ready(row, now)
            count += 1
    return count


def sweep(book: Book, limit: int, now: datetime) -> int:
    """Mend what must not be among the next so many open runs; how many it was."""
    ordered = sorted(book.open)
    ahead = [run_id for run_id in ordered if run_id > book.swept_to][:limit]
    # At the end of the table the cursor goes back to its beginning.
    book.swept_to = ahead[-1] if len(ahead) == limit else ""
    return sum(_mend(book, book.open[run_id], now) for run_id in ahead if run_id in book.open)


def _mend(book: Book, row: Open, now: datetime) -> bool:
    if row.state == "waiting" and _wake_is_there(book, row):
        book.make_ready(row, now)
        return True
    holder = book.workers.get(row.worker_id) if row.worker_id is not None else None
    if row.state == "running" and holder is None:
        _return(book, row)
        return True
    if row.cancel is None and _left_behind(book, row.run_id):
        cancel(book, row.run_id, "parent ended", now)
        return True
    return False


def _wake_is_there(book: Book, row: Open) -> bool:
    if row.cancelled > row.parked:
        return True
    if any(mail.channel in row.park.signals for mail in book.boxes[row.run_id].mail.values()):
        return True
    if row.park.children is None:
        children = book.children.get(row.run_id, [])
        return bool(children) and not any(child in book.open for child in children)
    ended = [book.outcomes[child] for child in row.park.children if child in book.outcomes]
    return bool(ended) and (len(ended) >= row.park.needs or any(each.status != "completed" for each in ended))


def _left_behind(book: Book, run_id: str) -> bool:
    """Whether its parent has ended, and wanted it cancelled then."""
    new = book.runs[run_id].new
    parent = book.outcomes.get(new.parent_id) if new.parent_id is not None else None
    reopened_at = book.open[run_id].reopened_at
    if parent is None or (reopened_at is not None and reopened_at >= parent.ended_at):
        return False
    options = json.loads(new.options) if new.options is not None else None
    return not isinstance(options, dict) or options.get("parent_close") != "abandon"


def _held(book: Book, worker_id: int) -> Iterator[Open]:
    return (row for row in book.open.values() if row.state == "running" and row.worker_id == worker_id)


def _return(book: Book, row: Open) -> None:
    """Back to its queue at the rank it had, as if it had not been claimed."""
    _take_back(book, row)
    row.state = "pending"
    book.heard.queues.add(book.runs[row.run_id].new.queue)


def _take_back(book: Book, row: Open) -> None:
    book.leave(row)
    # No token of a worker's is 0: what the old holder still sends is lost.
    row.token = 0
    row.worker_id = None
