"""What an error is to who asked: a status, a title, and what to do. Pages and the API say the same."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar.exceptions import HTTPException

from runnerq.console.access import Forbidden
from runnerq.console.models.batches import BatchNotFound
from runnerq.console.models.filters import BadFields
from runnerq.console.models.paging import BadCursor
from runnerq.console.models.types import TypeNotFound
from runnerq.console.models.workers import WorkerNotFound
from runnerq.console.web.auth import TooManyGuesses
from runnerq.console.web.door import NoPrincipal, Unknown
from runnerq.console.web.live import TooManyStreams
from runnerq.console.web.origin import ForeignForm, NotFromHere
from runnerq.console.web.stopping import Stopping
from runnerq.errors import (
    ConfigurationError,
    DecodingError,
    EncodingError,
    KeyTaken,
    PayloadTooLarge,
    PayloadUnreadable,
    ReadTimeout,
    ResultTimeout,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunNotFound,
    ScheduleNotFound,
    SchemaError,
    StorageRefused,
    StorageUnavailable,
    TransactionConflict,
    WrongState,
)

TRY_AGAIN = 5
"""Seconds."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """An error as it is told. ``kind`` names it in the API; ``errors`` are of fields; ``more`` are members of its own.
    ``advice`` are commands of ``runnerq`` that help.

    ``retry_in``: so many seconds from now it may be different.
    """

    status: int
    kind: str
    title: str
    detail: str
    advice: tuple[str, ...] = ()
    retry_in: int | None = None
    errors: dict[str, str] = {}
    more: dict[str, Any] = {}


_KINDS: tuple[tuple[type[Exception], int, str, str], ...] = (
    (RunNotFound, 404, "run-not-found", "There is no such run"),
    (ScheduleNotFound, 404, "schedule-not-found", "There is no such schedule"),
    (WorkerNotFound, 404, "worker-not-found", "There is no such worker"),
    (TypeNotFound, 404, "type-not-found", "There is no such workflow or activity"),
    (BatchNotFound, 404, "batch-not-found", "There is no such batch"),
    (WrongState, 409, "wrong-state", "The run is in another state"),
    (RunFinished, 409, "run-finished", "The run has ended"),
    (RunFailed, 409, "run-failed", "The run has failed"),
    (RunCancelled, 409, "run-cancelled", "The run was cancelled"),
    (KeyTaken, 409, "key-taken", "Another run holds this key"),
    (TransactionConflict, 409, "conflict", "Others were in the way"),
    (BadFields, 400, "bad-fields", "What was entered cannot be taken"),
    (BadCursor, 400, "bad-cursor", "This page of the list is gone"),
    (PayloadTooLarge, 413, "too-large", "A value is too large"),
    (EncodingError, 400, "bad-value", "A value cannot be stored"),
    (DecodingError, 400, "bad-value", "A value is not of its type"),
    (ConfigurationError, 400, "bad-value", "This cannot work"),
    (StorageRefused, 400, "refused", "The database refuses this"),
    (PayloadUnreadable, 409, "sealed", "A payload cannot be opened here"),
    (Unknown, 401, "unknown", "Sign in first"),
    (Forbidden, 403, "forbidden", "You may not do this"),
    (NotFromHere, 403, "not-from-here", "This console answers its own machine alone"),
    (ForeignForm, 403, "foreign-form", "This was not sent by a page of this console"),
    (TooManyGuesses, 429, "too-many-guesses", "Too many wrong guesses"),
    (NoPrincipal, 500, "fault", "The console is not set up right"),
    (ResultTimeout, 504, "not-ended", "The run has not ended yet"),
    (ReadTimeout, 504, "read-timeout", "This took too long"),
    (TooManyStreams, 503, "too-many-streams", "Too many live streams are open"),
    (SchemaError, 503, "schema", "The database is not ready for this runnerq"),
    (Stopping, 503, "stopping", "This server is about to stop"),
    (StorageUnavailable, 503, "unavailable", "The database does not answer"),
)
"""The first class that fits decides."""

OF_DATABASE = ("unavailable", "schema")
"""Kinds of what the database is the reason for."""

_STATUSES = {
    400: ("bad-request", "This cannot be understood"),
    404: ("not-found", "There is nothing here"),
    405: ("not-allowed", "This cannot be done here"),
    413: ("too-large", "This is too large"),
    415: ("unsupported", "This kind of content is not taken"),
}
_SHOWN = ("run_id", "key", "workflow", "name", "verb", "permission", "size", "limit")
"""Attributes of errors that are told as members: names and numbers, never payloads."""


def fault_of(error: Exception) -> Fault:
    """What to tell of it. What nobody has foreseen is told as nothing but that: its text may hold anything."""
    for class_, status, kind, title in _KINDS:
        if isinstance(error, class_):
            return Fault(
                status=status,
                kind=kind,
                title=title,
                detail=str(error),
                advice=_advice(error),
                retry_in=getattr(error, "retry_in", TRY_AGAIN if kind in OF_DATABASE else None),
                errors=error.errors if isinstance(error, BadFields) else {},
                more=_more(error),
            )
    if isinstance(error, HTTPException) and error.status_code < 500:
        kind, title = _STATUSES.get(error.status_code, ("error", "This did not work"))
        return Fault(status=error.status_code, kind=kind, title=title, detail=_said(error))
    return Fault(
        status=500,
        kind="fault",
        title="The console has a fault",
        detail=f"{type(error).__name__}: what is known of it is in the log of the process that serves this page.",
    )


def _advice(error: Exception) -> tuple[str, ...]:
    match error:
        case SchemaError():
            return ("migrate",)
        case StorageUnavailable():
            return ("migrate --status",)
        case _:
            return ()


def _more(error: Exception) -> dict[str, Any]:
    members = {name: getattr(error, name) for name in _SHOWN if isinstance(getattr(error, name, None), str | int)}
    if isinstance(error, WrongState | RunFinished | ResultTimeout | RunFailed):
        # `status` is the answer's own.
        members["run_status"] = str(error.status)
    return members


def _said(error: HTTPException) -> str:
    if error.status_code == 404:
        return "No page of this console has this address."
    if error.status_code == 405:
        return "This address answers other methods."
    extra = error.extra
    if isinstance(extra, list):
        return "; ".join(str(one.get("message", "")) for one in extra if isinstance(one, dict)) or error.detail
    return error.detail
