"""Failures: exceptions as data, and data as exceptions.

Rules
- A failure is raised from its record, live and on replay, as a fresh instance each time.
- The class is rebuilt only if its module was loaded when the worker started (``modules_snapshot``, taken after
  registration) and it takes its recorded arguments; the record says so, once. Else it is StepError. Nothing is
  unpickled or imported.
- Where the record says rebuilt and it cannot be done now, CannotRebuild: throwing another class could take the workflow
  another way, so the caller blocks the run.
- Only subclasses of Exception are rebuilt. Cancelled, SystemExit and their like come back as StepError.
"""

from __future__ import annotations

import sys

import msgspec

from runnerq.errors import DecodingError, RunnerQError, StepError
from runnerq.serialization.failure_form import ORIGIN, Failure, construct, find_class, recorded_failure
from runnerq.serialization.failure_recording import record
from runnerq.serialization.foreign import said

__all__ = [
    "CannotRebuild",
    "Failure",
    "modules_snapshot",
    "read",
    "rebuild",
    "rebuild_in_any_case",
    "record",
    "recorded_failure",
]

_decode = msgspec.json.Decoder(Failure).decode


class CannotRebuild(RunnerQError):
    """The record says that its class was rebuilt, and here it cannot be. ``failure`` is the record."""

    def __init__(self, failure: Failure, reason: str) -> None:
        self.failure = failure
        self.reason = reason
        super().__init__(
            f"the recorded {failure.module}.{failure.type} was raised as its own class before, and here {reason}: "
            "import its module where the worker's workflows are defined"
        )


def modules_snapshot() -> frozenset[str]:
    """The modules loaded now. Taken once, after registration, so that a lazy import inside a step changes nothing."""
    return frozenset(sys.modules)


def read(text: str | bytes) -> Failure:
    """The failure of a record. Raises DecodingError for text that is none."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as exc:
        raise DecodingError("a recorded failure", "Failure", str(exc)) from exc


def rebuild(recorded: str | Failure, modules: frozenset[str]) -> Exception:
    """A new exception from its record, with its cause, notes and members. Raises CannotRebuild."""
    failure = read(recorded) if isinstance(recorded, str) else recorded
    exc = _as_itself(failure, modules) if failure.rebuilt else StepError(failure.message or failure.type, failure)
    exc.__dict__[ORIGIN] = failure
    if failure.notes:
        exc.__dict__["__notes__"] = list(failure.notes)
    if failure.cause is not None:
        exc.__cause__ = rebuild(failure.cause, modules)
    return exc


def rebuild_in_any_case(failure: Failure, modules: frozenset[str]) -> Exception:
    """The same, where no code depends on the class: a StepError if that cannot be had here."""
    try:
        return rebuild(failure, modules)
    except CannotRebuild as cannot:
        return StepError(cannot.failure.message, cannot.failure)


def _as_itself(failure: Failure, modules: frozenset[str]) -> Exception:
    cls = find_class(failure.module, failure.type, modules)
    if cls is None:
        raise CannotRebuild(failure, "that class is not loaded")
    members: list[BaseException] = [rebuild(member, modules) for member in failure.members]
    # A copy each time: what is raised belongs to whoever catches it.
    args, attributes = msgspec.json.decode(msgspec.json.encode((failure.args, failure.attributes)))
    try:
        exc = construct(cls, args, members, attributes)
    except KeyboardInterrupt:
        raise
    except BaseException as reason:  # the constructor is user code
        raise CannotRebuild(failure, f"its constructor raised {type(reason).__name__}: {said(reason)}") from reason
    if type(exc) is not cls:
        raise CannotRebuild(failure, f"its constructor makes a {type(exc).__name__}")
    return exc
