"""runnerq: durable execution as a library, on the Postgres you already run.

import runnerq as rq

@rq.workflow
def checkout(ctx: rq.Context, order: Order) -> rq.Flow[Shipment]:
    receipt = yield from ctx.step(charge_card, order)
    ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnerq.errors import (
    Cancelled,
    ChildCancelled,
    ChildFailed,
    ConfigurationError,
    DecodingError,
    DepthExceeded,
    EncodingError,
    KeyTaken,
    NondeterminismError,
    NonRetryableError,
    PayloadTooLarge,
    PayloadUnreadable,
    ReadTimeout,
    ResultTimeout,
    RetryableError,
    RunBlocked,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunnerQError,
    RunNotFound,
    ScheduleNotFound,
    SchemaError,
    SignalPayloadError,
    SignalTimeout,
    StepError,
    StepTimeout,
    StorageError,
    StorageRefused,
    StorageUnavailable,
    TransactionConflict,
    UsageError,
    WrongState,
)
from runnerq.retry import RetryPolicy
from runnerq.workflow.declare import activity, workflow

if TYPE_CHECKING:
    __version__: str
    from runnerq.client.activity import FailureGroup, Failures, Throughput
    from runnerq.client.audit import AuditEntry
    from runnerq.client.client import Client
    from runnerq.client.connect import connect
    from runnerq.client.handle import Handle
    from runnerq.client.history import Entry
    from runnerq.client.info import Page, RunInfo
    from runnerq.client.limits import LimitInfo
    from runnerq.client.schedule import Schedule, ScheduleInfo
    from runnerq.client.sync.client import SyncClient
    from runnerq.client.sync.handle import SyncHandle
    from runnerq.client.values import Depth, Event, Node, QueueInfo, Stats, WorkerInfo
    from runnerq.persistence.records import Aggregate, Group, Priority, RunFilter, Status
    from runnerq.runtime.current import Current, current
    from runnerq.runtime.dead_letters import DeadLetter
    from runnerq.runtime.retention import Retention
    from runnerq.runtime.worker import Worker
    from runnerq.serialization.compression import Compression
    from runnerq.serialization.encryption import Encryption
    from runnerq.serialization.failures import Failure
    from runnerq.serialization.sealing import Codec
    from runnerq.workflow.commands import Command, Flow, Signal, Winner
    from runnerq.workflow.context import ChildHandle, Context, Info
    from runnerq.workflow.options import Limit

__all__ = [
    "Aggregate",
    "AuditEntry",
    "Cancelled",
    "ChildCancelled",
    "ChildFailed",
    "ChildHandle",
    "Client",
    "Codec",
    "Command",
    "Compression",
    "ConfigurationError",
    "Context",
    "Current",
    "DeadLetter",
    "DecodingError",
    "Depth",
    "DepthExceeded",
    "EncodingError",
    "Encryption",
    "Entry",
    "Event",
    "Failure",
    "FailureGroup",
    "Failures",
    "Flow",
    "Group",
    "Handle",
    "Info",
    "KeyTaken",
    "Limit",
    "LimitInfo",
    "Node",
    "NonRetryableError",
    "NondeterminismError",
    "Page",
    "PayloadTooLarge",
    "PayloadUnreadable",
    "Priority",
    "QueueInfo",
    "ReadTimeout",
    "ResultTimeout",
    "Retention",
    "RetryPolicy",
    "RetryableError",
    "RunBlocked",
    "RunCancelled",
    "RunFailed",
    "RunFilter",
    "RunFinished",
    "RunInfo",
    "RunNotFound",
    "RunnerQError",
    "Schedule",
    "ScheduleInfo",
    "ScheduleNotFound",
    "SchemaError",
    "Signal",
    "SignalPayloadError",
    "SignalTimeout",
    "Stats",
    "Status",
    "StepError",
    "StepTimeout",
    "StorageError",
    "StorageRefused",
    "StorageUnavailable",
    "SyncClient",
    "SyncHandle",
    "Throughput",
    "TransactionConflict",
    "UsageError",
    "Winner",
    "Worker",
    "WorkerInfo",
    "WrongState",
    "activity",
    "connect",
    "current",
    "workflow",
]

_LATER = {
    "runnerq.client.activity": ("FailureGroup", "Failures", "Throughput"),
    "runnerq.client.audit": ("AuditEntry",),
    "runnerq.client.client": ("Client",),
    "runnerq.client.connect": ("connect",),
    "runnerq.client.handle": ("Handle",),
    "runnerq.client.history": ("Entry",),
    "runnerq.client.info": ("Page", "RunInfo"),
    "runnerq.client.limits": ("LimitInfo",),
    "runnerq.client.schedule": ("Schedule", "ScheduleInfo"),
    "runnerq.client.sync.client": ("SyncClient",),
    "runnerq.client.sync.handle": ("SyncHandle",),
    "runnerq.client.values": ("Depth", "Event", "Node", "QueueInfo", "Stats", "WorkerInfo"),
    "runnerq.persistence.records": ("Aggregate", "Group", "Priority", "RunFilter", "Status"),
    "runnerq.runtime.current": ("Current", "current"),
    "runnerq.runtime.dead_letters": ("DeadLetter",),
    "runnerq.runtime.retention": ("Retention",),
    "runnerq.runtime.worker": ("Worker",),
    "runnerq.serialization.compression": ("Compression",),
    "runnerq.serialization.encryption": ("Encryption",),
    "runnerq.serialization.failures": ("Failure",),
    "runnerq.serialization.sealing": ("Codec",),
    "runnerq.workflow.commands": ("Command", "Flow", "Signal", "Winner"),
    "runnerq.workflow.context": ("ChildHandle", "Context", "Info"),
    "runnerq.workflow.options": ("Limit",),
}
"""Where the rest of these names are: each is imported at its first use, so that a command line does not wait for it. A
test holds this to the imports above, which are for type checkers. ``workflow`` cannot be among them: when Python loads
the package of that name, it would put that in the place of the decorator."""
_MODULES = {name: module for module, names in _LATER.items() for name in names}


if not TYPE_CHECKING:  # a type checker would take every name for one that is here

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            from importlib import import_module  # noqa: PLC0415 - as below

            found = globals()[name] = getattr(import_module(_MODULES[name]), name)
            return found
        if name == "__version__":
            # Looked up on demand: reading package metadata costs more than all else that this import does.
            from importlib.metadata import version  # noqa: PLC0415

            return version("runnerq")
        raise AttributeError(f"module 'runnerq' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
