"""Records of schedules: rules that start runs, when they are due, and one firing of them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from runnerq.persistence.records.base import Kind, Struct
from runnerq.persistence.records.limits import Limit
from runnerq.persistence.records.starting import NewRun

Missed: TypeAlias = Literal["skip", "once", "all"]
Overlap: TypeAlias = Literal["allow", "skip", "cancel"]

KEPT_RUNS = 20
"""How many of its last runs a schedule names. Overlap is judged on those of them that are open."""


class ScheduleRow(Struct, frozen=True, kw_only=True):
    """A schedule as it is put. ``every`` and ``jitter`` are seconds; ``cron`` and ``every`` exclude each other.

    ``kind`` is None where it starts by name: then the version, and what is not given here, is what is known of the name
    when it fires. ``input``, ``metadata`` and ``options`` are JSON texts, as those of a NewRun.
    """

    name: str
    workflow: str
    input: str
    kind: Kind | None = None
    version: int = 0
    cron: str | None = None
    every: float | None = None
    zone: str = "UTC"
    missed: Missed = "once"
    overlap: Overlap = "skip"
    jitter: float = 0.0
    queue: str | None = None
    priority: int | None = None
    metadata: str | None = None
    options: str | None = None
    limit: Limit | None = None


class ScheduleRecord(Struct, frozen=True, kw_only=True):
    """A schedule as it stands. ``serial`` is another one after every change: whoever changes it names the one seen.

    ``since`` is when it was put as it is; intervals count from there. ``next_at`` is its next tick, due or to come
    (None: none comes), ``last_at`` the last one that was fired or passed over. ``runs`` are the last ones, the newest
    last; ``started`` and ``skipped`` count ticks. ``behind``: missed ticks are left that go with the last firing.
    ``sealed_by`` names the codecs by which its input is sealed where it is stored, as far as they are known here.
    """

    row: ScheduleRow
    serial: int
    since: datetime
    created_at: datetime
    next_at: datetime | None = None
    last_at: datetime | None = None
    paused_at: datetime | None = None
    runs: tuple[str, ...] = ()
    started: int = 0
    skipped: int = 0
    behind: bool = False
    sealed_by: str = ""


class DueSchedule(Struct, frozen=True):
    """A schedule that is due: which one, as it is known by this serial, and since when."""

    name: str
    serial: int
    next_at: datetime


class DueSchedules(Struct, frozen=True, kw_only=True):
    """Schedules that are due at ``now`` (database time), the longest due first, and when the next of the others is."""

    now: datetime
    schedules: tuple[DueSchedule, ...] = ()
    next_at: datetime | None = None


class Firing(Struct, frozen=True, kw_only=True):
    """One firing of a schedule: the runs of its ticks, each with the key of its tick, in their order.

    ``serial`` is what was seen. ``last_at`` and ``next_at`` are what is to be on record afterwards. ``overlap`` says
    what becomes of it if one of the schedule's last runs is open: nothing of it is started (``skip``), or those are
    asked to cancel. ``behind``: more of what was missed will follow, and goes with what this one starts; of one that is
    passed over nothing is on record as behind, so that what follows is judged by itself.
    """

    name: str
    serial: int
    last_at: datetime
    next_at: datetime | None
    runs: tuple[NewRun, ...] = ()
    overlap: Overlap = "allow"
    behind: bool = False


class Fired(Struct, frozen=True, kw_only=True):
    """What became of a firing: the runs that stand for its ticks, or how many ticks were passed over because an earlier
    run is open; and the runs that were asked to cancel."""

    runs: tuple[str, ...] = ()
    skipped: int = 0
    cancelled: tuple[str, ...] = ()
