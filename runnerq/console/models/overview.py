"""How everything is, at a glance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

from runnerq.client.activity import Throughput
from runnerq.console.models.context import Context, bounded
from runnerq.console.models.filters import RunQuery
from runnerq.console.models.fleet import Fleet, fleet, silence_words, stats, worker_words
from runnerq.console.models.runs import Count, counted
from runnerq.console.names import quoted
from runnerq.persistence.records import RunFilter, Stats, Status

SKEW = 1.0
"""Seconds that clocks may be apart."""
WORKER_SKEW = 2.0
"""The same of a worker's: it is measured with a beat, which may take its time."""
MOST_FAILING = 10

Level: TypeAlias = Literal["error", "warning", "note"]
Window: TypeAlias = Literal["1h", "24h"]


class Tile(msgspec.Struct, frozen=True, kw_only=True):
    """A number that leads to the list it counts: ``params`` are those of ``/runs`` (None: it leads elsewhere)."""

    name: str
    label: str
    count: Count
    params: tuple[tuple[str, str], ...] | None


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """Something that needs somebody. ``page`` and ``params`` are where to go: ``queues/mail``, ``runs`` ...

    A name in ``page`` is percent-encoded, as the API takes one: as an address it is to be so once more.
    """

    level: Level
    text: str
    page: str
    params: tuple[tuple[str, str], ...] = ()


class Failing(msgspec.Struct, frozen=True, kw_only=True):
    """A type that has failed in the last day: how many ends that was, and of how many. A run that was opened again may
    have ended several times."""

    workflow: str
    failed: Count
    ended: Count


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """How everything is at ``at``, database time. ``oldest_ready`` is how many seconds the run that waits longest has
    waited for a worker. ``empty``: no run was ever started."""

    at: datetime
    tiles: tuple[Tile, ...]
    alerts: tuple[Alert, ...]
    failing: tuple[Failing, ...]
    oldest_ready: float | None
    workers: int
    slots: int
    held: int
    empty: bool

    def tile(self, name: str) -> Tile:
        """The tile of this name: ``running``, ``ready``, ``waiting``, ``retrying``, ``scheduled``, ``blocked``,
        ``failed``, ``dead_letter``."""
        return next(tile for tile in self.tiles if tile.name == name)


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A span of time: how many runs were started and ended in it, and how long those took (seconds; None: none)."""

    at: datetime
    started: int
    completed: int
    failed: int
    dead_letter: int
    cancelled: int
    p50: float | None
    p95: float | None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Points of ``step`` seconds each from ``since`` to ``until``, without a hole."""

    since: datetime
    until: datetime
    step: int
    points: tuple[Point, ...]

    @property
    def ended(self) -> int:
        return sum(point.completed + point.failed + point.dead_letter + point.cancelled for point in self.points)


@bounded
async def overview(context: Context) -> Overview:
    """Tiles, alerts and what fails; asked once in two seconds."""
    return await context.cache.get("overview", lambda: _overview(context))


@bounded
async def activity(context: Context, window: Window = "1h", workflow: str | None = None) -> Series:
    """What was started and ended in the last hour by minutes, or in the last day by quarters of an hour."""
    return await context.cache.get(("activity", window, workflow), lambda: _activity(context, window, workflow))


async def _overview(context: Context) -> Overview:
    open_ = await stats(context)
    who = await fleet(context)
    alive = [worker for worker in who.workers if worker.alive]
    ready = [depth.oldest_ready_at for depth in open_.depths if depth.oldest_ready_at is not None]
    return Overview(
        at=open_.at,
        tiles=await _tiles(context, open_),
        alerts=(*_alerts(open_, who), *await _skew(context)),
        failing=await _failing(context, open_.at),
        oldest_ready=max(0.0, (open_.at - min(ready)).total_seconds()) if ready else None,
        workers=len(alive),
        slots=sum(worker.slots for worker in alive),
        held=sum(worker.load.held for worker in alive),
        empty=not open_.depths and not (await context.client.storage.list_runs(RunFilter(), 1)).runs,
    )


async def _tiles(context: Context, open_: Stats) -> tuple[Tile, ...]:
    counts = Counter[Status]()
    for depth in open_.depths:
        counts[depth.status] += depth.count
    tiles = [
        Tile(name=name, label=label, count=Count(counts[status], open_.capped), params=(("status", status.value),))
        for name, label, status in _OPEN
    ]
    for name, label, query in _ENDED:
        count = await counted(context, query.to_filter(open_.at))
        tiles.append(Tile(name=name, label=label, count=count, params=tuple(query.to_params())))
    return tuple(tiles)


def _alerts(open_: Stats, who: Fleet) -> Iterator[Alert]:
    blocked = sum(depth.count for depth in open_.depths if depth.status is Status.BLOCKED)
    if blocked:
        text = f"{_runs(blocked)} blocked: each says why, and what lets it go on"
        yield Alert(level="error", text=text, page="blocked")
    yield from _unserved(open_, who)
    paused = {queue.name: queue for queue in who.queues if queue.paused_at is not None}
    for name, record in paused.items():
        held = record.ready or record.capped
        waiting = f"{_runs(record.ready, capped=record.capped)} ready on it" if held else "nothing is ready on it yet"
        text = f"Queue {name} is paused: {waiting}"
        yield Alert(level="warning" if held else "note", text=text, page=f"queues/{quoted(name)}")
    for worker in who.workers:
        where = worker_words(worker)
        silent = worker.silent_for(who.at)
        if silent is not None:
            text = f"A worker on {where} is silent for {silence_words(silent)}; its runs are not taken from it yet"
            yield Alert(level="error", text=text, page=f"workers/{worker.id}")
        elif worker.alive and worker.load.stuck:
            text = f"A worker on {where} has {worker.load.stuck:,} threads or tasks that do not come back"
            yield Alert(level="warning", text=text, page=f"workers/{worker.id}")
        if worker.alive and worker.clock_off is not None and abs(worker.clock_off) > WORKER_SKEW:
            text = f"The clock of a worker on {where} is {_apart(worker.clock_off)}"
            yield Alert(level="warning", text=text, page=f"workers/{worker.id}")


def _unserved(open_: Stats, who: Fleet) -> Iterator[Alert]:
    """What is ready and nobody takes up; and what is to go on later, where all who serve it are asked to stop."""
    paused = {queue.name for queue in who.queues if queue.paused_at is not None}
    ready, later = Counter[tuple[str, int, str]](), Counter[tuple[str, int, str]]()
    for depth in open_.depths:
        if depth.status is not Status.BLOCKED and depth.queue not in paused:
            kind = ready if depth.status is Status.PENDING else later
            kind[depth.name, depth.version, depth.queue] += depth.count
    for status, (name, version, queue), count in (
        *(("ready", of, count) for of, count in ready.most_common()),
        *(("open", of, count) for of, count in later.most_common() if of not in ready),
    ):
        is_ready = status == "ready"
        served = [name, f"{name}@{version}"]
        stopping = any(who.stopping(queue, each) for each in served)
        if any(who.serving(each, queue) for each in served) or not (is_ready or stopping):
            continue
        what = f"{served[1] if version else name} on queue {queue}"
        why = f"Every worker that serves {what} is asked to stop" if stopping else f"No living worker serves {what}"
        yield Alert(
            level="error" if is_ready else "warning",
            text=f"{why}: {_runs(count, capped=open_.capped)} {status}",
            page="runs",
            params=(*((("status", "pending"),) if is_ready else ()), ("workflow", name), ("queue", queue)),
        )


async def _skew(context: Context) -> tuple[Alert, ...]:
    before = datetime.now(UTC)
    database = await context.now()
    after = datetime.now(UTC)
    ahead = (before + (after - before) / 2 - database).total_seconds()
    if abs(ahead) <= SKEW + (after - before).total_seconds():
        return ()
    text = f"The clock of this machine is {_apart(ahead)}"
    return (Alert(level="warning", text=text, page="workers"),)


def _apart(ahead: float) -> str:
    return f"{abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} the database's"


async def _failing(context: Context, now: datetime) -> tuple[Failing, ...]:
    day = await by_workflow(context, now)
    failing = [
        Failing(workflow=each.workflow, failed=Count(failed), ended=Count(each.completed + failed + each.cancelled))
        for each in day
        if each.workflow is not None and (failed := each.failed + each.dead_letter)
    ]
    return tuple(sorted(failing, key=lambda each: -each.failed.n)[:MOST_FAILING])


async def by_workflow(context: Context, now: datetime) -> list[Throughput]:
    """What each type did in the last day; asked once in two seconds."""

    async def ask() -> list[Throughput]:
        return await context.client.activity_by_workflow(now - timedelta(days=1), now)

    return await context.cache.get("by workflow", ask)


async def _activity(context: Context, window: Window, workflow: str | None) -> Series:
    step, count = _STEPS[window]
    last = (await context.now()).timestamp() // step
    since = datetime.fromtimestamp((last - count + 1) * step, UTC)
    until = since + timedelta(seconds=step * count)
    found = await context.client.activity(since, until, workflow=workflow, span=step)
    return Series(
        since=since,
        until=until,
        step=step,
        points=tuple(
            Point(
                at=each.at,
                started=each.started,
                completed=each.completed,
                failed=each.failed,
                dead_letter=each.dead_letter,
                cancelled=each.cancelled,
                p50=each.p50,
                p95=each.p95,
            )
            for each in found
        ),
    )


def _runs(count: int, *, capped: bool = False) -> str:
    """So many runs are, or so many or more, in words."""
    return "1 run is" if count == 1 and not capped else f"{count:,}{'+' if capped else ''} runs are"


_OPEN = (
    ("running", "Running", Status.RUNNING),
    ("ready", "Ready", Status.PENDING),
    ("waiting", "Waiting", Status.WAITING),
    ("retrying", "Retrying", Status.RETRYING),
    ("scheduled", "Scheduled", Status.SCHEDULED),
    ("blocked", "Blocked", Status.BLOCKED),
)
_ENDED = (
    ("failed", "Failed, 24 h", RunQuery(status=(Status.FAILED,), ended_since="24h")),
    ("dead_letter", "Dead letter", RunQuery(status=(Status.DEAD_LETTER,))),
)
_STEPS: Mapping[Window, tuple[int, int]] = {"1h": (60, 60), "24h": (900, 96)}
