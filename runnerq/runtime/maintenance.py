"""What every worker does beside its runs: it judges other workers, and looks after what it holds; one loop each.

Rules
- Any number of workers may do the same; the storage sees to it that they do not do it twice.
- A look that does its whole batch looks again at once, the others after their interval, jittered.
- An error is logged, and the loop goes on: maintenance never stops a worker, and is never skipped for good.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from runnerq.errors import StorageError, StorageUnavailable
from runnerq.ids import new_token
from runnerq.persistence.protocol import Runs
from runnerq.persistence.records import Reaped
from runnerq.runtime.callbacks import Fail, jittered, log, of_run, report
from runnerq.runtime.parts import HeldRun
from runnerq.runtime.timers import Timers, pause

GOOD_BEATS = 4
"""Beats of its own that must have succeeded in a row before a worker judges others: after an outage of all of them,
the first one back must leave the others the time to come back."""


async def every(interval: float, what: str, look: Callable[[], Awaitable[bool]], timers: Timers) -> None:
    """Look for ever; a look says whether there may be more of the same."""
    while True:
        more = False
        try:
            more = await look()
        except StorageUnavailable as error:
            log.warning("%s: the storage does not answer: %s", what, error)
        except Exception as error:  # noqa: BLE001 - see the rules
            log.error("%s failed: %r", what, error, exc_info=error)
        await pause(timers, 0 if more else jittered(interval))


class Reaper:
    """Takes runs from workers that are gone; those that crash again and again are handed to ``capped``, still held.

    ``under_way`` is the token of a reaping that is out; until it has answered, that token must count as held.
    """

    def __init__(
        self,
        storage: Runs,
        *,
        worker_id: int,
        good_beats: Callable[[], int],
        capped: Callable[[Sequence[Reaped]], Awaitable[None]],
        fail: Fail,
        timers: Timers,
        interval: float = 1.0,
        batch: int = 100,
        token: Callable[[], int] = new_token,
    ) -> None:
        self._timers = timers
        self._storage = storage
        self._worker_id = worker_id
        self._good_beats = good_beats
        self._capped = capped
        self._fail = fail
        self._interval = interval
        self._batch = batch
        self._token = token
        self.under_way: int | None = None
        self.reaped = 0

    async def run(self) -> None:
        await every(self._interval, "reaping", self._look, self._timers)

    async def _look(self) -> bool:
        if self._good_beats() < GOOD_BEATS:
            return False
        self.under_way = self._token()
        try:
            reaped = await self._storage.reap(self._worker_id, self.under_way, self._batch)
            self.reaped += len(reaped)
            capped = [run for run in reaped if run.token is not None]
            if capped:
                await self._end(capped)
        finally:
            self.under_way = None
        for run in reaped:
            log.warning("run %s of %s was taken from a worker that is gone (crash %d)",
                        run.run_id, run.name, run.crashes, extra=of_run(run.run_id, run.name))  # fmt: skip
        return len(reaped) >= self._batch

    async def _end(self, capped: Sequence[Reaped]) -> None:
        try:
            await self._capped(capped)
        except StorageError as error:
            # They are given back, as nobody holds their token, and come here again when they have crashed once more.
            log.warning("%d runs that crash again and again could not be ended: %s", len(capped), error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the loop goes on
            report(error, f"ending {len(capped)} runs that crash again and again failed", self._fail)


class Inspector:
    """Has runs that are held for long look whether they are still open, behind the wake-up that says who ended them."""

    def __init__(self, held: Callable[[], Sequence[HeldRun]], *, interval: float, timers: Timers) -> None:
        self._held = held
        self._interval = interval
        self._timers = timers
        self._before: set[HeldRun] = set()

    async def run(self) -> None:
        await every(self._interval, "inspecting what is held", self._look, self._timers)

    async def _look(self) -> bool:
        held = self._held()
        for run in held:
            if run in self._before:
                run.look()
        self._before = set(held)
        return False
