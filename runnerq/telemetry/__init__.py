"""What workers and clients tell of themselves: events, and what makes logs, metrics and traces of them.

``Worker(listeners=[LogListener()], metrics=PrometheusMetrics())``. What needs a package of its own is in a module of
its own: ``runnerq.telemetry.prometheus`` and ``runnerq.telemetry.opentelemetry``.
"""

from __future__ import annotations

from runnerq.telemetry.events import (
    EVENTS,
    FIELDS,
    AttemptBegan,
    AttemptEnded,
    AttemptRetried,
    BatchCommitted,
    Beat,
    ClaimAnswered,
    Event,
    LeaseLost,
    Maintained,
    QueueReading,
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
from runnerq.telemetry.listeners import Listener
from runnerq.telemetry.logs import LEVELS, JsonFormatter, LogListener, RunFields
from runnerq.telemetry.metrics import INSTRUMENTS, Instrument, Metrics

__all__ = [
    "EVENTS",
    "FIELDS",
    "INSTRUMENTS",
    "LEVELS",
    "AttemptBegan",
    "AttemptEnded",
    "AttemptRetried",
    "BatchCommitted",
    "Beat",
    "ClaimAnswered",
    "Event",
    "Instrument",
    "JsonFormatter",
    "LeaseLost",
    "Listener",
    "LogListener",
    "Maintained",
    "Metrics",
    "QueueReading",
    "QueuesRead",
    "RunBlocked",
    "RunClaimed",
    "RunEnded",
    "RunFields",
    "RunParked",
    "RunReaped",
    "RunReleased",
    "SignalSent",
    "StartFailed",
    "StartSent",
    "StorageFailed",
    "TurnCommitted",
    "WorkerJoined",
    "WorkerLeft",
    "WorkerRead",
]
