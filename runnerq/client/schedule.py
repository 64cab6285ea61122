"""A schedule as it is made, and as it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypedDict, get_args

import msgspec

from runnerq.client.options import StartOptions, checked_options
from runnerq.cron import Cron, Every, Rule, cron, zone_of
from runnerq.errors import ConfigurationError
from runnerq.persistence.records import Missed, Overlap, Priority, ScheduleRecord, ScheduleRow
from runnerq.retry import RetryPolicy, seconds
from runnerq.serialization.sealing import unreadable
from runnerq.workflow.commands import LONGEST
from runnerq.workflow.given import check_name
from runnerq.workflow.options import Limit

SHORTEST = 0.1
"""Seconds between two ticks of an interval."""


class ScheduleOptions(TypedDict, total=False):
    """What the runs of a schedule are started with, as ``client.options`` takes it."""

    queue: str
    priority: Priority | int
    metadata: Mapping[str, str]
    timeout: float | timedelta
    retry: RetryPolicy | int
    limit: Limit | tuple[str, str] | str


@dataclass(frozen=True)
class Schedule:
    """A rule that starts runs: at the ticks of a ``cron`` expression in a time zone, or ``every`` so long.

    ``missed`` says what becomes of ticks that no worker was up for: none of them is run (``skip``), one run for the
    latest (``once``), or one for each (``all``). ``overlap`` says what a tick does while an earlier run is open: start
    another one (``allow``), pass over (``skip``), or ask that run to cancel and start (``cancel``). ``jitter`` has each
    run begin up to so much later. ``options`` are those of ``client.options`` for each run: queue, priority, metadata,
    timeout, retry, limit. Raises ConfigurationError for what cannot be.
    """

    name: str
    workflow: Callable[..., Any] | str
    args: tuple[Any, ...] = ()
    _: KW_ONLY
    cron: str | None = None
    every: float | timedelta | None = None
    zone: str = "UTC"
    missed: Missed = "once"
    overlap: Overlap = "skip"
    jitter: float | timedelta | None = None
    options: ScheduleOptions | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "the schedule's name")
        if isinstance(self.workflow, str):
            check_name(self.workflow, f"what schedule {self.name!r} starts")
        given: object = self.args
        if not isinstance(given, tuple | list):
            raise ConfigurationError(f"args={given!r} of schedule {self.name!r}: expected a tuple, such as (order,)")
        object.__setattr__(self, "args", tuple(given))
        self._check_when()
        _one_of(self.missed, Missed, "missed=")
        _one_of(self.overlap, Overlap, "overlap=")
        self.start_options()

    def _check_when(self) -> None:
        if (self.cron is None) == (self.every is None):
            has = "neither cron= nor every=" if self.cron is None else "both cron= and every="
            raise ConfigurationError(f"schedule {self.name!r} has {has}: give one of them")
        zone_of(self.zone)
        if self.cron is not None:
            Cron(self.cron, self.zone)
        elif not SHORTEST <= self.seconds_between() <= LONGEST:
            raise ConfigurationError(f"every={self.every!r}: expected {SHORTEST} seconds to 1,000 years")
        if self.seconds_of_jitter() > LONGEST:
            raise ConfigurationError(f"jitter={self.jitter!r} is over 1,000 years: it is in seconds")

    def seconds_between(self) -> float:
        """``every``, in seconds; 0 where there is a cron expression."""
        return 0.0 if self.every is None else seconds(self.every, "every=")

    def seconds_of_jitter(self) -> float:
        """``jitter``, in seconds; 0 where there is none."""
        return 0.0 if self.jitter is None else seconds(self.jitter, "jitter=")

    def start_options(self) -> StartOptions:
        """The options, checked."""
        options: object = self.options or {}
        if not isinstance(options, Mapping):
            raise ConfigurationError(f"options={options!r} of schedule {self.name!r}: expected a dict")
        given: dict[str, Any] = dict(options)
        takes = ScheduleOptions.__optional_keys__
        if unknown := sorted(given.keys() - takes):
            raise ConfigurationError(
                f"options= of schedule {self.name!r} names {', '.join(map(repr, unknown))}: its runs take "
                f"{', '.join(sorted(takes))}"
            )
        nothing: dict[str, Any] = dict.fromkeys(StartOptions.__struct_fields__)
        return checked_options(**{**nothing, **given})


class ScheduleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it stands. ``args`` are JSON builtins, ``every`` and ``jitter`` seconds; ``version`` is None where
    it starts by name. Where ``args`` cannot be opened here they are None, and ``sealed`` says by what they are sealed.
    ``options`` are what its runs are started with, as far as it is not left to what is declared.

    ``next_at`` is the next tick (None: paused, or none comes), ``last_at`` the last one that was run or passed over.
    ``runs`` are the ids of the last ones, the newest last; ``started`` and ``skipped`` (by ``overlap``) count ticks.
    """

    name: str
    workflow: str
    version: int | None
    args: Any
    sealed: str | None
    cron: str | None
    every: float | None
    zone: str
    missed: Missed
    overlap: Overlap
    jitter: float
    options: dict[str, Any]
    created_at: datetime
    changed_at: datetime
    paused_at: datetime | None
    next_at: datetime | None
    last_at: datetime | None
    runs: tuple[str, ...]
    started: int
    skipped: int

    def upcoming(self, count: int = 5) -> list[datetime]:
        """The next ticks, in UTC; none while it is paused."""
        if self.next_at is None:
            return []
        ticks = [self.next_at]
        ticks += islice(self._rule().ticks(self.next_at), max(0, count - 1))
        return ticks[:count]

    def words(self) -> str:
        """When it ticks, in English."""
        return self._rule().words()

    def _rule(self) -> Rule:
        return cron(self.cron or "", self.zone) if self.every is None else Every(self.every, self.changed_at)


def info_of(record: ScheduleRecord) -> ScheduleInfo:
    """A stored schedule in the API's shape."""
    row = record.row
    refused = unreadable(row.input, None, f"the input of schedule {row.name!r}")
    return ScheduleInfo(
        name=row.name,
        workflow=row.workflow,
        version=None if row.kind is None else row.version,
        args=msgspec.json.decode(row.input) if refused is None else None,
        sealed=None if refused is None else str(refused),
        cron=row.cron,
        every=row.every,
        zone=row.zone,
        missed=row.missed,
        overlap=row.overlap,
        jitter=row.jitter,
        options=_options(row),
        created_at=record.created_at,
        changed_at=record.since,
        paused_at=record.paused_at,
        next_at=record.next_at if record.paused_at is None else None,
        last_at=record.last_at,
        runs=record.runs,
        started=record.started,
        skipped=record.skipped,
    )


def _options(row: ScheduleRow) -> dict[str, Any]:
    given: dict[str, Any] = {"queue": row.queue, "priority": row.priority}
    if row.limit is not None:
        given["limit"] = [row.limit.scope, row.limit.key] if row.limit.key else row.limit.scope
    if row.metadata is not None:
        given["metadata"] = msgspec.json.decode(row.metadata)
    if row.options is not None:
        given |= msgspec.json.decode(row.options)
    return {name: value for name, value in given.items() if value is not None}


def _one_of(value: object, choice: Any, what: str) -> None:
    if value not in get_args(choice):
        raise ConfigurationError(f"{what}{value!r} is not one of {', '.join(get_args(choice))}")
