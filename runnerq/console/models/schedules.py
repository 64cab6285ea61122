"""Schedules as they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from runnerq.client.schedule import ScheduleInfo
from runnerq.console.models.context import Context, bounded
from runnerq.console.models.payloads import Payload, shown_of
from runnerq.console.models.records import Link, link_to
from runnerq.console.models.redaction import Spot
from runnerq.errors import ConfigurationError, ScheduleNotFound
from runnerq.persistence.records import Priority, Status

UPCOMING = 5


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule. ``words`` is when it ticks in English, ``next`` the next five ticks (none while paused),
    ``last_runs`` the last ones that it started, the newest first (in the list of all: the newest alone)."""

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
    last_runs: tuple[Link, ...]
    started: int
    skipped: int


@bounded
async def schedules(context: Context) -> tuple[ScheduleView, ...]:
    """All, by name."""
    found = await context.client.schedules.list()
    newest = [info.runs[-1] for info in found if info.runs]
    links = await _links(context, newest)
    return tuple(_view(context, info, [links[each] for each in info.runs[-1:]]) for info in found)


@bounded
async def schedule(context: Context, name: str) -> ScheduleView:
    """One, with its last runs. Raises ScheduleNotFound."""
    info = await context.client.schedules.get(name)
    if info is None:
        raise ScheduleNotFound(name)
    links = await _links(context, info.runs)
    return _view(context, info, [links[each] for each in reversed(info.runs)])


async def _links(context: Context, run_ids: Sequence[str]) -> dict[str, Link]:
    """Links to runs. Of many that have ended, all are asked for at once."""
    ended = {each.run_id: Status(each.status) for each in await context.client.storage.outcomes(run_ids)}
    links = {run_id: Link(id=run_id, status=status) for run_id, status in ended.items()}
    for run_id in run_ids:
        if run_id not in links:
            links[run_id] = await link_to(context, run_id)
    return links


def _view(context: Context, info: ScheduleInfo, runs: Sequence[Link]) -> ScheduleView:
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
