"""Every error of runnerq, drawn as a tree. An error carries its data as attributes and writes its own message.

RunnerQError
├── ConfigurationError                what was declared or configured cannot work; nothing was started
├── UsageError                        a workflow used a command wrongly (a fault of the code)
│   └── NondeterminismError           it does not do the same again, or touches what would differ (in tests)
├── EncodingError                     a value cannot be stored; names the place inside it
│   └── PayloadTooLarge               it could, but it is over the limit
├── DecodingError                     stored text does not fit the type that is asked for
├── PayloadUnreadable                 it is sealed, and this process has not the key, or it was changed
├── RunNotFound, RunFinished, KeyTaken, WrongState, ScheduleNotFound      what a verb was refused for
├── RunFailed, RunCancelled, ResultTimeout              what ``Handle.result`` raises
├── RunBlocked                        what it raises in a test, where nobody will take a blocked run up
├── StepError                         a recorded failure whose class cannot be rebuilt here
│   └── StepTimeout                   an attempt took longer than its timeout
├── ChildFailed, ChildCancelled       how an awaited child ended
├── DepthExceeded                     children of children of children, too deep
├── SignalTimeout, SignalPayloadError what a wait for a signal answers
├── NonRetryableError, RetryableError what a step raises to steer its own retries
└── StorageError
    ├── StorageUnavailable            nothing is known about the write: it may be sent again
    ├── ReadTimeout                   an answer took longer than whoever asked waits; it was called off
    ├── TransactionConflict           others were in a transaction's way: it was rolled back, and may be run again
    ├── StorageRefused                the database said no to this data; sending it again says no again
    └── SchemaError                   the schema is missing, older or newer than this code

Cancelled is a BaseException, so that ``except Exception`` in a workflow does not eat a cancel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

if TYPE_CHECKING:
    from datetime import timedelta


Fault: TypeAlias = Literal["missing", "changed", "oversized", "newer"]
_WHY: dict[Fault, str] = {
    "missing": "this process has no such {lack}: give it to connect(codec=...), as those that wrote it have it",
    "changed": "does not open here: {another}it was changed since it was written, or is not where it was written",
    "oversized": "is larger than any payload may be here: raise connect(payload_limit=...) if you wrote it",
    "newer": "that is a form that only a newer runnerq knows: upgrade this process",
}


class RunnerQError(Exception):
    """The root of every error that runnerq raises."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies, pickles and recorded failures are made by calling the class again. Where a constructor writes the
        # message itself, ``args`` is that message; ``__match_args__`` then names the attributes that it takes.
        parts: tuple[str, ...] = getattr(type(self), "__match_args__", ())
        if not parts:
            return cast("tuple[Any, ...]", super().__reduce__())
        return type(self), tuple(getattr(self, part) for part in parts), self.__dict__


class ConfigurationError(RunnerQError):
    """What was declared or configured cannot work. Nothing was started."""


class UsageError(RunnerQError):
    """A workflow used a command wrongly; thrown at the line that did."""


class NondeterminismError(UsageError):
    """A workflow does not do the same again, given the same answers, or it touches what will differ the next time.

    The testing kit tells of it. ``position``, ``recorded`` and ``asked`` say where its journal was left, if it was.
    """

    __match_args__ = ("message", "run_id", "position", "recorded", "asked", "line")

    def __init__(
        self,
        message: str,
        run_id: str | None = None,
        position: str | None = None,
        recorded: str | None = None,
        asked: str | None = None,
        line: str | None = None,
    ) -> None:
        self.message = message
        self.run_id = run_id
        self.position = position
        self.recorded = recorded
        self.asked = asked
        self.line = line
        super().__init__(message)


class EncodingError(RunnerQError):
    """A value cannot be stored. ``path`` is the place inside it, such as ``[0].price``."""

    __match_args__ = ("what", "reason", "path")

    def __init__(self, what: str, reason: str, path: str = "") -> None:
        self.what = what
        self.reason = reason
        self.path = path
        at = f" at {path}" if path else ""
        super().__init__(f"{what} cannot be stored{at}: {reason}")


class PayloadTooLarge(EncodingError):
    """A value is over the payload limit. ``size`` and ``limit`` are bytes."""

    __match_args__ = ("what", "size", "limit")

    def __init__(self, what: str, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(
            what,
            f"it takes {size:,} bytes and the limit is {limit:,}; store it elsewhere and pass a reference, "
            "or raise connect(payload_limit=...)",
        )


class DecodingError(RunnerQError):
    """Stored text does not fit the type that is asked for."""

    __match_args__ = ("what", "expected", "reason")

    def __init__(self, what: str, expected: str, reason: str) -> None:
        self.what = what
        self.expected = expected
        self.reason = reason
        super().__init__(f"{what} does not fit {expected}: {reason}")


class PayloadUnreadable(RunnerQError):
    """A stored payload is sealed by a codec, and this process cannot open it. Nothing is lost: another one may.

    ``entry`` says which of the run's payloads it is, ``codec`` and ``key`` by what it is sealed, ``fault`` why it does
    not open: ``missing`` (codec or key), ``changed`` (they are known), ``oversized``, or ``newer`` (its form is).
    """

    __match_args__ = ("run_id", "entry", "codec", "key", "fault")

    def __init__(self, run_id: str | None, entry: str, codec: str, key: str | None, fault: Fault) -> None:
        self.run_id = run_id
        self.entry = entry
        self.codec = codec
        self.key = key
        self.fault = fault
        by = repr(codec) if key is None else f"{codec!r} with the key {key!r}"
        lack, another = ("codec", "") if key is None else ("key", "the key of that name is another one, or ")
        whose = "" if run_id is None else f" of run {run_id}"
        super().__init__(f"{entry}{whose} is sealed by {by}, and {_WHY[fault].format(lack=lack, another=another)}")


class RunNotFound(RunnerQError):
    """No run has this id or key."""

    __match_args__ = ("run_id", "key", "workflow")

    def __init__(self, run_id: str | None, key: str | None = None, workflow: str | None = None) -> None:
        self.run_id = run_id
        self.key = key
        self.workflow = workflow
        sought = f"run {run_id!r}" if key is None else f"run of {workflow} with key {key!r}"
        super().__init__(f"there is no {sought}: check it, the schema, and whether retention has deleted it")


class ScheduleNotFound(RunnerQError):
    """No schedule has this name."""

    __match_args__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no schedule {name!r}: check the name and the schema, or put it")


class RunFinished(RunnerQError):
    """The run has ended; nothing can be sent to it."""

    __match_args__ = ("run_id", "status")

    def __init__(self, run_id: str, status: str = "finished") -> None:
        self.run_id = run_id
        self.status = status
        super().__init__(f"run {run_id} has ended as {status}: nothing can be sent to it any more")


class KeyTaken(RunnerQError):
    """Another run holds this idempotency key. ``run_id`` is the holder."""

    __match_args__ = ("workflow", "key", "run_id")

    def __init__(self, workflow: str, key: str, run_id: str) -> None:
        self.workflow = workflow
        self.key = key
        self.run_id = run_id
        super().__init__(f"key {key!r} of {workflow} is held by run {run_id}: use another key, or that run")


class WrongState(RunnerQError):
    """The verb does not apply to a run in this state. ``instead`` says what to do."""

    __match_args__ = ("run_id", "status", "verb", "instead")

    def __init__(self, run_id: str, status: str, verb: str, instead: str = "") -> None:
        self.run_id = run_id
        self.status = status
        self.verb = verb
        self.instead = instead
        super().__init__(f"run {run_id} is {status}: {verb} does not apply to it" + (f"; {instead}" if instead else ""))


class RunFailed(RunnerQError):
    """The run ended as ``failed`` or ``dead_letter``. ``error`` is the record, ``__cause__`` what is rebuilt of it.

    The stack of the worker that it failed in is a note of this error, so that it shows in a traceback.
    """

    __match_args__ = ("run_id", "workflow", "status", "reason", "error")

    def __init__(self, run_id: str, workflow: str, status: str, reason: str | None, error: Any) -> None:
        self.run_id = run_id
        self.workflow = workflow
        self.status = status
        self.reason = reason
        self.error = error
        why = f"{error.type}: {error.message}" if error is not None else (reason or "no error was recorded")
        super().__init__(f"run {run_id} of {workflow} ended as {status}: {why}")
        for note in () if error is None else error.notes:
            self.add_note(note)
        if error is not None and error.stack:
            self.add_note(f"In the worker:\n{error.stack.rstrip()}")


class RunCancelled(RunnerQError):
    """The run was cancelled."""

    __match_args__ = ("run_id", "reason")

    def __init__(self, run_id: str, reason: str | None) -> None:
        self.run_id = run_id
        self.reason = reason
        super().__init__(f"run {run_id} was cancelled" + (f": {reason}" if reason else ""))


class RunBlocked(RunnerQError):
    """The run cannot go on with this code. ``blocked`` says where and why; ``__cause__`` is the error, if any."""

    __match_args__ = ("run_id", "workflow", "blocked")

    def __init__(self, run_id: str, workflow: str, blocked: Any) -> None:
        self.run_id = run_id
        self.workflow = workflow
        self.blocked = blocked
        where = f" ({blocked.line})" if blocked.line and blocked.line not in blocked.message else ""
        super().__init__(f"run {run_id} of {workflow} is blocked: {blocked.message}{where}")


class ResultTimeout(RunnerQError, TimeoutError):
    """The run had not ended in time; it goes on. ``blocked`` says where and why it is stuck, if it is."""

    __match_args__ = ("run_id", "status", "waited", "blocked", "waited_for")

    def __init__(
        self, run_id: str, status: str, waited: float, blocked: Any = None, waited_for: str = "its result"
    ) -> None:
        self.run_id = run_id
        self.status = status
        self.waited = waited
        self.blocked = blocked
        self.waited_for = waited_for
        stuck = f"; it is blocked: {blocked.message}" if blocked is not None else ""
        super().__init__(f"run {run_id} is {status} after {waited:g} s of waiting for {waited_for}{stuck}")


class StepError(RunnerQError):
    """A recorded failure whose class cannot be rebuilt here. ``failure`` is the record."""

    def __init__(self, message: str = "", failure: Any = None) -> None:
        self.failure = failure
        super().__init__(message)


class StepTimeout(StepError):
    """An attempt of a step or activity took longer than its timeout (in seconds)."""

    __match_args__ = ("name", "timeout")

    def __init__(self, name: str, timeout: float) -> None:
        self.name = name
        self.timeout = timeout
        super().__init__(f"an attempt of {name!r} took longer than its timeout of {timeout:g} s")


class ChildFailed(RunnerQError):
    """An awaited child ended as ``failed`` or ``dead_letter``; ``__cause__`` is the child's own error."""

    def __init__(self, child_id: str, name: str, status: str, message: str = "") -> None:
        self.child_id = child_id
        self.name = name
        self.status = status
        self.message = message
        super().__init__(child_id, name, status, message)

    def __str__(self) -> str:
        return f"child {self.child_id} of {self.name} ended as {self.status}: {self.message}"


class ChildCancelled(RunnerQError):
    """An awaited child was cancelled."""

    def __init__(self, child_id: str, name: str, reason: str | None = None) -> None:
        self.child_id = child_id
        self.name = name
        self.reason = reason
        super().__init__(child_id, name, reason)

    def __str__(self) -> str:
        return f"child {self.child_id} of {self.name} was cancelled" + (f": {self.reason}" if self.reason else "")


class DepthExceeded(RunnerQError):
    """A run so deep below its root may start no children (``Worker(max_depth=)``)."""

    def __init__(self, run_id: str, child: str) -> None:
        self.run_id = run_id
        self.child = child
        super().__init__(run_id, child)

    def __str__(self) -> str:
        where = f"run {self.run_id} is at the greatest depth"
        return f"{where} and may not start {self.child!r}: raise Worker(max_depth=) or flatten"


class SignalTimeout(RunnerQError, TimeoutError):
    """No signal of this channel came in time."""

    def __init__(self, channel: str) -> None:
        self.channel = channel
        super().__init__(channel)

    def __str__(self) -> str:
        return f"no signal {self.channel!r} came in time"


class SignalPayloadError(RunnerQError):
    """A signal came with a payload that does not fit the channel's type; it is consumed."""

    def __init__(self, channel: str, expected: str, reason: str) -> None:
        self.channel = channel
        self.expected = expected
        self.reason = reason
        super().__init__(channel, expected, reason)

    def __str__(self) -> str:
        return f"a signal {self.channel!r} does not fit {self.expected}: {self.reason}"


class NonRetryableError(RunnerQError):
    """Raised in a step: do not try again; the run fails unless the workflow catches it."""


class RetryableError(RunnerQError):
    """Raised in a step: try again, ``after`` so long (seconds or timedelta) instead of the policy's delay."""

    def __init__(self, message: str = "", *, after: float | timedelta | None = None) -> None:
        self.after = after
        super().__init__(message)


class Cancelled(BaseException):
    """Raised in a workflow that is asked to cancel (``reason`` says why), and by heartbeat() in a sync step."""

    def __init__(self, reason: str | None = None) -> None:
        self.reason = reason
        super().__init__(reason or "cancelled")


class StorageError(RunnerQError):
    """The storage could not do what was asked."""


class StorageUnavailable(StorageError):
    """The storage did not answer; whether it wrote is unknown. What was sent may be sent again."""


class ReadTimeout(StorageError, TimeoutError):
    """An answer took longer than whoever asked waits for one. It was called off, in the database too."""


class TransactionConflict(StorageError):
    """Others were in a transaction's way: a deadlock, say, its cause. It was rolled back, and may be run again."""


class StorageRefused(StorageError):
    """The database refused this data; nothing was written, and sending it again is refused again."""


class SchemaError(StorageError):
    """The schema is missing, older or newer than this code."""
