"""What the client answers about queues, workers and what happens: the stored records in the API's shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from runnerq.client.info import RunInfo
from runnerq.client.readable import in_words
from runnerq.persistence import records
from runnerq.persistence.records import Priority, Status


class Depth(msgspec.Struct, frozen=True, kw_only=True):
    """How many open runs share these. ``oldest_ready_at`` is when the one that waits longest for a worker became ready;
    None where none is ready."""

    status: Status
    workflow: str
    version: int
    queue: str
    priority: Priority
    count: int
    oldest_ready_at: datetime | None


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as it stands. ``serves`` are the names it claims by, ``lease`` is seconds.

    ``alive``: it was heard of within a sixth of its lease (3 s at least), so a ``beat`` should be shorter than that,
    and within 3 s where its connection is gone.
    ``held`` are its runs, of ``slots`` at most, ``running`` its attempts under way. ``stuck`` are threads and tasks
    that do not come back, ``late`` those that came back after their time. ``library`` is the version of runnerq that it
    runs, ``clock_off`` how many seconds its machine's clock was ahead of the database's, ``drain_at`` when somebody
    asked it to stop in order.
    """

    id: int
    host: str
    pid: int
    build: str
    queues: tuple[str, ...]
    serves: tuple[str, ...]
    slots: int
    lease: float
    registered_at: datetime
    beat_at: datetime
    alive: bool
    left_at: datetime | None
    reaped_at: datetime | None
    held: int
    running: int
    stuck: int
    late: int
    library: str | None
    clock_off: float | None
    drain_at: datetime | None


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """What was open at ``at``, and the workers that lived. Ended runs are counted by ``aggregate``. ``capped``: more
    than 250,000 runs were open, and more was ready, delayed or waiting than is counted here."""

    at: datetime
    depths: tuple[Depth, ...]
    workers: tuple[WorkerInfo, ...]
    capped: bool = False

    def by_status(self) -> dict[Status, int]:
        """How many open runs there are of each status."""
        counts = Counter[Status]()
        for depth in self.depths:
            counts[depth.status] += depth.count
        return dict(counts)

    @property
    def oldest_ready_at(self) -> datetime | None:
        """Since when the run that waits longest has waited for a worker; None if none does."""
        return min((depth.oldest_ready_at for depth in self.depths if depth.oldest_ready_at is not None), default=None)


class QueueInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A queue, and how many of its runs are open. ``workers`` is how many living ones serve it.

    ``capped``, of all queues or of none: more than 250,000 runs are open, and not all that are ready, delayed or
    waiting were counted. There may be more of them on this queue, and on queues that are not listed.
    """

    name: str
    paused_at: datetime | None
    ready: int
    delayed: int
    running: int
    waiting: int
    blocked: int
    oldest_ready_at: datetime | None
    workers: int
    capped: bool


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened. ``events(after=cursor)`` goes on behind it.

    ``kind`` is ``started``, ``completed``, ``failed``, ``dead_letter``, ``cancelled``, ``crashed``, ``blocked``,
    ``reopened``, ``terminated``, ``run_now``, ``rescheduled``, ``prioritized`` or ``deleted`` of a run, ``paused`` or
    ``resumed`` of a queue. ``data`` says what else there is to say.
    """

    cursor: str
    at: datetime
    kind: str
    run_id: str | None
    workflow: str | None
    queue: str | None
    data: Mapping[str, Any]


class Node(msgspec.Struct, frozen=True):
    """A run and the runs that it started, oldest first."""

    id: str
    info: RunInfo
    children: tuple[Node, ...]


def stats_of(record: records.Stats) -> Stats:
    return Stats(
        at=record.at,
        depths=tuple(_depth_of(depth) for depth in record.depths),
        workers=tuple(worker_of(worker) for worker in record.workers),
        capped=record.capped,
    )


def _depth_of(record: records.Depth) -> Depth:
    return Depth(
        status=record.status,
        workflow=record.name,
        version=record.version,
        queue=record.queue,
        priority=Priority(record.priority),
        count=record.count,
        oldest_ready_at=record.oldest_ready_at,
    )


def worker_of(record: records.WorkerRecord) -> WorkerInfo:
    return WorkerInfo(
        id=record.id,
        host=record.host,
        pid=record.pid,
        build=record.build,
        queues=record.queues,
        serves=record.served,
        slots=record.slots,
        lease=record.lease,
        registered_at=record.registered_at,
        beat_at=record.beat_at,
        alive=record.alive,
        left_at=record.left_at,
        reaped_at=record.reaped_at,
        held=record.load.held,
        running=record.load.running,
        stuck=record.load.stuck,
        late=record.load.late,
        library=record.library,
        clock_off=record.clock_off,
        drain_at=record.drain_at,
    )


def queue_of(record: records.QueueRecord) -> QueueInfo:
    return QueueInfo(
        name=record.name,
        paused_at=record.paused_at,
        ready=record.ready,
        delayed=record.delayed,
        running=record.running,
        waiting=record.waiting,
        blocked=record.blocked,
        oldest_ready_at=record.oldest_ready_at,
        workers=record.workers,
        capped=record.capped,
    )


def event_of(record: records.Event) -> Event:
    return Event(
        cursor=record.cursor,
        at=record.at,
        kind=record.kind,
        run_id=record.run_id,
        workflow=record.name,
        queue=record.queue,
        data=_data(record),
    )


def _data(record: records.Event) -> Mapping[str, Any]:
    data = {} if record.data is None else msgspec.json.decode(record.data, type=dict[str, Any])
    if record.kind == "blocked" and record.run_id is not None and isinstance(message := data.get("message"), str):
        data["message"] = in_words(message, record.run_id)
    return data
