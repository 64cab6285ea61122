"""Payloads and errors as they are shown: redacted, cut, and in words where they cannot be opened."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from runnerq.console.models.context import Context
from runnerq.console.models.redaction import Spot
from runnerq.serialization.failures import Failure, read
from runnerq.serialization.sealing import unreadable

PREVIEW = 64 * 1024
"""Characters of a payload that a page shows."""
MOST_CAUSES = 20
BRIEF = 200
"""Characters of a payload, or of an error's message, on one line of a list."""


_PRETTY = json.JSONEncoder(indent=2, ensure_ascii=False)
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """A payload for the eye. ``text`` is JSON, indented; numbers are exact. ``cut`` says that it is longer than shown,
    ``size`` how many bytes it has as it is stored, ``redacted`` that something in it is masked.

    Where it cannot be opened here ``text`` is empty, and ``sealed`` says in words why.
    """

    text: str
    cut: bool = False
    size: int = 0
    redacted: bool = False
    sealed: str | None = None


class ErrorView(msgspec.Struct, frozen=True, kw_only=True):
    """An error for the eye. ``stack`` is the traceback without runnerq's own frames, ``causes`` are those it came from,
    the nearest first; a cause has no causes of its own. ``members`` are those of a group. ``attempts`` is 0 where there
    were none."""

    type: str
    module: str
    message: str
    stack: str = ""
    notes: tuple[str, ...] = ()
    attempts: int = 0
    retryable: bool = True
    causes: tuple[ErrorView, ...] = ()
    members: tuple[ErrorView, ...] = ()
    sealed: str | None = None

    @property
    def line(self) -> str:
        """Type and message on one line, cut."""
        return brief(f"{self.type}: {self.message}" if self.message else self.type)


def payload_of(
    context: Context, spot: Spot, text: str | None, entry: str, *, limit: int | None = PREVIEW
) -> Payload | None:
    """What is shown of a stored payload; None if there is none. ``entry`` says in words which of the run's it is.

    With ``limit=None`` it is not cut, and not indented either if it is longer than a preview.
    """
    if text is None:
        return None
    refused = unreadable(text, spot.run_id or None, entry)
    if refused is not None:
        return Payload(text="", size=0, sealed=str(refused))
    return shown_of(context, spot, msgspec.json.decode(text), size=len(text.encode()), limit=limit)


def shown_of(
    context: Context, spot: Spot, value: Any, *, size: int | None = None, limit: int | None = PREVIEW
) -> Payload:
    """What is shown of a value that is decoded already."""
    shown = context.redact(spot, value)
    text, cut = _indented(shown, limit)
    return Payload(
        text=text,
        cut=cut,
        size=len(msgspec.json.encode(value)) if size is None else size,
        redacted=shown is not value and shown != value,
    )


def error_of(context: Context, spot: Spot, text: str | None, entry: str = "the error") -> ErrorView | None:
    """What is shown of a recorded failure; None if there is none."""
    if text is None:
        return None
    refused = unreadable(text, spot.run_id or None, entry)
    if refused is not None:
        kind = type(refused)
        return ErrorView(type=kind.__name__, module=kind.__module__, message=str(refused), sealed=str(refused))
    return failure_view(context, spot, read(text))


def failure_view(context: Context, spot: Spot, failure: Failure, *, limit: int = PREVIEW) -> ErrorView:
    """What is shown of a failure that is decoded already; of each of its texts so many characters at most."""
    causes: list[ErrorView] = []
    cause = failure.cause
    while cause is not None and len(causes) < MOST_CAUSES:
        causes.append(_failure(context, spot, cause, limit))
        cause = cause.cause
    return msgspec.structs.replace(_failure(context, spot, failure, limit), causes=tuple(causes))


def error_line(context: Context, spot: Spot, failure: Failure) -> str:
    """Type and message on one line, redacted and cut: what a list shows."""
    # Far more than is shown, so that nothing is cut between a name and its value; a message may have a megabyte.
    message = _text(context, spot, "message", failure.message[: 10 * BRIEF])
    return brief(f"{failure.type}: {message}" if message else failure.type)


def shown_text(context: Context, spot: Spot, name: str, text: str, limit: int = PREVIEW) -> str:
    """A text beside payloads that may quote them, such as why a run is blocked: redacted and cut."""
    # Cut first as well: what is searched is bounded, and a name that is cut from its value is not shown.
    return _text(context, spot, name, text[: 2 * limit])[:limit]


def _failure(context: Context, spot: Spot, failure: Failure, limit: int) -> ErrorView:
    return ErrorView(
        type=failure.type,
        module=failure.module,
        message=shown_text(context, spot, "message", failure.message, limit),
        stack=shown_text(context, spot, "stack", failure.stack, limit),
        notes=tuple(shown_text(context, spot, "notes", note, limit) for note in failure.notes),
        attempts=failure.attempts,
        retryable=failure.retryable,
        members=tuple(_failure(context, spot, member, limit) for member in failure.members[:MOST_CAUSES]),
    )


def _text(context: Context, spot: Spot, name: str, text: str) -> str:
    return str(context.redact(msgspec.structs.replace(spot, kind="error", path=(*spot.path, name)), text))


def _indented(value: Any, limit: int | None) -> tuple[str, bool]:
    """JSON of so many characters at most, and whether there is more. Without a limit it is whole, and indented only if
    that is no longer than a preview.

    It is written piece by piece: indented as a whole, a megabyte of deep nesting would be half a gigabyte.
    """
    parts: list[str] = []
    length = 0
    for part in _PRETTY.iterencode(value):
        parts.append(part)
        length += len(part)
        if limit is not None and length > limit:
            return "".join(parts)[:limit], True
        if limit is None and length > PREVIEW:
            return _COMPACT.encode(value), False
    return "".join(parts), False


def brief(text: str, most: int = BRIEF) -> str:
    """A text on one line, cut."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else line[: most - 1] + "…"
