"""What a worker answers over HTTP: whether it is alive, whether it takes up runs, and its metrics.

Rules
- Called in threads of the server's own: what is read here is one attribute, written by the worker's event loop.
- Alive: its event loop answers. Ready: it is registered, its heartbeats are answered, its claims are, and it is not
  stopping. Neither asks the database anything: a thousand probes cost it nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Protocol, runtime_checkable

from runnerq.runtime.shift import Shift
from runnerq.telemetry.http import Answer, Endpoints, address_of, text

PATIENCE = 5.0
"""Seconds that the event loop has to answer."""


@runtime_checkable
class Exposes(Protocol):
    """Metrics that can be asked for."""

    def exposition(self) -> Answer: ...


def endpoints_of(http: object, shift: Callable[[], Shift | None], metrics: Iterable[object]) -> Endpoints:
    """The endpoints of a worker at this address, which is checked; ``shift`` is the present one, ``metrics`` what may
    be asked for its metrics: the first that can be is. Not open yet."""
    probes = Probes(shift)
    pages = {"/healthz": probes.healthz, "/readyz": probes.readyz}
    exposes = next((each for each in metrics if isinstance(each, Exposes)), None)
    if exposes is not None:
        pages["/metrics"] = exposes.exposition
    return Endpoints(address_of(http), pages)


class Probes:
    """Answers for one worker."""

    def __init__(self, shift: Callable[[], Shift | None]) -> None:
        self._shift = shift

    def healthz(self) -> Answer:
        shift = self._shift()
        if shift is None:
            return text(HTTPStatus.OK, "it starts")
        turned = threading.Event()
        try:
            shift.loop.call_soon_threadsafe(turned.set)
        except RuntimeError:
            return text(HTTPStatus.SERVICE_UNAVAILABLE, "its event loop has ended")
        if not turned.wait(PATIENCE):
            return text(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"its event loop has not turned for {PATIENCE:g} s: something in it blocks; the log says where",
            )
        return text(HTTPStatus.OK, "alive")

    def readyz(self) -> Answer:
        reason = self._unready()
        return text(HTTPStatus.OK, "ready") if reason is None else text(HTTPStatus.SERVICE_UNAVAILABLE, reason)

    def _unready(self) -> str | None:
        """Why it takes up no runs; None where it does."""
        shift = self._shift()
        if shift is None:
            return "it is not registered: the database has not answered yet"
        if shift.is_over:
            return "it is stopping, or takes a new id: it claims no more"
        if not shift.heart.surely_holds():
            return "no heartbeat was answered lately: the database does not answer"
        if shift.claimer.fails:
            return "its claims fail: the log says why"
        return None
