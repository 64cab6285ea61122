"""What people see of queues, workers, schedules, limits, dead letters and the audit, as sheets: one function a kind of
thing."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from datetime import datetime

from runnerq.cli.sheets import Cell, Fields, Styled, Table, fields, lines, table
from runnerq.cli.tables import clock_text, json_text
from runnerq.console.models.audit import AuditRow
from runnerq.console.models.dead_letters import FailureGroup
from runnerq.console.models.fleet import silence_words
from runnerq.console.models.limits import LimitView
from runnerq.console.models.overview import Overview
from runnerq.console.models.queues import QueueDetail, QueueView
from runnerq.console.models.schedules import ScheduleView
from runnerq.console.models.workers import WorkerView
from runnerq.persistence.records import Status

COUNTS = ("ready", "delayed", "running", "waiting", "blocked")
WORKER_STYLES = {"alive": "green", "silent": "red", "left": "dim", "gone": "red"}


# --- queues -----------------------------------------------------------------------------------------------------------


def queues_table(queues: Iterable[QueueView]) -> Table:
    """One line a queue."""
    return table(
        ("queue", *COUNTS, "oldest ready", "workers", "obstacle"),
        (
            (
                queue.name,
                *(str(getattr(queue, name)) for name in COUNTS),
                _seconds(queue.oldest_ready),
                str(queue.workers),
                Styled(queue.obstacle or "", "yellow"),
            )
            for queue in queues
        ),
    )


def queue_sheet(found: QueueDetail) -> Fields:
    """A queue, and a line a type that has open runs on it."""
    queue = found.queue
    paused = None if queue.paused_at is None else clock_text(queue.paused_at)
    by = "" if queue.paused_by is None else f" by {queue.paused_by}"
    why = "" if queue.reason is None else f": {queue.reason}"
    return fields(
        [
            ("queue", queue.name),
            ("paused", None if paused is None else Styled(f"{paused}{by}{why}", "yellow")),
            ("obstacle", None if queue.obstacle is None else Styled(queue.obstacle, "yellow")),
            ("oldest ready", _seconds(queue.oldest_ready) or None),
            *((name, str(getattr(queue, name))) for name in COUNTS),
            *(
                (
                    f"{each.workflow}@{each.version}" if each.version else each.workflow,
                    f"{_counts(each.counts)}; {each.workers} of the workers serve it",
                )
                for each in found.types
            ),
            ("workers", "\n".join(found.worker_ids) or "none that lives"),
        ]
    )


def _counts(counts: Iterable[tuple[Status, int]]) -> str:
    return ", ".join(f"{count:,} {status}" for status, count in counts) or "none open"


def limits_table(limits: Iterable[LimitView]) -> Table:
    """One line a limit."""
    return table(
        ("scope", "limit", "running", "keys waiting", "changed"),
        (
            (limit.scope, limit.words, str(limit.running), str(limit.waiting), clock_text(limit.changed_at))
            for limit in limits
        ),
    )


# --- schedules --------------------------------------------------------------------------------------------------------


def schedules_table(schedules: Iterable[ScheduleView]) -> Table:
    """One line a schedule."""
    return table(
        ("schedule", "starts", "when", "zone", "next", "last", "started", "skipped", "paused"),
        (
            (
                schedule.name,
                schedule.workflow,
                _when(schedule),
                schedule.zone,
                _first(schedule.next),
                _time_or_nothing(schedule.last_at),
                str(schedule.started),
                str(schedule.skipped),
                Styled(_time_or_nothing(schedule.paused_at), "yellow"),
            )
            for schedule in schedules
        ),
    )


def schedule_fields(schedule: ScheduleView) -> Fields:
    """All about one schedule, a line a field."""
    version = f"@{schedule.version}" if schedule.version else ""
    arguments = None if schedule.args is None else schedule.args.sealed or schedule.args.text
    return fields(
        [
            ("schedule", schedule.name),
            ("starts", f"{schedule.workflow}{version}"),
            ("arguments", arguments),
            ("options", json_text(dict(schedule.options)) if schedule.options else None),
            ("when", f"{_when(schedule)}, {schedule.zone}: {schedule.words}" if schedule.cron else schedule.words),
            ("jitter", f"{schedule.jitter:g} s" if schedule.jitter else None),
            ("missed", schedule.missed),
            ("overlap", schedule.overlap),
            ("paused", None if schedule.paused_at is None else Styled(clock_text(schedule.paused_at), "yellow")),
            ("next", "\n".join(map(clock_text, schedule.next)) or None),
            ("last", None if schedule.last_at is None else clock_text(schedule.last_at)),
            ("counts", f"{schedule.started} started, {schedule.skipped} skipped"),
            ("last runs", "\n".join(f"{run.id}  {run.status}" for run in schedule.last_runs) or None),
        ]
    )


def _when(schedule: ScheduleView) -> str:
    return schedule.cron or schedule.words


def _first(times: tuple[datetime, ...]) -> str:
    return clock_text(times[0]) if times else ""


# --- workers ----------------------------------------------------------------------------------------------------------


def workers_table(workers: Iterable[WorkerView]) -> Table:
    """One line a worker."""
    return table(
        ("id", "host", "pid", "state", "runs", "attempts", "stuck", "queues", "serves", "since"),
        (
            (
                worker.id,
                worker.host,
                str(worker.pid),
                _state(worker),
                f"{worker.held}/{worker.slots}" if worker.state not in {"left", "gone"} else "",
                str(worker.running),
                str(worker.stuck),
                ", ".join(worker.queues),
                ", ".join(worker.serves),
                clock_text(worker.registered_at),
            )
            for worker in workers
        ),
    )


def worker_fields(worker: WorkerView) -> Fields:
    """All about one worker, a line a field."""
    return fields(
        [
            ("worker", worker.id),
            ("state", _state(worker)),
            ("host, pid", f"{worker.host}, {worker.pid}"),
            ("runnerq", worker.library),
            ("build", worker.build),
            ("queues", ", ".join(worker.queues)),
            ("serves", ", ".join(worker.serves)),
            ("runs", f"{worker.held} of {worker.slots} slots"),
            ("attempts", f"{worker.running} under way, {worker.late} came back late"),
            ("stuck", Styled(str(worker.stuck), "red") if worker.stuck else None),
            ("clock", None if worker.clock_off is None else f"{worker.clock_off:+.1f} s to the database's"),
            ("last beat", f"{worker.beat_age:.1f} s ago, of a lease of {worker.lease:g} s"),
            ("since", clock_text(worker.registered_at)),
            ("asked to drain", None if worker.drain_at is None else clock_text(worker.drain_at)),
            ("left", None if worker.left_at is None else clock_text(worker.left_at)),
            ("found gone", None if worker.reaped_at is None else clock_text(worker.reaped_at)),
        ]
    )


def _state(worker: WorkerView) -> Cell:
    if worker.state == "alive" and worker.drain_at is not None:
        return Styled("draining", "yellow")
    if worker.state == "silent":
        return Styled(f"silent for {silence_words(worker.beat_age)}", WORKER_STYLES[worker.state])
    return Styled(worker.state, WORKER_STYLES[worker.state])


# --- all --------------------------------------------------------------------------------------------------------------


def overview_sheet(found: Overview) -> Fields:
    """How everything is, a number a line; what needs somebody is told apart."""
    return fields(
        [
            *((tile.label.lower(), str(tile.count)) for tile in found.tiles),
            ("oldest ready", _seconds(found.oldest_ready) or None),
            ("workers", str(found.workers)),
            ("slots taken", f"{found.held} of {found.slots}"),
            *((f"failing: {each.workflow}", f"{each.failed} of {each.ended} ends in a day") for each in found.failing),
        ]
    )


def failures_table(groups: Iterable[FailureGroup]) -> Table:
    """One line a group of dead letters, which begins with what `dead redrive --where` takes for it."""
    return lines(
        ("--where", "count", "error", "last", "for example"),
        (
            (
                group_conditions(group),
                str(group.count),
                f"{group.type}: {group.message}" if group.type else group.message,
                clock_text(group.last_at),
                group.sample_id,
            )
            for group in groups
        ),
    )


def group_conditions(group: FailureGroup) -> str:
    """What finds the runs of this group, and no others: the same error of another workflow is another group."""
    return f"workflow={shlex.quote(group.workflow)} fingerprint={group.fingerprint}"


def audit_table(rows: Iterable[AuditRow]) -> Table:
    """One line an action."""
    return table(
        ("when", "who", "action", "on", "why", "outcome"),
        (
            (
                clock_text(row.at),
                row.principal,
                row.action,
                row.run_id or row.target or "",
                row.reason or "",
                row.outcome,
            )
            for row in rows
        ),
    )


def _time_or_nothing(at: datetime | None) -> str:
    return "" if at is None else clock_text(at)


def _seconds(span: float | None) -> str:
    return "" if span is None else f"{span:,.0f} s"
