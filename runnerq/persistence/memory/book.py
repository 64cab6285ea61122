"""Everything that the in-memory storage keeps, and the few changes that every write is made of.

Rules
- ``Open`` is a run's one lock row while it is open; a run without one has an outcome.
- Whatever is sent to a run counts its inbox up (``arrive``), and makes it ready if it is parked and wants it.
- A run becomes ready in ``make_ready`` and nowhere else; its rank is fixed there.
- Nothing here checks a token: whoever calls has done so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from runnerq.persistence.memory.wakeups import Heard
from runnerq.persistence.records import (
    HEAD_START,
    VISIBLY_GONE,
    Attempt,
    AuditRecord,
    BlockRecord,
    Definition,
    Event,
    Kind,
    Limit,
    LimitRule,
    Load,
    Mail,
    NewRun,
    Outcome,
    Park,
    ScheduleRecord,
    Status,
    Stored,
    WorkerRow,
    heard_within,
)
from runnerq.workflow.journal import Row


@dataclass(slots=True)
class Run:
    """A run's cold part: written once, but for its generation and the time it was first claimed."""

    new: NewRun
    created_at: datetime
    root_id: str
    generation: int = 1
    started_at: datetime | None = None


@dataclass(slots=True)
class Open:
    """A run's lock: one for every open run.

    ``left`` is the token under which a turn last parked the run or gave it back, so that the same turn, sent again, is
    known. ``needs`` counts down from ``park.needs``. ``parked`` is the inbox count of the park, ``cancelled`` that of a
    requested cancel. ``faults`` counts blocks in a row by a fault of the worker; ``reopened_at`` is set once it was
    opened again. ``exempt`` ones count against no limit any more.
    """

    run_id: str
    state: Stored
    rank: datetime
    due_at: datetime | None = None
    token: int = 0
    left: int = 0
    worker_id: int | None = None
    inbox: int = 0
    park: Park = field(default_factory=Park)
    needs: int = 0
    parked_at: datetime | None = None
    parked: int = 0
    cancel: str | None = None
    cancelled: int = 0
    crashes: int = 0
    faults: int = 0
    reopened_at: datetime | None = None
    exempt: bool = False


@dataclass(slots=True)
class Box:
    """A run's mailbox. ``counted`` are the (channel, dedup) that have come, whether or not they were taken since."""

    mail: dict[int, Mail] = field(default_factory=dict)
    counted: set[tuple[str, str]] = field(default_factory=set)


@dataclass(slots=True)
class Worker:
    """A registered worker. ``connected`` is None before its first beat."""

    row: WorkerRow
    registered_at: datetime
    beat_at: datetime
    connected: bool | None = None
    reaped_at: datetime | None = None
    left_at: datetime | None = None
    drain_at: datetime | None = None
    load: Load = field(default_factory=Load)

    @property
    def reaped(self) -> bool:
        """It counts as gone for ever, whoever said so."""
        return self.reaped_at is not None

    def lives(self, now: datetime) -> bool:
        """It was heard of lately."""
        quiet = VISIBLY_GONE if self.connected is False else heard_within(self.row.lease)
        return not self.reaped and now - self.beat_at <= timedelta(seconds=min(quiet, self.row.lease))


@dataclass(slots=True)
class Book:
    """All tables. ``heard`` gathers what the present write changed; ``settled`` are the positions of the present
    generation that were answered after something was said of them. ``rules`` of limits stand with the time they were
    changed, ``admissions`` are those that a rate remembers, by bucket, ``turns`` when each limit was admitted last."""

    runs: dict[str, Run] = field(default_factory=dict)
    open: dict[str, Open] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    ended_by: dict[str, int] = field(default_factory=dict)
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)
    journals: dict[tuple[str, int], dict[int, Row]] = field(default_factory=dict)
    attempts: dict[str, dict[str, Attempt]] = field(default_factory=dict)
    settled: dict[str, set[str]] = field(default_factory=dict)
    boxes: dict[str, Box] = field(default_factory=dict)
    blocks: dict[str, BlockRecord] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    workers: dict[int, Worker] = field(default_factory=dict)
    builds: dict[str, datetime] = field(default_factory=dict)
    definitions: dict[tuple[Kind, str, int], Definition] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    paused: dict[str, datetime] = field(default_factory=dict)
    rules: dict[str, tuple[LimitRule, datetime]] = field(default_factory=dict)
    admissions: dict[tuple[str, str], list[datetime]] = field(default_factory=dict)
    turns: dict[Limit, tuple[datetime, int]] = field(default_factory=dict)
    admitted: int = 0
    schedules: dict[str, ScheduleRecord] = field(default_factory=dict)
    doomed: dict[str, datetime] = field(default_factory=dict)
    audit: dict[str, AuditRecord] = field(default_factory=dict)
    swept_to: str = ""
    retained_to: str = ""
    last_mail: int = 0
    heard: Heard = field(default_factory=Heard)

    def make_ready(self, row: Open, since: datetime) -> None:
        """Let the run be claimed; it has been waiting for that since then."""
        new = self.runs[row.run_id].new
        row.state = "pending"
        row.due_at = None
        row.parked_at = None
        row.rank = rank(new.priority, since)
        self.heard.queues.add(new.queue)

    def limit_of(self, row: Open) -> Limit | None:
        """What the open run counts against."""
        return None if row.exempt else self.runs[row.run_id].new.limit

    def leave(self, row: Open) -> None:
        """The run is held no longer: what waits for the place that it may have had is to be looked at."""
        limit = self.limit_of(row)
        if limit is None or row.state != "running":
            return
        # What holds the places by then may be waiting for it, or there may be none.
        row.exempt = row.cancel is not None
        for other in self.open.values():
            new = self.runs[other.run_id].new
            if new.limit is not None and new.limit.scope == limit.scope and other.state == "pending":
                self.heard.queues.add(new.queue)

    def arrive(self, row: Open, count: int = 1) -> None:
        """Something has come for the run: its holder, if it has one, is to hear of it."""
        row.inbox += count
        if row.state == "running" and row.worker_id is not None:
            self.heard.workers.add(row.worker_id)

    def end(self, outcome: Outcome, now: datetime) -> None:
        """The run ends: it loses its lock row, and its parent is told."""
        run_id = outcome.run_id
        self.outcomes[run_id] = outcome
        row = self.open.pop(run_id, None)
        if row is not None:
            self.leave(row)
            self.ended_by[run_id] = row.token
        self.forget_attempts(run_id)
        self.blocks.pop(run_id, None)
        self.heard.runs.add(run_id)
        self.note(outcome.status, now, run_id, {"reason": outcome.reason})
        parent_id = self.runs[run_id].new.parent_id
        parent = self.open.get(parent_id) if parent_id is not None else None
        if parent is not None:
            self._tell(parent, outcome, now)

    def forget_attempts(self, run_id: str) -> None:
        """A generation is over."""
        self.attempts.pop(run_id, None)
        self.settled.pop(run_id, None)

    def note(
        self,
        kind: str,
        now: datetime,
        run_id: str | None = None,
        data: Mapping[str, object] | None = None,
        *,
        queue: str | None = None,
    ) -> None:
        """Something happened: it stands in the tail of events. What is None is not said."""
        new = self.runs[run_id].new if run_id is not None else None
        said = {name: value for name, value in data.items() if value is not None} if data is not None else None
        event = Event(
            cursor=str(len(self.events) + 1),
            at=now,
            kind=kind,
            run_id=run_id,
            name=new.name if new is not None else None,
            queue=new.queue if new is not None else queue,
            data=msgspec.json.encode(said).decode() if said else None,
        )
        self.events.append(event)

    def _tell(self, parent: Open, outcome: Outcome, now: datetime) -> None:
        self.arrive(parent)
        wanted = parent.park.children is None or outcome.run_id in parent.park.children
        if parent.state != "waiting" or not wanted:
            return
        parent.needs -= 1
        if outcome.status != "completed" or parent.needs <= 0:
            self.make_ready(parent, now)

    def shown(self, run_id: str) -> Status:
        """The status that a reader sees. What is due is shown as it was until it is woken."""
        row = self.open.get(run_id)
        if row is None:
            return Status(self.outcomes[run_id].status)
        if row.state == "pending" and row.due_at is not None:
            return Status.SCHEDULED if self.runs[run_id].started_at is None else Status.RETRYING
        return Status(row.state)


def rank(priority: int, since: datetime) -> datetime:
    """Smaller goes first."""
    return since - timedelta(seconds=HEAD_START[priority])
