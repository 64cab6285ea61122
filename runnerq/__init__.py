"""runnerq: durable execution as a library, on the Postgres you already run.

import runnerq as rq

@rq.workflow
def checkout(ctx: rq.Context, order: Order) -> rq.Flow[Shipment]:
    receipt = yield from ctx.step(charge_card, order)
    ...
"""

from __future__ import annotations

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
from runnerq.persistence.records import Aggregate, Group, Priority, RunFilter, Status
from runnerq.retry import RetryPolicy
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
from runnerq.workflow.declare import activity, workflow
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


def __getattr__(name: str) -> str:
    if name == "__version__":
        # Looked up on demand: reading package metadata costs more than all else that this import does.
        from importlib.metadata import version  # noqa: PLC0415

        return version("runnerq")
    raise AttributeError(f"module 'runnerq' has no attribute {name!r}")
