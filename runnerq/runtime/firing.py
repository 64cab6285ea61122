"""What a due schedule does now: which of its ticks have a run, and when the next one comes. Pure.

Rules
- The tick that is due is on time if it is not older than ``ON_TIME``; all others that are due were missed.
- ``skip`` leaves out what was missed, ``once`` has one run for the latest tick, ``all`` has one for each, the oldest
  first, so many a firing; the rest follows.
- Overlap is judged for each firing until one starts something; what follows then goes with it: the runs of one
  catching up are not in each other's way.
- Late runs are ready now, and not since their tick: they must not push all else back.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import assert_never

import msgspec

from runnerq.cron import Rule
from runnerq.persistence.records import Definition, Firing, NewRun, ScheduleRecord
from runnerq.persistence.scheduling import delayed, most_at_once, rule_of, run_of

ON_TIME = timedelta(seconds=60)
"""How late a tick may be fired and still count as one that somebody was up for."""


def firing_of(record: ScheduleRecord, now: datetime, known: Sequence[Definition] = ()) -> Firing:
    """The firing of a schedule that is due; ``known`` is what is known of its name, where it starts by name.

    ConfigurationError if this code cannot read its rule.
    """
    if record.next_at is None:
        raise AssertionError(f"schedule {record.row.name!r} is not due")
    rule = rule_of(record.row, record.since)
    ticks = _ticks(record, rule, record.next_at, now)
    last_at = ticks[-1] if ticks else _latest(rule, record.next_at, now)
    next_at = rule.next(last_at)
    return Firing(
        name=record.row.name,
        serial=record.serial,
        last_at=last_at,
        next_at=next_at,
        runs=tuple(_run(record, tick, now, known) for tick in ticks),
        overlap="allow" if record.behind else record.row.overlap,
        behind=record.row.missed == "all" and next_at is not None and next_at <= now,
    )


def _ticks(record: ScheduleRecord, rule: Rule, first: datetime, now: datetime) -> list[datetime]:
    """The ticks that have a run, in order."""
    match record.row.missed:
        case "all":
            following = takewhile(lambda tick: tick <= now, rule.ticks(first))
            return [first, *islice(following, most_at_once(record.row) - 1)]
        case "once":
            return [_latest(rule, first, now)]
        case "skip":
            latest = _latest(rule, first, now)
            return [latest] if now - latest <= ON_TIME else []
        case _:
            assert_never(record.row.missed)


def _latest(rule: Rule, first: datetime, now: datetime) -> datetime:
    return rule.last(first, now) or first


def _run(record: ScheduleRecord, tick: datetime, now: datetime, known: Sequence[Definition]) -> NewRun:
    run = run_of(record.row, tick, known)
    due_at = delayed(record.row, tick)
    return run if due_at <= now else msgspec.structs.replace(run, due_at=due_at)
