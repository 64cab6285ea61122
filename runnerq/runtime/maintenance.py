"""What every worker does beside its runs, for the whole fleet and for what it holds: one loop each.

Rules
- Any number of workers may do the same; the storage sees to it that they do not do it twice.
- A look that does its whole batch looks again at once, the others after their interval, jittered.
- An error is logged, and the loop goes on: maintenance never stops a worker, and is never skipped for good.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

from runnerq.errors import StorageUnavailable
from runnerq.ids import new_token
from runnerq.persistence.protocol import Runs
from runnerq.persistence.records import Reaped
from runnerq.runtime.callbacks import Fail, jittered, log, report
from runnerq.runtime.parts import HeldRun
from runnerq.runtime.timers import Timers, pause

GOOD_BEATS = 2
"""Beats of its own that must have succeeded in a row before a worker judges others, after an outage above all."""


async def _every(interval: float, what: str, look: Callable[[], Awaitable[bool]], timers: Timers) -> None:
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
        capped: Callable[[Sequence[Reaped]], None],
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
        await _every(self._interval, "reaping", self._look, self._timers)

    async def _look(self) -> bool:
        if self._good_beats() < GOOD_BEATS:
            return False
        self.under_way = self._token()
        try:
            reaped = await self._storage.reap(self._worker_id, self.under_way, self._batch)
            self.reaped += len(reaped)
            capped = [run for run in reaped if run.token is not None]
            if capped:
                try:
                    self._capped(capped)
                except BaseException as error:  # noqa: BLE001 - whatever it is, the loop goes on
                    report(error, f"ending {len(capped)} runs that crash again and again failed", self._fail)
        finally:
            self.under_way = None
        for run in reaped:
            log.warning("run %s was taken from a worker that is gone (crash %d)", run.run_id, run.crashes)
        return len(reaped) >= self._batch


class DueWaker:
    """Makes what is due claimable, behind the claimers' own knowledge of when something is."""

    def __init__(self, storage: Runs, *, timers: Timers, interval: float = 1.0, batch: int = 500) -> None:
        self._timers = timers
        self._storage = storage
        self._interval = interval
        self._batch = batch

    async def run(self) -> None:
        await _every(self._interval, "waking what is due", self._look, self._timers)

    async def _look(self) -> bool:
        return await self._storage.wake_due(self._batch) >= self._batch


class Sweeper:
    """Mends what must not be: missed wakes, runs and children that nobody looks after. A look a poll interval."""

    def __init__(self, storage: Runs, *, interval: float, timers: Timers, batch: int = 1000) -> None:
        self._timers = timers
        self._storage = storage
        self._interval = interval
        self._batch = batch
        self.mended = 0

    async def run(self) -> None:
        await _every(self._interval, "sweeping", self._look, self._timers)

    async def _look(self) -> bool:
        mended = await self._storage.sweep(self._batch)
        if mended:
            self.mended += mended
            log.warning("the sweep mended %d runs", mended)
        # The whole fleet shares one cursor, so one look an interval is enough, whatever it found.
        return False


class Unblocker:
    """Makes blocked runs claimable that this build has not failed to follow, or whose worker's fault is due again."""

    def __init__(
        self,
        storage: Runs,
        *,
        build: str,
        served: Collection[str],
        interval: float,
        timers: Timers,
        batch: int = 100,
    ) -> None:
        self._timers = timers
        self._storage = storage
        self._build = build
        self._served = tuple(served)
        self._interval = interval
        self._batch = batch

    async def run(self) -> None:
        await _every(self._interval, "taking up blocked runs", self._look, self._timers)

    async def _look(self) -> bool:
        return await self._storage.unblock(self._build, self._served, self._batch) >= self._batch


class Inspector:
    """Has runs that are held for long look whether they are still open, behind the wake-up that says who ended them."""

    def __init__(self, held: Callable[[], Sequence[HeldRun]], *, interval: float, timers: Timers) -> None:
        self._held = held
        self._interval = interval
        self._timers = timers
        self._before: set[HeldRun] = set()

    async def run(self) -> None:
        await _every(self._interval, "inspecting what is held", self._look, self._timers)

    async def _look(self) -> bool:
        held = self._held()
        for run in held:
            if run in self._before:
                run.look()
        self._before = set(held)
        return False
