"""What a step or activity can ask about itself: ``rq.current()``.

Rules
- One context variable; it is set in the context of the attempt alone, so helpers, tasks and threads that copy the
  context of the attempt see it, and nothing else does.
- ``cancelled`` is set on the event loop and read in a step's thread: one attribute, written once, needs no lock.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Any

import msgspec

from runnerq.errors import Cancelled, UsageError

_PLAIN = re.compile(r"[A-Za-z0-9_.@-]{1,64}", re.ASCII)


def idempotency_key(run_id: str, generation: int, position: str, kind: str, name: str) -> str:
    """The key that every attempt of one step passes on, as ``run:generation:position:kind:name``.

    It is readable, ASCII without spaces, fit for an HTTP header, and under 255 characters unless branches lie dozens
    deep. The first four parts cannot hold a colon; a name that is not plain (letters, digits, ``_.@-``, at most 64)
    is replaced by ``~`` and the start of its SHA-256, which no plain name can look like.
    """
    if not _PLAIN.fullmatch(name):
        name = "~" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return f"{run_id}:{generation}:{position}:{kind}:{name}"


class Current(msgspec.Struct, kw_only=True, eq=False):
    """One attempt of a step or activity, seen from inside it.

    ``entry`` is its position in the journal (``""`` for an activity run), ``attempt`` counts from 1. ``clock`` reads
    database time, ``timeout`` is seconds from ``began`` (monotonic). ``details`` are the last ones of this attempt,
    ``heartbeat_details`` those that were kept of the one before.
    """

    run_id: str
    workflow: str
    name: str
    entry: str
    attempt: int = 1
    generation: int = 1
    kind: str = "step"
    metadata: Mapping[str, Any] | None = None
    timeout: float | None = None
    clock: Callable[[], datetime] | None = None
    began: float | None = None
    client: Any = None
    heartbeat_details: Any = None
    is_async: bool = True
    details: Any = None
    cancelled: bool = False
    cancel_reason: str | None = None

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this step, and for no other step: pass it on to what you call."""
        return idempotency_key(self.run_id, self.generation, self.entry, self.kind, self.name)

    @property
    def deadline(self) -> datetime | None:
        """When this attempt times out, in database time; None where it has no timeout."""
        if self.timeout is None or self.clock is None or self.began is None:
            return None
        return self.clock() + timedelta(seconds=self.timeout - (time.monotonic() - self.began))

    def heartbeat(self, details: Any = None) -> None:
        """Say that the attempt is alive and how far it is.

        Raises:
            Cancelled: in a sync step, once it was cancelled, timed out, or its run was lost to another worker. An async
                step gets asyncio.CancelledError at an ``await`` instead.
        """
        if details is not None:
            self.details = details
        if self.cancelled and not self.is_async:
            raise Cancelled(self.cancel_reason)


CURRENT: ContextVar[Current | None] = ContextVar("runnerq_current", default=None)


def current() -> Current:
    """The attempt that is being run here.

    Raises:
        UsageError: called outside a step or activity.
    """
    found = CURRENT.get()
    if found is None:
        raise UsageError(
            "rq.current() was called outside a step or activity: call it in the function that the step runs. "
            "In a workflow use ctx.info."
        )
    return found
