"""Schedules as they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from runnerq.client.schedule import ScheduleInfo
from runnerq.console.models.context import Context, bounded
from runnerq.console.models.payloads import Payload, shown_of
from runnerq.console.models.records import Link, made_at
from runnerq.console.models.redaction import Spot
from runnerq.errors import ConfigurationError, ScheduleNotFound
from runnerq.persistence.records import KEPT_RUNS, Priority, Status

UPCOMING = 5
MOST_RUNS = 1_000
"""Runs that are looked up for the list of all: the more schedules there are, the fewer of each."""
AT_ONCE = 100
MOST_READ = 2_000_000
"""Characters of results and errors, after which no more runs are looked up for the list."""


class ScheduledRun(Link, frozen=True, kw_only=True):
    """A run of a schedule. ``took`` is seconds from when it was started, so with its wait for a worker, to its end."""

    took: float | None = None


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule. ``words`` is when it ticks in English, ``next`` the next five ticks (none while paused),
    ``last_runs`` the last 20 that it started, the newest first (in the list of all: those of them that have ended, as
    far as they can be looked up at once, and the newest)."""

    name: str
    workflow: str
    version: int | None
    args: Payload | None
    cron: str | None
    every: float | None
    zone: str
    words: str
    missed: str
    overlap: str
    jitter: float
    options: tuple[tuple[str, Any], ...]
    created_at: datetime
    changed_at: datetime
    paused_at: datetime | None
    last_at: datetime | None
    next: tuple[datetime, ...]
    last_runs: tuple[ScheduledRun, ...]
    started: int
    skipped: int


@bounded
async def schedules(context: Context) -> tuple[ScheduleView, ...]:
    """All, by name, each with those of its last runs that have ended, and its newest."""
    found = await context.client.schedules.list()
    depth = min(KEPT_RUNS, max(1, MOST_RUNS // max(1, len(found))))
    newest = [info.runs[-1] for info in found if info.runs]
    older = [info.runs[-back] for back in range(2, depth + 1) for info in found if len(info.runs) >= back]
    runs = dict(await context.cache.get("ends of scheduled runs", lambda: _ended(context, newest, older)))
    runs |= {run_id: await _run(context, run_id) for run_id in newest if run_id not in runs}
    return tuple(_view(context, info, [runs[each] for each in reversed(info.runs) if each in runs]) for info in found)


@bounded
async def schedule(context: Context, name: str) -> ScheduleView:
    """One, with its last runs. Raises ScheduleNotFound."""
    info = await context.client.schedules.get(name)
    if info is None:
        raise ScheduleNotFound(name)
    ended = await _ended(context, info.runs)
    return _view(context, info, [ended.get(each) or await _run(context, each) for each in reversed(info.runs)])


async def _ended(context: Context, first: Sequence[str], rest: Sequence[str] = ()) -> dict[str, ScheduledRun]:
    """Those of these runs that have ended. The first are read at once; of the rest so many at a time, while what they
    answered is no great deal: it comes along."""
    ended: dict[str, ScheduledRun] = {}
    read = 0
    for some in (first, *(rest[at : at + AT_ONCE] for at in range(0, len(rest), AT_ONCE))):
        if read > MOST_READ:
            break
        for each in await context.client.storage.outcomes(some):
            read += len(each.result or "") + len(each.error or "")
            took = _took(each.run_id, each.ended_at)
            ended[each.run_id] = ScheduledRun(id=each.run_id, status=Status(each.status), took=took)
    return ended


async def _run(context: Context, run_id: str) -> ScheduledRun:
    """A run that goes on, or has ended just now, or is gone."""
    record = await context.client.storage.run(run_id)
    if record is None:
        return ScheduledRun(id=run_id, status=None)
    return ScheduledRun(id=run_id, status=record.status, took=_took(run_id, record.ended_at))


def _took(run_id: str, ended_at: datetime | None) -> float | None:
    return None if ended_at is None else max(0.0, (ended_at - made_at(run_id)).total_seconds())


def _view(context: Context, info: ScheduleInfo, runs: Sequence[ScheduledRun]) -> ScheduleView:
    spot = Spot("schedule", "", info.workflow)
    args = shown_of(context, spot, info.args) if info.sealed is None else Payload(text="", sealed=info.sealed)
    words, upcoming = _ticks(info)
    return ScheduleView(
        name=info.name,
        workflow=info.workflow,
        version=info.version,
        args=args,
        cron=info.cron,
        every=info.every,
        zone=info.zone,
        words=words,
        missed=info.missed,
        overlap=info.overlap,
        jitter=info.jitter,
        options=tuple(context.redact(spot, _options(info)).items()),
        created_at=info.created_at,
        changed_at=info.changed_at,
        paused_at=info.paused_at,
        last_at=info.last_at,
        next=upcoming,
        last_runs=tuple(runs),
        started=info.started,
        skipped=info.skipped,
    )


def _options(info: ScheduleInfo) -> dict[str, Any]:
    """The options, with a priority by its name."""
    given = dict(info.options)
    if "priority" in given:
        given["priority"] = Priority(given["priority"]).name.lower()
    return given


def _ticks(info: ScheduleInfo) -> tuple[str, tuple[datetime, ...]]:
    try:
        return info.words(), tuple(info.upcoming(UPCOMING))
    except ConfigurationError:  # a rule of a newer runnerq, or a zone of a newer tzdata
        return "as another version of runnerq knows", ()
