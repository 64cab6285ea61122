"""Logging: every record says which run it belongs to, and events become records.

Rules
- Nothing here configures logging: an application says where its records go, and adds what it wants of these.
- ``RunFields`` goes on a handler, which is asked in the thread and the context that log; a formatter may be asked
  later.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from runnerq.telemetry.events import (
    AttemptBegan,
    AttemptEnded,
    AttemptRetried,
    BatchCommitted,
    Beat,
    ClaimAnswered,
    Event,
    LeaseLost,
    Maintained,
    QueuesRead,
    RunBlocked,
    RunClaimed,
    RunEnded,
    RunParked,
    RunReaped,
    RunReleased,
    SignalSent,
    StartFailed,
    StartSent,
    StorageFailed,
    TurnCommitted,
    WorkerJoined,
    WorkerLeft,
    WorkerRead,
)
from runnerq.telemetry.here import HERE

_QUIET: tuple[type[Event], ...] = (
    StartSent, SignalSent, RunClaimed, TurnCommitted, RunParked, RunReleased, AttemptBegan, AttemptEnded,
    ClaimAnswered, BatchCommitted, Beat, Maintained, WorkerRead, QueuesRead,
)  # fmt: skip

LEVELS: Mapping[type[Event], int] = {
    **dict.fromkeys(_QUIET, logging.DEBUG),
    RunEnded: logging.INFO,
    WorkerJoined: logging.INFO,
    WorkerLeft: logging.INFO,
    RunBlocked: logging.WARNING,
    RunReaped: logging.WARNING,
    AttemptRetried: logging.WARNING,
    StartFailed: logging.WARNING,
    StorageFailed: logging.WARNING,
    LeaseLost: logging.ERROR,
}
"""At which level ``LogListener`` logs an event."""

MARKS = ("run_id", "workflow", "step", "attempt")
"""What ``RunFields`` gives to a record."""
NOWHERE = "-"
"""What it gives outside of a run."""

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every record has, whoever made it."""


class RunFields(logging.Filter):
    """Gives every record ``run_id``, ``workflow``, ``step`` and ``attempt``, for a format such as ``%(run_id)s``.

    ``attempt`` is that of the step or activity; in a workflow's own code, where there is none, it is how many workers
    have had the run since its last answer. A record that has one of these, as those of ``ctx.log`` and of runnerq
    itself do, keeps it; outside of a run they are ``-``. Nothing is filtered out.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Give the record what it lacks; it always passes."""
        mark(record)
        return True


def mark(record: logging.LogRecord) -> None:
    """Give the record what it lacks of ``MARKS``."""
    here = HERE.get()
    found = (
        (NOWHERE,) * len(MARKS)
        if here is None
        else (here.run_id, here.workflow, here.name if here.name != here.workflow else NOWHERE, here.attempt)
    )
    given = vars(record)
    for name, value in zip(MARKS, found, strict=True):
        given.setdefault(name, value)


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON: ``at``, ``level``, ``logger``, ``message``, what ``RunFields`` gives where there is
    a run, whatever else the record was given as ``extra=``, ``error`` with the traceback, and ``stack`` where that was
    asked for."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        mark(record)
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = "".join(traceback.format_exception(*record.exc_info))
        if record.stack_info:
            line["stack"] = record.stack_info
        given = {name: value for name, value in vars(record).items() if name not in _PLAIN and not _is_nowhere(value)}
        # What it was given comes second to what the record says itself, and behind it.
        fields = (f"{_json(str(name))}: {_json(value)}" for name, value in (line | given | line).items())
        return f"{{{', '.join(fields)}}}"


def _is_nowhere(value: object) -> bool:
    return isinstance(value, str) and value == NOWHERE


def _json(value: object) -> str:
    try:
        return json.dumps(value, default=str, allow_nan=False)
    except Exception:  # noqa: BLE001 - it goes round, or cannot be shown, or is no JSON: the record is not lost with it
        return json.dumps(_represented(value))


def _represented(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - as above
        return f"a {type(value).__name__} that cannot be shown"


class LogListener:
    """Logs every event, to the logger ``runnerq.events`` unless another is given, at the level that ``LEVELS`` has.

    The record's message is the event's name and fields; as ``extra`` it has ``event``, ``fields`` and the marks that
    ``RunFields`` gives.
    """

    def __init__(self, logger: logging.Logger | None = None, levels: Mapping[type[Event], int] | None = None) -> None:
        self._log = logging.getLogger("runnerq.events") if logger is None else logger
        self._levels = {**LEVELS, **(levels or {})}

    def hear(self, event: Event) -> None:
        """Log it."""
        level = self._levels.get(type(event), logging.DEBUG)
        if not self._log.isEnabledFor(level):
            return
        # Plain values all the way down: what writes them as JSON may know no others.
        told: dict[str, Any] = msgspec.to_builtins(event)
        fields = {name: value for name, value in told.items() if value is not None}
        shown = " ".join(f"{name}={_shown(value)}" for name, value in fields.items())
        extra = {"event": event.called, "fields": fields, **_marks(fields)}
        self._log.log(level, "%s %s", event.called, shown, extra=extra)


def _marks(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The marks that the event says itself."""
    marks = {"run_id": fields.get("run_id"), "workflow": fields.get("name"), "step": fields.get("step"),
             "attempt": fields.get("attempt")}  # fmt: skip
    return {name: NOWHERE if value is None else value for name, value in marks.items()}


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
