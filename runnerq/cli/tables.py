"""What people see of runs, as sheets: one function a kind of thing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from runnerq.cli.sheets import Branch, Cell, Fields, Styled, Table, fields, lines, table
from runnerq.console.models.fleet import HeldOn
from runnerq.console.models.history import HistoryEntry, HistoryRow
from runnerq.console.models.payloads import ErrorView, Payload, brief
from runnerq.console.models.run import RunDetail, Waiting
from runnerq.console.models.runs import RunRow
from runnerq.console.models.tree import TreeNode
from runnerq.persistence.records import Group, Status
from runnerq.runtime.replaying import ReplayReport

WIDEST_VALUE = 60
WIDEST_REASON = 160
LONGEST_PAYLOAD = 2_000

STATUS_STYLES: Mapping[str, str] = {
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
STATE_STYLES: Mapping[str, str] = {
    "asked": "blue",
    "answered": "green",
    "failed": "red",
    "closed": "dim",
    "interrupted": "yellow",
}


# --- runs -------------------------------------------------------------------------------------------------------------


def runs_table(runs: Iterable[RunRow], now: datetime) -> Table:
    """One line a run."""
    return lines(
        ("id", "workflow", "status", "key", "queue", "age", "waits for / error"),
        (
            (
                run.id,
                named(run),
                status_cell(run.status),
                run.key or "",
                run.queue,
                age_text(now - run.created_at),
                brief(run.error_line or waits_for(run.waiting_for, run.due_at) or _silence(run.worker), WIDEST_REASON),
            )
            for run in runs
        ),
    )


def run_fields(shown: RunDetail) -> Fields:
    """All about one run, a line a field."""
    run, block, waiting = shown.run, shown.block, shown.waiting
    times = {"created": run.created_at, "started": run.started_at, "due": run.due_at, "ended": run.ended_at}
    return fields(
        [
            ("run", run.id),
            ("workflow", named(run)),
            ("status", status_cell(run.status)),
            ("worker", None if run.worker is None else _worker_cell(run.worker)),
            *_waiting_lines(waiting),
            ("key", run.key),
            ("queue", f"{run.queue}, priority {run.priority}"),
            ("limit", None if shown.limit is None else " ".join(filter(None, (shown.limit.scope, shown.limit.key)))),
            ("parent", run.parent_id),
            ("forked from", None if shown.forked_from is None else f"{shown.forked_from.id}, entry {shown.forked_at}"),
            ("generation", str(run.generation) if run.generation > 1 else None),
            *((name, None if at is None else clock_text(at)) for name, at in times.items()),
            ("build", shown.build),
            ("metadata", "\n".join(f"{name}={value}" for name, value in shown.metadata) or None),
            ("input", payload_text(shown.input)),
            ("state", payload_text(shown.state)),
            ("unread", None if not shown.unread else f"{shown.unread:,} signal{'' if shown.unread == 1 else 's'}"),
            ("cancel", "requested" if run.cancel_requested else None),
            ("reason", shown.reason),
            ("blocked", None if block is None else f"{block.message}\nwhat to do: runnerq why {run.id}"),
            ("traceback", None if block is None else block.traceback),
            *_error_lines(shown.error),
            ("result", payload_text(shown.result)),
        ]
    )


def _silence(worker: HeldOn | None) -> str:
    """What a list says of the worker of a run that is running: nothing, where it is well."""
    return "" if worker is None or worker.silent_for is None else f"a worker that is not heard of: {worker.words}"


def _worker_cell(worker: HeldOn) -> Cell:
    return worker.words if worker.silent_for is None else Styled(worker.words, "red")


def _waiting_lines(waiting: Waiting | None) -> list[tuple[str, Cell | None]]:
    if waiting is None:
        return []
    return [
        ("waits for", waits_for(waiting.what, waiting.until)),
        ("held up", None if waiting.obstacle is None else Styled(waiting.obstacle, "yellow")),
        ("stands at", "\n".join(waiting.stack) or None),
    ]


def _error_lines(error: ErrorView | None) -> list[tuple[str, Cell | None]]:
    if error is None:
        return []
    told = f"{error.type}: {error.message}" if error.message else error.type
    return [("error", "\n".join([told, *error.notes])), ("stack", error.stack or None)]


def waits_for(what: str | None, until: datetime | None) -> str | None:
    """What a run waits for, with the time that it is due."""
    if what is None or until is None:
        return what
    return f"{what}, {clock_text(until)}"


def named(run: RunRow) -> str:
    """A run's name with its version, which an activity has not (0)."""
    return f"{run.workflow}@{run.version}" if run.version else run.workflow


def status_cell(status: str) -> Styled:
    """A status in its colour."""
    return Styled(status, STATUS_STYLES[status])


def state_cell(state: str) -> Styled:
    """An entry's state in its colour."""
    return Styled(state, STATE_STYLES[state])


def tree_sheet(nodes: Iterable[TreeNode]) -> Branch:
    """A run's family: each node is followed by those below it."""
    ordered = list(nodes)
    below: defaultdict[int, list[Branch]] = defaultdict(list)
    # From the last to the first: what lies below a node is made when the node is come to.
    for node in reversed(ordered):
        branches = tuple(reversed(below.pop(node.depth + 1, [])))
        more = node.children.n - len(branches)
        cells: tuple[Cell, ...] = (named(node.run), status_cell(node.run.status), node.run.id)
        unseen = () if more <= 0 else (Styled(f"and {more:,}{'+' if node.children.capped else ''} below", "dim"),)
        below[node.depth].append(Branch((*cells, *unseen), branches))
    tops = tuple(reversed(below[ordered[0].depth]))
    return tops[0] if len(tops) == 1 else Branch(("a tree whose root is gone",), tops)


# --- history ----------------------------------------------------------------------------------------------------------


def history_table(entries: Iterable[HistoryEntry]) -> Table:
    """One line an entry, with the times of day when it was asked and answered."""
    titles = ("#", "kind", "name", "state", "asked", "answered", "value / error")
    return lines(titles, (_entry_cells(entry) for entry in entries))


def _entry_cells(entry: HistoryEntry) -> tuple[Cell, ...]:
    return (
        entry.position,
        entry.kind,
        entry.name,
        state_cell(entry.state),
        time_of_day(entry.asked_at),
        "" if entry.answered_at is None else time_of_day(entry.answered_at),
        entry_value(entry),
    )


def entry_value(entry: HistoryEntry) -> str:
    """What came of an entry, on one line."""
    if entry.error is not None:
        return brief(entry.error.line, WIDEST_VALUE)
    if entry.value is None:
        return "" if entry.child_id is None else f"run {entry.child_id}"
    return entry.value.sealed or brief(entry.value.text, WIDEST_VALUE)


def rows_table(rows: Iterable[HistoryRow]) -> Table:
    """One line a row of the journal, as it is stored, with what was asked for on being fed it."""
    return lines(
        ("row", "kind", "at", "time", "value", "asked then"),
        (
            (
                str(row.place),
                row.kind,
                row.position,
                time_of_day(row.at),
                "" if row.value is None else row.value.sealed or brief(row.value.text, WIDEST_VALUE),
                brief(", ".join(f"{asked.position} {asked.kind} {asked.name}".rstrip() for asked in row.asked)),
            )
            for row in rows
        ),
    )


def groups_table(by: str, groups: Iterable[Group]) -> Table:
    """One line a group."""
    return table((by, "count"), ((group.value, str(group.count)) for group in groups))


# --- texts ------------------------------------------------------------------------------------------------------------


def clock_text(at: datetime) -> str:
    """A time to the second, in UTC."""
    return at.strftime("%Y-%m-%d %H:%M:%SZ")


def age_text(age: timedelta) -> str:
    """How long ago, by its largest unit: ``45s``, ``3m``, ``2h``, ``5d``."""
    seconds = max(0, int(age.total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def time_of_day(at: datetime) -> str:
    """A time of day to the millisecond, in UTC."""
    return at.strftime("%H:%M:%S.%f")[:-3]


def json_text(value: Any) -> str:
    """A value as JSON on one line, cut where it gets long."""
    return brief(msgspec.json.encode(value).decode(), WIDEST_VALUE)


def payload_text(payload: Payload | None) -> str | None:
    """A payload, indented and cut where it gets long; why it cannot be opened, where that is so."""
    if payload is None:
        return None
    if payload.sealed is not None:
        return payload.sealed
    text = payload.text[:LONGEST_PAYLOAD]
    return f"{text}… ({payload.size:,} bytes)" if payload.cut or len(payload.text) > len(text) else text


# --- what is checked before a deploy ----------------------------------------------------------------------------------


def divergence_table(reports: Iterable[ReplayReport]) -> Table:
    """One line a run that the code does not follow: where, what is on record there, what is asked instead."""
    return table(
        ("id", "workflow", "position", "recorded", "asked now", "line"), (_divergence(report) for report in reports)
    )


def _divergence(report: ReplayReport) -> tuple[Cell, ...]:
    where = (report.run_id, report.workflow, report.position or "")
    if report.recorded is None and report.asked is None:
        return (*where, Styled(report.message, "red"), "", "")
    recorded, asked = report.recorded or "nothing", report.asked or "nothing"
    return (*where, Styled(recorded, "green"), Styled(asked, "red"), report.line or "")
