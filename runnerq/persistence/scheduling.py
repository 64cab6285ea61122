"""What a stored schedule comes to: its ticks, and the run of a tick. Pure; clients and workers mean the same by it.

Rules
- A tick's run has the key ``<schedule>@<tick>``, so that a tick is one run, whoever starts it and however often.
- A schedule that starts by name takes what is known of the name now: the highest version that a living worker serves,
  else the highest known; with none known the run waits for a worker that knows the name.
- Jitter comes from the schedule's name and the tick: whoever works it out has the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

import msgspec

from runnerq.cron import Every, Rule, cron
from runnerq.errors import ConfigurationError
from runnerq.ids import new_run_id
from runnerq.persistence.records import DEFAULT_QUEUE, Definition, NewRun, Priority, ScheduleRow
from runnerq.serialization.sealing import unreadable

SCHEDULE, SCHEDULED_FOR = "schedule", "scheduled_for"
"""What the metadata of its runs calls the schedule and the tick."""

MOST_RUNS, MOST_INPUT = 1000, 1 << 23
"""Runs of a schedule that are started in one commit, and characters of their arguments."""

_UNKNOWN = Definition(kind="workflow", name="", version=0, queue=DEFAULT_QUEUE, build="")


def rule_of(row: ScheduleRow, since: datetime) -> Rule:
    """When its ticks come. ConfigurationError if this code cannot read it."""
    if row.cron is not None:
        return cron(row.cron, row.zone)
    if row.every is None:
        raise ConfigurationError(f"schedule {row.name!r} has neither cron nor every: put it again")
    return Every(row.every, since)


def tick_text(tick: datetime) -> str:
    """A tick as keys and metadata have it: ISO, in UTC."""
    return tick.astimezone(UTC).isoformat().replace("+00:00", "Z")


def delayed(row: ScheduleRow, tick: datetime) -> datetime:
    """When the run of this tick is due."""
    if not row.jitter:
        return tick
    drawn = int.from_bytes(blake2b(f"{row.name}@{tick_text(tick)}".encode(), digest_size=8).digest()) / 2**64
    return tick + timedelta(seconds=row.jitter * drawn)


def check_readable(row: ScheduleRow) -> None:
    """Raises PayloadUnreadable if its arguments are sealed, and could not be opened here."""
    refused = unreadable(row.input, None, f"the input of schedule {row.name!r}")
    if refused is not None:
        raise refused


def most_at_once(row: ScheduleRow) -> int:
    """How many of its runs are started in one commit; at least one."""
    return max(1, min(MOST_RUNS, MOST_INPUT // len(row.input)))


def run_of(row: ScheduleRow, tick: datetime, known: Sequence[Definition] = ()) -> NewRun:
    """The run of this tick, ready at once; ``known`` is what is known of its name, where it starts by name.

    Raises PayloadUnreadable if its arguments are sealed, and could not be opened here.
    """
    check_readable(row)
    defined = _declared(row) or next((each for each in known if each.served), known[0] if known else _UNKNOWN)
    declared = _decoded(defined.options)
    metadata = {**declared.get("metadata", {}), **_decoded(row.metadata)}
    metadata |= {SCHEDULE: row.name, SCHEDULED_FOR: tick_text(tick)}
    return NewRun(
        id=new_run_id(),
        kind=defined.kind,
        name=row.workflow,
        version=defined.version,
        queue=row.queue or defined.queue,
        priority=_first(row.priority, declared.get("priority"), Priority.NORMAL),
        input=row.input,
        key=f"{row.name}@{tick_text(tick)}",
        metadata=msgspec.json.encode(metadata).decode(),
        options=row.options,
        limit=row.limit,
    )


def _declared(row: ScheduleRow) -> Definition | None:
    """What the row itself says, where it was put with a function: queue, priority and metadata stand in it."""
    if row.kind is None:
        return None
    return msgspec.structs.replace(_UNKNOWN, kind=row.kind, version=row.version)


def _decoded(text: str | None) -> dict[str, Any]:
    return {} if text is None else msgspec.json.decode(text, type=dict[str, Any])


def _first(*priorities: int | None) -> int:
    return next(int(each) for each in priorities if each is not None)
