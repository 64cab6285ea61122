"""The generators of parked runs, kept for a while so that resuming need not replay.

Rules
- Correctness never depends on it: a run that is not here is replayed.
- What ``held`` has named stays until ``held`` is called again: a claim is out meanwhile that may resume it, and its
  reply brings no journal for such a run. So the cache may hold up to twice its limit for as long as a claim takes.
- The oldest goes first; so does what is older than ``ttl``, whenever the cache is touched.
- Whatever leaves, except by ``take``, goes through ``close``.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from runnerq.runtime.callbacks import log, of_run
from runnerq.workflow.interpreter import Interpreter


class Parked(msgspec.Struct, frozen=True):
    """A run's interpreter, with its generators, as it was parked: under which token, and when."""

    token: int
    interpreter: Interpreter
    at: float


class Cache:
    """Parked interpreters by run id. ``ttl`` is seconds by ``now``; a limit of 0 keeps nothing."""

    def __init__(
        self,
        close: Callable[[Interpreter], None],
        *,
        limit: int = 100,
        ttl: float = 30.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._close = close
        self._limit = limit
        self._ttl = ttl
        self._now = now
        self._kept: dict[str, Parked] = {}
        self._named: set[str] = set()

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, run_id: str, token: int, interpreter: Interpreter) -> None:
        """Keep what was parked under this token; what was kept of the run before is closed."""
        before = self.take(run_id)
        if before is not None:
            self._shut(run_id, before)
        self._kept[run_id] = Parked(token, interpreter, self._now())
        self._evict()

    def take(self, run_id: str) -> Parked | None:
        """Hand out what was parked, for good: it is the caller's to resume or close. None if there is nothing."""
        self._named.discard(run_id)
        return self._kept.pop(run_id, None)

    def held(self) -> dict[str, int]:
        """The tokens by run id, to be named in a claim; they stay until this is called again."""
        self._named = set()
        self._evict()
        self._named = set(self._kept)
        return {run_id: kept.token for run_id, kept in self._kept.items()}

    def clear(self) -> None:
        """Close everything."""
        kept, self._kept = self._kept, {}
        self._named = set()
        for run_id, each in kept.items():
            self._shut(run_id, each)

    def _evict(self) -> None:
        too_old = self._now() - self._ttl
        surplus = len(self._kept) - len(self._named) - self._limit
        leaving = []
        for run_id, kept in self._kept.items():
            if kept.at > too_old and surplus <= 0:
                break
            if run_id not in self._named:
                leaving.append(run_id)
                surplus -= 1
        for run_id in leaving:
            self._shut(run_id, self._kept.pop(run_id))

    def _shut(self, run_id: str, kept: Parked) -> None:
        try:
            self._close(kept.interpreter)
        except Exception as error:  # noqa: BLE001 - one that cannot be closed must not keep the others
            log.error("run %s: closing its parked generator failed: %r", run_id, error, exc_info=error,
                      extra=of_run(run_id))  # fmt: skip
