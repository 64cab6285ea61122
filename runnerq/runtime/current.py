"""What a step or activity can ask about itself: ``rq.current()``.

Rules
- It is what ``HERE`` has in the context of the attempt alone: helpers, tasks and threads that copy that context see it,
  and nothing else does.
- ``cancelled`` is set on the event loop and read in a step's thread: one attribute, written once, needs no lock.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from runnerq.errors import Cancelled, UsageError
from runnerq.persistence.records import Claimed, Details, Parent
from runnerq.runtime.heartbeats import Heartbeats
from runnerq.serialization.codec import Codec
from runnerq.telemetry.here import HERE

_PLAIN = re.compile(r"[A-Za-z0-9_.@-]{1,64}", re.ASCII)
_CODEC = Codec()
_MAKING = threading.Lock()


def idempotency_key(run_id: str, generation: int, position: str, kind: str, name: str) -> str:
    """The key that every attempt of one step passes on, as ``run:generation:position:kind:name``.

    It is readable, ASCII without spaces, fit for an HTTP header, and under 255 characters unless branches lie dozens
    deep. The first four parts cannot hold a colon; a name that is not plain (letters, digits, ``_.@-``, at most 64)
    is replaced by ``~`` and the start of its SHA-256, which no plain name can look like.
    """
    if not _PLAIN.fullmatch(name):
        name = "~" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return f"{run_id}:{generation}:{position}:{kind}:{name}"


class Means(msgspec.Struct, frozen=True):
    """What all attempts in one worker have beside their run: where they speak, and the client that the worker was
    given. One value, as each field more costs every step."""

    beats: Heartbeats
    client: Any = None
    max_depth: int = 32


class Current(msgspec.Struct, kw_only=True, eq=False):
    """One attempt of a step or activity, seen from inside it.

    ``entry`` is its position in the journal (``""`` for an activity run), ``attempt`` counts from 1: failed attempts,
    and this one. ``timeout`` is seconds. ``cancelled`` says that it is to stop, and ``cancel_reason`` why.
    """

    # ``clock`` reads database time, ``timeout`` counts from ``began`` (monotonic). ``claimed`` is the run as it was
    # claimed; ``said`` and ``before`` are JSON text: the last details of this attempt, and of the one before.

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
    is_async: bool = True
    cancelled: bool = False
    cancel_reason: str | None = None
    claimed: Claimed | None = None
    means: Means | None = None
    said: str | None = None
    before: str | None = None
    _client: Any = None

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

    @property
    def heartbeat_details(self) -> Any:
        """The last details of the start before this one, which failed, crashed or was cut off, as JSON builtins; None
        at the first, and where nothing was said."""
        return None if self.before is None else self._codec.decode(self.before, Any, self)

    @property
    def client(self) -> Any:
        """The worker's client; what it starts becomes a child of this run, with a key derived from this step's, so that
        another attempt finds what this one has started."""
        if self._client is None:
            # A step may ask in threads of its own: two clients would count to the same key.
            with _MAKING:
                if self._client is None:
                    self._client = self._within()
        return self._client

    def _within(self) -> Any:
        claimed, means = self.claimed, self.means
        if claimed is None or means is None:
            return None
        within = getattr(means.client, "within", None)
        if within is None:
            return means.client
        return within(
            Parent(
                run_id=self.run_id,
                root_id=claimed.root_id,
                depth=claimed.depth,
                priority=claimed.priority,
                queue=claimed.queue,
                position=f"{self.generation}/{self.entry}",
                key=self.idempotency_key,
                max_depth=means.max_depth,
            )
        )

    def heartbeat(self, details: Any = None) -> None:
        """Say that the attempt is alive and how far it is.

        Details are kept for the next start of this step, be it in another worker after a crash. They are written about
        once a second, however often this is called; the last ones count.

        Raises:
            Cancelled: in a sync step, once it was cancelled, timed out, or its run was lost to another worker. An async
                step gets asyncio.CancelledError at an ``await`` instead.
            EncodingError: the details have no JSON form, or are too large.
        """
        if self.cancelled:
            if not self.is_async:
                raise Cancelled(self.cancel_reason)
            return
        if details is None:
            return
        means, claimed = self.means, self.claimed
        text = self.said = self._codec.encode(details, self)
        if means is not None and claimed is not None:
            means.beats.say(
                Details(
                    run_id=self.run_id,
                    token=claimed.token,
                    position=self.entry,
                    text=text,
                    generation=self.generation,
                    failures=self.attempt - 1,
                )
            )

    @property
    def _codec(self) -> Codec:
        return _CODEC if self.means is None else self.means.beats.codec

    def __str__(self) -> str:
        return f"the heartbeat's details of {self.name!r} (entry {self.entry!r}) of run {self.run_id}"


def current() -> Current:
    """The attempt that is being run here.

    Raises:
        UsageError: called outside a step or activity.
    """
    found = HERE.get()
    if not isinstance(found, Current):
        raise UsageError(
            "rq.current() was called outside a step or activity: call it in the function that the step runs. "
            "In a workflow use ctx.info."
        )
    return found
