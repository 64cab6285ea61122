"""Exceptions to records.

Rules
- Recording never raises, whatever the exception's own methods do; KeyboardInterrupt alone passes through.
- A record is bounded: texts are cut, causes are followed 16 deep, a cycle ends where it began.
- Lone surrogates in texts are written as ``\\udc80``: an error's text is for reading.
- Whether the class can be rebuilt is found out here, by doing it: what is thrown later is decided once.
- An exception that was itself made from a record keeps that record's stack.
"""

from __future__ import annotations

import os
import traceback
from functools import partial
from types import TracebackType
from typing import Any

import msgspec

from runnerq.errors import NonRetryableError, StepError
from runnerq.serialization.failure_form import ORIGIN, Failure, construct, find_class, recorded_failure
from runnerq.serialization.foreign import safely
from runnerq.serialization.nesting import too_deep
from runnerq.serialization.places import convert

MAX_CHAIN = 16
MAX_FAILURES = 100
MAX_MESSAGE = 8_000
MAX_STACK = 16_000
MAX_NOTES = 16
MAX_ARGS = 32
MAX_ARG = 8_000
MAX_RECORD = 200_000
_FIRST_FRAMES = 10
_LAST_FRAMES = 40

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # noqa: PTH100, PTH120  # no I/O
_NOT_OURS = frozenset({"__notes__", ORIGIN})
_MISSING: Any = object()


def record(exc: BaseException, modules: frozenset[str], *, retryable: bool, attempts: int = 0) -> str:
    """The record of an exception, as JSON text. ``modules`` were loaded when the worker started. Never raises."""
    failure = safely(lambda: _Recorder(modules).failure(exc, 0, retryable=retryable), None)
    if failure is not None:
        if attempts:
            failure = msgspec.structs.replace(failure, attempts=attempts)
        text = safely(lambda: msgspec.json.encode(failure).decode(), None)
        if text is not None:
            return text
    cls = type(exc)
    unknown = Failure(
        _clean(cls.__qualname__, MAX_MESSAGE),
        _clean(str(cls.__module__), MAX_MESSAGE),
        "the exception could not be recorded: its own methods, or the recorder, failed",
        retryable=retryable,
        attempts=attempts,
    )
    return msgspec.json.encode(unknown).decode()


class _Recorder:
    """Records one exception and what it brings along, within one budget."""

    def __init__(self, modules: frozenset[str]) -> None:
        self._modules = modules
        self._characters = MAX_RECORD
        self._failures = MAX_FAILURES
        self._open: set[int] = set()
        self._changed = 0

    def failure(self, exc: BaseException, depth: int, *, retryable: bool) -> Failure | None:
        """The record; None where it goes too deep, comes round to itself, or the budget is used up."""
        if depth >= MAX_CHAIN or id(exc) in self._open or self._failures <= 0:
            return None
        origin = safely(lambda: recorded_failure(exc), None)
        if origin is not None and type(exc) is StepError:
            return msgspec.structs.replace(origin, retryable=retryable)
        self._failures -= 1
        self._open.add(id(exc))
        try:
            return self._record(exc, origin, depth, retryable=retryable)
        finally:
            self._open.discard(id(exc))

    def _record(self, exc: BaseException, origin: Failure | None, depth: int, *, retryable: bool) -> Failure:
        cls = type(exc)
        changed = self._changed
        args, exact = self._json_of(safely(lambda: _constructor_args(exc), ()))
        bare = Failure(
            type=self._take(cls.__qualname__, MAX_MESSAGE),
            module=self._take(str(cls.__module__), MAX_MESSAGE),
            message=self._take(_message(exc), MAX_MESSAGE),
            args=args,
            notes=self._notes(exc),
            stack=self._take(_stack(exc, origin), MAX_STACK),
            retryable=retryable,
            attempts=0 if origin is None else origin.attempts,
        )
        whole = self._changed == changed
        inside: tuple[BaseException, ...] = safely(lambda: _members(exc), ())
        members = [self.failure(member, depth + 1, retryable=_may_retry(member)) for member in inside]
        cause = safely(lambda: _cause(exc), None)
        failure = msgspec.structs.replace(
            bare,
            members=tuple(member for member in members if member is not None),
            cause=None if cause is None else self.failure(cause, depth + 1, retryable=_may_retry(cause)),
        )
        if not exact or None in members:
            return failure
        attributes = safely(lambda: self._attributes(exc, failure, inside, whole=whole), None)
        return failure if attributes is None else msgspec.structs.replace(failure, rebuilt=True, attributes=attributes)

    def _attributes(
        self, exc: BaseException, failure: Failure, members: tuple[BaseException, ...], *, whole: bool
    ) -> dict[str, Any] | None:
        """What must be set on an instance made from the recorded arguments; None if that gives no equal exception."""
        cls = find_class(failure.module, failure.type, self._modules)
        if cls is None or cls is not type(exc):
            return None
        trial = construct(cls, failure.args, members, {})
        if type(trial) is not cls:
            return None
        attributes: dict[str, Any] = {}
        same_args = _equal(_own_args(trial), tuple(_readable(arg) for arg in _own_args(exc)))
        if not same_args:
            shown, exact = self._json_of(_own_args(exc))
            if not exact:
                return None
            attributes["args"] = list(shown)
        for name, value in exc.__dict__.items():
            if name in _NOT_OURS or _equal(trial.__dict__.get(name, _MISSING), value):
                continue
            stored, exact = self._as_json(value)
            if exact:
                attributes[name] = stored
            elif not same_args:
                # The constructor makes something else of its arguments, and so it has put something wrong here.
                return None
        # Cut texts make another message, and nobody's code depends on that one.
        return (
            attributes if not whole or _message(construct(cls, failure.args, members, attributes)) == str(exc) else None
        )

    def _json_of(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], bool]:
        """The arguments as JSON builtins, and whether they are equal to what was given."""
        pairs = [self._as_json(arg) for arg in args[:MAX_ARGS]]
        return tuple(stored for stored, _ in pairs), len(args) <= MAX_ARGS and all(exact for _, exact in pairs)

    def _as_json(self, value: Any) -> tuple[Any, bool]:
        # A text that is cut or whose surrogates are spelled out still makes the same exception to a reader.
        if type(value) is str:
            return self._take(value, MAX_ARG), True
        encoded = safely(lambda: msgspec.json.encode(value, enc_hook=convert), None)
        if encoded is None or len(encoded) > min(MAX_ARG, self._characters) or too_deep(encoded):
            return self._take(safely(lambda: repr(value), f"<{type(value).__name__}>"), MAX_ARG), False
        self._characters -= len(encoded)
        stored = msgspec.json.decode(encoded)
        return stored, _equal(stored, value)

    def _notes(self, exc: BaseException) -> tuple[str, ...]:
        notes: Any = safely(lambda: getattr(exc, "__notes__", ()), ())
        if not isinstance(notes, list | tuple):
            return ()
        texts = [safely(partial(str, note), "<a note>") for note in notes[:MAX_NOTES]]
        return tuple(self._take(text, MAX_MESSAGE) for text in texts)

    def _take(self, text: str, limit: int) -> str:
        kept = _clean(text, min(limit, self._characters))
        self._changed += kept != text
        self._characters -= len(kept)
        return kept


def _constructor_args(exc: BaseException) -> tuple[Any, ...]:
    """What the class is called with to make an equal one, by its own word (``__reduce__``), else ``args``."""
    reduced = safely(exc.__reduce__, None)
    if isinstance(reduced, tuple) and len(reduced) > 1 and reduced[0] is type(exc) and isinstance(reduced[1], tuple):
        return reduced[1][:1] if isinstance(exc, BaseExceptionGroup) else reduced[1]
    return _own_args(exc)


def _own_args(exc: BaseException) -> tuple[Any, ...]:
    # A group is made from its message and its members, and those are recorded by themselves.
    return exc.args[:1] if isinstance(exc, BaseExceptionGroup) else exc.args


def _members(exc: BaseException) -> tuple[BaseException, ...]:
    return exc.exceptions if isinstance(exc, BaseExceptionGroup) else ()


def _cause(exc: BaseException) -> BaseException | None:
    if exc.__cause__ is not None or exc.__suppress_context__:
        return exc.__cause__
    return exc.__context__


def _may_retry(exc: BaseException) -> bool:
    return isinstance(exc, Exception) and not isinstance(exc, NonRetryableError)


def _message(exc: BaseException) -> str:
    return safely(lambda: str(exc), f"<{type(exc).__name__}, whose str() failed>")


def _readable(arg: Any) -> Any:
    return _clean(arg, MAX_ARG) if type(arg) is str else arg


def _equal(one: Any, other: Any) -> bool:
    # True == 1 == 1.0, and a subclass may say that it equals its base.
    if type(one) is not type(other):
        return False
    return safely(lambda: bool(one == other), False)


def _clean(text: str, limit: int) -> str:
    """The text without lone surrogates, its middle cut out where it is longer than the limit."""
    clean = text.encode("utf-8", "backslashreplace").decode()
    if len(clean) <= limit:
        return clean
    mark = f"\n... {len(clean) - limit:,} characters left out ...\n"
    room = max(limit - len(mark), 0)
    head = room - room // 3
    return (clean[:head] + mark + clean[len(clean) - room // 3 :])[:limit]


def _stack(exc: BaseException, origin: Failure | None) -> str:
    text = safely(lambda: "".join(_frames(exc.__traceback__)), "")
    if origin is None or not origin.stack:
        return text
    return f"{origin.stack}\nRaised again:\n{text}" if text else origin.stack


def _frames(trace: TracebackType | None) -> list[str]:
    walked = list(traceback.walk_tb(trace))
    # Where all frames are runnerq's own, the fault is there, and they are what one wants to see.
    frames = [each for each in walked if not each[0].f_code.co_filename.startswith(_PACKAGE)] or walked
    left_out = len(frames) - _FIRST_FRAMES - _LAST_FRAMES
    if left_out <= 0:
        return _format(frames)
    middle = f"  ... {left_out} frames left out ...\n"
    return [*_format(frames[:_FIRST_FRAMES]), middle, *_format(frames[-_LAST_FRAMES:])]


def _format(frames: list[tuple[Any, int]]) -> list[str]:
    return traceback.StackSummary.extract(iter(frames)).format()
