"""Tables for people, in colour on a terminal and plain elsewhere. The only module of the command line that imports rich
at its top: import it where a table is printed."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from runnerq.cli.shown import Shown
from runnerq.client.audit import AuditEntry
from runnerq.client.history import Entry
from runnerq.client.info import RunInfo
from runnerq.client.limits import LimitInfo
from runnerq.client.schedule import ScheduleInfo
from runnerq.client.values import Node, QueueInfo, Stats, WorkerInfo
from runnerq.persistence.records import Group, Status
from runnerq.runtime.replaying import ReplayReport

PLAIN_WIDTH = 140
"""Columns where there is no terminal to ask."""
WIDEST_VALUE = 60

STATUS_STYLES: dict[str, str] = {
    Status.PENDING: "cyan",
    Status.RUNNING: "blue",
    Status.WAITING: "magenta",
    Status.BLOCKED: "bold red",
    Status.SCHEDULED: "cyan",
    Status.RETRYING: "yellow",
    Status.COMPLETED: "green",
    Status.FAILED: "red",
    Status.DEAD_LETTER: "red",
    Status.CANCELLED: "yellow",
}
STATE_STYLES = {"asked": "blue", "answered": "green", "failed": "red", "closed": "dim", "interrupted": "yellow"}


def console() -> Console:
    """Where tables go: stdout as it is now."""
    plain = not sys.stdout.isatty()
    # What is shown is text of other people: brackets in it are no markup.
    return Console(
        file=sys.stdout,
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=False,
        width=PLAIN_WIDTH if plain else None,
    )


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        # An id that is broken over two lines can be neither copied nor searched for.
        table.add_column(column, overflow="fold", no_wrap=column == "id")
    return table


def runs_table(runs: Iterable[RunInfo]) -> Table:
    """One line a run."""
    table = _table("id", "workflow", "status", "key", "queue", "created", "waits for / error")
    for run in runs:
        table.add_row(
            run.id,
            _named(run),
            Text(run.status, STATUS_STYLES[run.status]),
            run.key or "",
            run.queue,
            clock_text(run.created_at),
            _why(run),
        )
    return table


def run_table(shown: Shown) -> Table:
    """All about one run, a line a field."""
    run, block = shown.info, shown.blocked
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    times = {"created": run.created_at, "started": run.started_at, "due": run.due_at, "ended": run.ended_at}
    lines: list[tuple[str, str | Text | None]] = [
        ("run", run.id),
        ("workflow", _named(run)),
        ("status", Text(run.status, STATUS_STYLES[run.status])),
        ("waits for", run.waiting_for),
        ("stands at", "\n".join(shown.stack) or None),
        ("key", run.key),
        ("queue", f"{run.queue}, priority {run.priority.name.lower()}"),
        ("limit", None if run.limit is None else " ".join(filter(None, (run.limit.scope, run.limit.key)))),
        ("parent", run.parent_id),
        ("generation", str(run.generation) if run.generation > 1 else None),
        *((name, None if at is None else clock_text(at)) for name, at in times.items()),
        ("build", run.build),
        ("metadata", json_text(run.metadata) if run.metadata else None),
        ("state", json_text(shown.state) if shown.state else None),
        ("unread", ", ".join(shown.unread) or None),
        ("cancel", "requested" if run.cancel_requested else None),
        ("reason", run.reason),
        ("blocked", None if block is None else block.message),
        ("traceback", None if block is None else block.traceback),
        (
            "error",
            None if run.error is None else "\n".join([f"{run.error.type}: {run.error.message}", *run.error.notes]),
        ),
        ("stack", None if run.error is None else run.error.stack or None),
        ("result", json_text(shown.result) if run.status is Status.COMPLETED else None),
    ]
    for name, text in lines:
        if text is not None:
            table.add_row(name, text)
    return table


def history_table(entries: Sequence[Entry]) -> Table:
    """One line an entry, with the times of day when it was asked and answered."""
    table = _table("#", "kind", "name", "state", "asked", "answered", "value / error")
    for column in table.columns[:-1]:
        column.no_wrap = True
    for entry in entries:
        table.add_row(
            entry.position,
            entry.kind,
            entry.name,
            Text(entry.state, STATE_STYLES[entry.state]),
            _time_of_day(entry.asked_at),
            "" if entry.answered_at is None else _time_of_day(entry.answered_at),
            _value(entry),
        )
    return table


def clock_text(at: datetime) -> str:
    """A time to the second, in UTC."""
    return at.strftime("%Y-%m-%d %H:%M:%SZ")


def json_text(value: Any) -> str:
    """A value as JSON on one line, cut where it gets long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= WIDEST_VALUE else text[: WIDEST_VALUE - 1] + "…"


def _time_of_day(at: datetime) -> str:
    return at.strftime("%H:%M:%S.%f")[:-3]


def _value(entry: Entry) -> str:
    if entry.error is not None:
        return f"{entry.error.type}: {entry.error.message}"
    if entry.value is None and entry.child_id is not None:
        return f"run {entry.child_id}"
    return "" if entry.value is None else json_text(entry.value)


def _named(run: RunInfo) -> str:
    # An activity has no version: 0.
    return f"{run.workflow}@{run.version}" if run.version else run.workflow


def _why(run: RunInfo) -> str:
    if run.error is not None:
        return f"{run.error.type}: {run.error.message}"
    return run.waiting_for or run.reason or ""


def divergence_table(reports: Iterable[ReplayReport]) -> Table:
    """One line a run that the code does not follow: where, what is on record there, what is asked instead."""
    table = _table("id", "workflow", "position", "recorded", "asked now", "line")
    for report in reports:
        if report.recorded is None and report.asked is None:
            table.add_row(report.run_id, report.workflow, report.position or "", Text(report.message, "red"))
            continue
        table.add_row(
            report.run_id,
            report.workflow,
            report.position or "",
            Text(report.recorded or "nothing", "green"),
            Text(report.asked or "nothing", "red"),
            report.line or "",
        )
    return table


def queues_table(queues: Iterable[QueueInfo]) -> Table:
    """One line a queue."""
    table = _table("queue", "ready", "delayed", "running", "waiting", "blocked", "oldest ready", "workers", "paused")
    for queue in queues:
        counts = (queue.ready, queue.delayed, queue.running, queue.waiting, queue.blocked)
        table.add_row(
            queue.name,
            *map(str, counts),
            _time_or_nothing(queue.oldest_ready_at),
            str(queue.workers),
            Text(_time_or_nothing(queue.paused_at), "yellow"),
        )
    return table


def limits_table(limits: Iterable[LimitInfo]) -> Table:
    """One line a limit."""
    table = _table("scope", "at once", "rate", "for", "running", "keys waiting", "changed")
    for limit in limits:
        table.add_row(
            limit.scope,
            "" if limit.concurrency is None else str(limit.concurrency),
            "" if limit.rate is None else f"{limit.rate[0]} in {limit.rate[1]:g} s",
            "each key" if limit.per_key else "all",
            str(limit.running),
            str(limit.waiting),
            clock_text(limit.changed_at),
        )
    return table


def schedules_table(schedules: Iterable[ScheduleInfo]) -> Table:
    """One line a schedule."""
    table = _table("schedule", "starts", "when", "zone", "next", "last", "started", "skipped", "paused")
    for schedule in schedules:
        table.add_row(
            schedule.name,
            schedule.workflow,
            _when(schedule),
            schedule.zone,
            _time_or_nothing(schedule.next_at),
            _time_or_nothing(schedule.last_at),
            str(schedule.started),
            str(schedule.skipped),
            Text(_time_or_nothing(schedule.paused_at), "yellow"),
        )
    return table


def schedule_table(schedule: ScheduleInfo) -> Table:
    """All about one schedule, a line a field."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    version = "" if schedule.version is None or not schedule.version else f"@{schedule.version}"
    lines: list[tuple[str, str | Text | None]] = [
        ("schedule", schedule.name),
        ("starts", f"{schedule.workflow}{version}"),
        ("arguments", schedule.sealed or json_text(schedule.args)),
        ("options", json_text(schedule.options) if schedule.options else None),
        ("when", f"{_when(schedule)}, {schedule.zone}: {schedule.words()}" if schedule.cron else _when(schedule)),
        ("jitter", f"{schedule.jitter:g} s" if schedule.jitter else None),
        ("missed", schedule.missed),
        ("overlap", schedule.overlap),
        ("paused", None if schedule.paused_at is None else Text(clock_text(schedule.paused_at), "yellow")),
        ("next", "\n".join(map(clock_text, schedule.upcoming())) or None),
        ("last", None if schedule.last_at is None else clock_text(schedule.last_at)),
        ("counts", f"{schedule.started} started, {schedule.skipped} skipped"),
        ("last runs", "\n".join(reversed(schedule.runs[-5:])) or None),
    ]
    for name, text in lines:
        if text is not None:
            table.add_row(name, text)
    return table


def _when(schedule: ScheduleInfo) -> str:
    if schedule.every is not None:
        return f"every {schedule.every:g} s"
    return schedule.cron or "as another version of runnerq knows"


def workers_table(workers: Iterable[WorkerInfo]) -> Table:
    """One line a worker."""
    table = _table("id", "host", "pid", "state", "runs", "attempts", "stuck", "queues", "serves", "since")
    for worker in workers:
        state = "alive" if worker.alive else "left" if worker.left_at is not None else "gone"
        table.add_row(
            str(worker.id),
            worker.host,
            str(worker.pid),
            Text(state, "green" if worker.alive else "dim" if state == "left" else "red"),
            f"{worker.held}/{worker.slots}",
            str(worker.running),
            str(worker.stuck),
            ", ".join(worker.queues),
            ", ".join(worker.serves),
            clock_text(worker.registered_at),
        )
    return table


def depths_table(stats: Stats) -> Table:
    """One line for what shares status, workflow, queue and priority."""
    table = _table("status", "workflow", "queue", "priority", "count", "oldest ready")
    for depth in stats.depths:
        table.add_row(
            Text(depth.status, STATUS_STYLES[depth.status]),
            f"{depth.workflow}@{depth.version}" if depth.version else depth.workflow,
            depth.queue,
            depth.priority.name.lower(),
            str(depth.count),
            _time_or_nothing(depth.oldest_ready_at),
        )
    return table


def audit_table(entries: Iterable[AuditEntry]) -> Table:
    """One line an action."""
    table = _table("when", "who", "action", "on", "why", "outcome")
    for entry in entries:
        table.add_row(
            clock_text(entry.at),
            entry.principal,
            entry.action,
            entry.run_id or entry.target or "",
            entry.reason or "",
            entry.outcome,
        )
    return table


def groups_table(by: str, groups: Iterable[Group]) -> Table:
    """One line a group."""
    table = _table(by, "count")
    for group in groups:
        table.add_row(group.value, str(group.count))
    return table


def tree_of(top: Node) -> Tree:
    """A run, with those that it started below it."""
    tree = Tree(_leaf(top))
    left = deque((tree, node) for node in top.children)
    while left:
        above, node = left.popleft()
        branch = above.add(_leaf(node))
        left.extend((branch, child) for child in node.children)
    return tree


def _leaf(node: Node) -> Text:
    status = node.info.status
    return Text.assemble(f"{_named(node.info)}  ", (status.value, STATUS_STYLES[status]), f"  {node.id}")


def _time_or_nothing(at: datetime | None) -> str:
    return "" if at is None else clock_text(at)
