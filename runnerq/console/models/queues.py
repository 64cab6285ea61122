"""Queues as they are shown."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from runnerq.client.audit import AuditEntry
from runnerq.console.models.context import Context, bounded
from runnerq.console.models.fleet import Fleet, fleet, stats, stopping_words
from runnerq.persistence.records import QueueRecord, Status
from runnerq.workflow.given import check_name

LOOKED_AT = 100


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue. ``oldest_ready`` is how many seconds its longest waiting run has waited, ``obstacle`` what keeps it from
    being worked on: it is paused, or nobody serves it. A worker that is asked to stop is none of its ``workers``.
    ``paused_by`` and ``reason`` are what the audit has.

    ``capped``, of all queues or of none, says that more is ready, delayed or waiting than was counted: on this queue,
    or on one that is not listed.
    """

    name: str
    paused_at: datetime | None
    paused_by: str | None
    reason: str | None
    ready: int
    delayed: int
    running: int
    waiting: int
    blocked: int
    oldest_ready: float | None
    workers: int
    capped: bool
    obstacle: str | None


class QueueType(msgspec.Struct, frozen=True, kw_only=True):
    """What of one type is open on a queue, by status; ``workers`` is how many take it up there."""

    workflow: str
    version: int
    counts: tuple[tuple[Status, int], ...]
    workers: int


class QueueDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A queue with what is open on it, and the ids of the workers that serve it."""

    queue: QueueView
    types: tuple[QueueType, ...]
    worker_ids: tuple[str, ...]


@bounded
async def queues(context: Context) -> tuple[QueueView, ...]:
    """Those that have open runs, a living worker or a pause, by name."""
    who = await fleet(context)
    now, pauses = await context.now(), await _pauses(context, who.queues)
    return tuple(_view(who, each, now, pauses) for each in who.queues)


@bounded
async def queue(context: Context, name: str) -> QueueDetail:
    """One of them; also one that has nothing: it may be paused before its first run."""
    who = await fleet(context)
    found = who.queue(check_name(name, "the queue")) or QueueRecord(
        name=name, capped=any(each.capped for each in who.queues)
    )
    counts: defaultdict[tuple[str, int], Counter[Status]] = defaultdict(Counter)
    for depth in (await stats(context)).depths:
        if depth.queue == name:
            counts[depth.name, depth.version][depth.status] += depth.count
    types = tuple(
        QueueType(
            workflow=workflow,
            version=version,
            counts=tuple(of.items()),
            workers=len({*who.serving(workflow, name), *who.serving(f"{workflow}@{version}", name)}),
        )
        for (workflow, version), of in sorted(counts.items())
    )
    return QueueDetail(
        queue=_view(who, found, await context.now(), await _pauses(context, [found])),
        types=types,
        worker_ids=tuple(str(worker.id) for worker in who.working_on(name)),
    )


def _view(who: Fleet, record: QueueRecord, now: datetime, pauses: Mapping[str, AuditEntry]) -> QueueView:
    pause = pauses.get(record.name) if record.paused_at is not None else None
    oldest = record.oldest_ready_at
    return QueueView(
        name=record.name,
        paused_at=record.paused_at,
        paused_by=None if pause is None else pause.principal,
        reason=None if pause is None else pause.reason,
        ready=record.ready,
        delayed=record.delayed,
        running=record.running,
        waiting=record.waiting,
        blocked=record.blocked,
        oldest_ready=None if oldest is None else max(0.0, (now - oldest).total_seconds()),
        workers=len(who.working_on(record.name)),
        capped=record.capped,
        obstacle=_obstacle(who, record),
    )


def _obstacle(who: Fleet, record: QueueRecord) -> str | None:
    if record.paused_at is not None:
        return "it is paused"
    if who.working_on(record.name):
        return None
    stopping = who.stopping(record.name)
    return stopping_words(len(stopping), "it") if stopping else "no living worker works on it"


async def _pauses(context: Context, found: Sequence[QueueRecord]) -> dict[str, AuditEntry]:
    """Who paused what last, as far as the last hundred pauses go: a pause from code has no row there."""
    if not any(record.paused_at for record in found):
        return {}
    page = await context.client.audit.list(LOOKED_AT, action="queue-pause")
    return {each.target: each for each in reversed(page.items) if each.target is not None and each.outcome == "done"}
