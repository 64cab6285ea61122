"""What readers see of many runs at once: counts, depths, queues, workers, and the tail of events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from runnerq.persistence.memory import finding, reading
from runnerq.persistence.memory.book import Book, Open, Worker
from runnerq.persistence.records import (
    HEAD_START,
    Aggregate,
    Definition,
    Depth,
    Group,
    GroupBy,
    QueueRecord,
    RunFilter,
    RunRecord,
    Stats,
    Status,
    Tail,
    WorkerRecord,
    in_order,
    served_name,
)

_REMEMBERED = timedelta(days=1)


def aggregate(book: Book, where: RunFilter, by: GroupBy, cap: int, look: int | None) -> Aggregate:
    """The newest runs that fit, counted by a value."""
    found, capped = finding.newest(book, where, cap, look)
    counted = Counter(_value(reading.record(book, run_id), by) for run_id in found)
    groups = (Group(value=value, count=count) for value, count in counted.items())
    return Aggregate(groups=in_order(groups, by), capped=capped)


def _value(record: RunRecord, by: GroupBy) -> str:
    match by:
        case "status":
            return record.status
        case "workflow":
            return record.name
        case "queue":
            return record.queue
        case "priority":
            return str(int(record.priority))
        case "minute":
            return record.created_at.replace(second=0, microsecond=0).isoformat()
        case "hour":
            return record.created_at.replace(minute=0, second=0, microsecond=0).isoformat()
        case "day":
            return record.created_at.replace(hour=0, minute=0, second=0, microsecond=0).isoformat()


def stats(book: Book, now: datetime) -> Stats:
    """What is open, and who works."""
    alike: dict[tuple[str, str, int, int, Status], list[Open]] = {}
    for row in book.open.values():
        new = book.runs[row.run_id].new
        key = (new.queue, new.name, new.version, new.priority, book.shown(row.run_id))
        alike.setdefault(key, []).append(row)
    depths = tuple(
        Depth(
            status=status,
            name=name,
            version=version,
            queue=queue,
            priority=priority,
            count=len(rows),
            oldest_ready_at=_ready_since(book, rows) if status is Status.PENDING else None,
        )
        for (queue, name, version, priority, status), rows in sorted(alike.items())
    )
    return Stats(at=now, depths=depths, workers=tuple(each for each in workers(book, now) if each.alive))


def queues(book: Book, now: datetime) -> list[QueueRecord]:
    """By name, those that anybody has to do with."""
    open_by: dict[str, list[Open]] = {}
    for row in book.open.values():
        open_by.setdefault(book.runs[row.run_id].new.queue, []).append(row)
    served = Counter(
        name for worker in book.workers.values() if worker.lives(now) for name in frozenset(worker.row.queues)
    )
    names = sorted({*open_by, *served, *book.paused})
    return [_queue(book, name, open_by.get(name, []), served[name]) for name in names]


def _queue(book: Book, name: str, rows: list[Open], served_by: int) -> QueueRecord:
    states = Counter(row.state for row in rows)
    ready = [row for row in rows if row.state == "pending" and row.due_at is None]
    return QueueRecord(
        name=name,
        paused_at=book.paused.get(name),
        ready=len(ready),
        delayed=states["pending"] - len(ready),
        running=states["running"],
        waiting=states["waiting"],
        blocked=states["blocked"],
        oldest_ready_at=_ready_since(book, ready),
        workers=served_by,
    )


def _ready_since(book: Book, rows: Iterable[Open]) -> datetime | None:
    """When the first of them became ready, the head start of its priority not counted."""
    since = (row.rank + timedelta(seconds=HEAD_START[book.runs[row.run_id].new.priority]) for row in rows)
    return min(since, default=None)


def workers(book: Book, now: datetime) -> list[WorkerRecord]:
    """Those that live first; one that has been gone for a day is none any more."""
    kept = (each for each in book.workers.values() if each.reaped_at is None or now - each.reaped_at <= _REMEMBERED)
    records = [_worker(each, now) for each in kept]
    records.sort(key=lambda record: (not record.alive, -record.registered_at.timestamp(), record.id))
    return records


def _worker(worker: Worker, now: datetime) -> WorkerRecord:
    row = worker.row
    return WorkerRecord(
        id=row.id,
        host=row.host,
        pid=row.pid,
        build=row.build,
        queues=row.queues,
        served=row.served,
        slots=row.slots,
        lease=row.lease,
        registered_at=worker.registered_at,
        beat_at=worker.beat_at,
        alive=worker.lives(now),
        left_at=worker.left_at,
        reaped_at=worker.reaped_at,
        load=worker.load,
        library=row.library,
        drain_at=worker.drain_at,
    )


def definitions(book: Book, name: str | None, now: datetime) -> list[Definition]:
    """By name, the highest version first."""
    served = {each for worker in book.workers.values() if worker.lives(now) for each in worker.row.served}
    known = sorted(
        (each for each in book.definitions.values() if name is None or each.name == name),
        key=lambda each: (each.name, -each.version, each.kind),
    )
    return [
        msgspec.structs.replace(each, served=served_name(each.kind, each.name, each.version) in served)
        for each in known
    ]


def events(book: Book, after: str | None, limit: int) -> Tail:
    """A cursor is how many have happened."""
    so_far = len(book.events)
    if after is None:
        return Tail(events=(), cursor=str(so_far))
    if not (after.isascii() and after.isdigit() and int(after) <= so_far):
        raise ValueError(f"{after!r} is no cursor of events: give one that events() has answered with, or None")
    found = tuple(book.events[int(after) : int(after) + limit])
    return Tail(events=found, cursor=found[-1].cursor if found else after)
