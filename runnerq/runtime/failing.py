"""Failures as they are recorded: of a step's last attempt, of a child, of a wait, and how a run ends. Pure."""

from __future__ import annotations

from runnerq.errors import (
    Cancelled,
    ChildCancelled,
    ChildFailed,
    KeyTaken,
    RunFinished,
    RunNotFound,
    SignalTimeout,
    StorageRefused,
)
from runnerq.persistence.records import End, Outcome, Sent
from runnerq.serialization.failures import read, rebuild_in_any_case, record
from runnerq.workflow.ending import Raised, Returned, UndoFailed, is_exhausted


def child_failure(outcome: Outcome, name: str, key: str | None, modules: frozenset[str]) -> str:
    """The failure that a wait for a child records; the child's own error is its cause.

    A child that was asked for with a key that another run holds never was: its failure is KeyTaken itself.
    """
    if outcome.status == "cancelled":
        return record(ChildCancelled(outcome.run_id, name, outcome.reason), modules, retryable=False)
    own = None if outcome.error is None else read(outcome.error)
    if own is not None and key is not None and own.type == "KeyTaken" and own.args[:2] == (name, key):
        return record(KeyTaken(*own.args), modules, retryable=False)
    message = own.message if own is not None else (outcome.reason or "")
    failed = ChildFailed(outcome.run_id, name, outcome.status, message)
    if own is not None:
        # The child's worker may have known a class that this one does not.
        failed.__cause__ = rebuild_in_any_case(own, modules)
    return record(failed, modules, retryable=outcome.status == "dead_letter")


def sent_failure(run_id: str, sent: Sent | StorageRefused, modules: frozenset[str]) -> str:
    """What a ``send`` or ``cancel`` of a run that cannot hear it records."""
    if isinstance(sent, StorageRefused):
        return record(sent, modules, retryable=False)
    refused = RunFinished(run_id) if sent is Sent.FINISHED else RunNotFound(run_id)
    return record(refused, modules, retryable=False)


def signal_timeout(channel: str, modules: frozenset[str]) -> str:
    return record(SignalTimeout(channel), modules, retryable=False)


def end_of(end: Returned | Raised | UndoFailed, cancel_requested: bool, modules: frozenset[str]) -> End:
    """How a workflow that returned or raised ends its run."""
    if isinstance(end, Returned):
        return End(status="completed", result=end.text, cancel_requested=cancel_requested)
    if isinstance(end, UndoFailed):
        end.error.add_note(f"an undo failed: {type(end.undo).__name__}: {end.undo}")
        error = record(end.error, modules, retryable=is_exhausted(end.error))
        return End(status="dead_letter", reason="undo_failed", error=error, cancel_requested=cancel_requested)
    if isinstance(end.error, Cancelled):
        return End(status="cancelled", reason=end.error.reason or None, cancel_requested=cancel_requested)
    return _failed(end.error, cancel_requested, modules)


def _failed(error: BaseException, cancel_requested: bool, modules: frozenset[str]) -> End:
    exhausted = is_exhausted(error)
    return End(
        status="dead_letter" if exhausted else "failed",
        error=record(error, modules, retryable=exhausted),
        reason="attempts" if exhausted else None,
        cancel_requested=cancel_requested,
    )
