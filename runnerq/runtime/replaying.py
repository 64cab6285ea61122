"""A journal followed by today's code, and nothing carried out: the worker's own way to open a run, without a worker.

What ``check_replay`` does with exported journals and ``runnerq check`` with the open runs of a database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import Context, copy_context
from typing import Any

import msgspec
from msgspec.structs import replace

from runnerq.clock import Clock, SystemClock
from runnerq.persistence.records import Claimed, Journal, RunRecord
from runnerq.runtime.ground import Ground
from runnerq.runtime.leaks import keep_for_good
from runnerq.runtime.opening import interpreter_of, open_workflow
from runnerq.runtime.reading import LAST, DatabaseTime
from runnerq.runtime.registry import Registry
from runnerq.serialization.codec import Codec
from runnerq.serialization.failures import modules_snapshot
from runnerq.workflow.ending import Blocked
from runnerq.workflow.interpreter import Interpreter
from runnerq.workflow.journal import Row, asks_of
from runnerq.workflow.recorder import without_digests
from runnerq.workflow.tree import line_of

BEFORE = 3
"""How many of the commands before the first difference are shown."""
LIMIT = 1 << 30
"""Bytes of a payload: what is on record was not too large for whoever recorded it."""
DEPTH = 1 << 30
"""A child that is on record was not too deep."""


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """Whether this code follows the journal of a run; if not, where it leaves it first, and why.

    ``recorded`` and ``asked`` are what stands on record there and what the code asks for instead, ``line`` is where,
    ``message`` says it with the commands before it, a line each.
    """

    run_id: str
    workflow: str
    diverged: bool
    position: str | None = None
    recorded: str | None = None
    asked: str | None = None
    line: str | None = None
    message: str = ""


def ground_for(
    workflows: Iterable[Callable[..., Any]], *, codec: Codec | None = None, clock: Clock | None = None
) -> Ground:
    """What journals of these workflows are followed on."""
    time = DatabaseTime()
    time.sync((clock or SystemClock()).now())
    return Ground(
        registry=Registry(workflows, ()),
        codec=codec or Codec(LIMIT),
        time=time,
        modules=modules_snapshot(),
        build="check",
        # Of all builds the last: what an older one may not follow, it is not kept from.
        build_seen=LAST,
        max_depth=DEPTH,
        seed=_no_seed,
        drive=_context,
    )


def claimed_of(record: RunRecord, journal: Journal) -> Claimed:
    """A stored run as a worker would claim it."""
    return Claimed(
        id=record.id,
        token=0,
        kind=record.kind,
        name=record.name,
        version=record.version,
        queue=record.queue,
        priority=record.priority,
        input=record.input or "{}",
        created_at=record.created_at,
        root_id=record.root_id,
        parent_id=record.parent_id,
        depth=record.depth,
        key=record.key,
        metadata=record.metadata,
        options=record.options,
        generation=journal.generation,
        rows=journal.rows,
        attempts=journal.attempts,
    )


def follow_journal(claimed: Claimed, ground: Ground, *, ended: bool = False) -> ReplayReport:
    """Follow one run's rows; one that has none is begun, as far as its first commands. ``ended`` says that its code
    came to an end, which this code must do, too."""
    target = ground.registry.get(claimed.kind, claimed.name, claimed.version)
    if claimed.kind == "activity" or (ended and not claimed.rows):
        return ReplayReport(run_id=claimed.id, workflow=claimed.name, diverged=False)
    if target is None:
        served = f"{claimed.name}@{claimed.version}"
        return _report(claimed, Blocked(f"workflow {served} is not among these: nothing here would take the run up"))
    try:
        interpreter = replay(claimed, ground)
    except Blocked as blocked:
        return _report(claimed, blocked)
    try:
        if ended and interpreter.collect().end is None:
            return _report(claimed, _goes_on(interpreter))
    finally:
        let_go(interpreter)
    return ReplayReport(run_id=claimed.id, workflow=claimed.name, diverged=False)


def replay(claimed: Claimed, ground: Ground) -> Interpreter:
    """The interpreter, having followed the claimed rows; the caller lets it go. Raises Blocked where it cannot."""
    interpreter = interpreter_of(claimed, ground)
    try:
        open_workflow(interpreter, claimed, ground)
    except BaseException:
        let_go(interpreter)
        raise
    return interpreter


def let_go(interpreter: Interpreter) -> None:
    """Close what was only looked at."""
    keep_for_good(interpreter.close())


def _goes_on(interpreter: Interpreter) -> Blocked:
    leaf = next(iter(interpreter.leaves.values()), None)
    return Blocked(
        "the run has ended, and the workflow now goes on",
        position=None if leaf is None else leaf.position,
        recorded="the end",
        asked=None if leaf is None else str(leaf.asked),
        line=line_of(interpreter.root),
    )


def _report(claimed: Claimed, blocked: Blocked) -> ReplayReport:
    recorded, asked = without_digests(blocked.recorded, blocked.asked)
    report = ReplayReport(
        run_id=claimed.id,
        workflow=claimed.name,
        diverged=True,
        position=blocked.position,
        recorded=recorded,
        asked=asked,
        line=blocked.line,
    )
    return replace(report, message="\n".join([*_headline(claimed, blocked), *_diff(claimed.rows, report)]))


def _headline(claimed: Claimed, blocked: Blocked) -> list[str]:
    return [f"run {claimed.id} of {claimed.name}@{claimed.version}: {blocked.message}"]


def _diff(rows: Sequence[Row], report: ReplayReport) -> list[str]:
    """The commands up to the first difference, and that, as lines of a diff."""
    if report.recorded is None and report.asked is None:
        return []
    commands = [each for row in rows for each in asks_of(row)]
    at = next((n for n, each in enumerate(commands) if each.position == report.position), len(commands))
    lines = [f"    {each.position:<8}{each}" for each in commands[max(0, at - BEFORE) : at]]
    place = report.position or ""
    if report.recorded is not None:
        lines.append(f"  - {place:<8}{report.recorded}")
    if report.asked is not None:
        lines.append(f"  + {place:<8}{report.asked}")
    return lines


def _no_seed(run_id: str, generation: int) -> str:  # noqa: ARG001 - no journal begins here
    return ""


def _context(run_id: str) -> Context:  # noqa: ARG001 - nobody watches it
    return copy_context()
