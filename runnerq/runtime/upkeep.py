"""What any worker does for the whole fleet, beside its runs: one loop each.

Rules
- Any number of workers may do the same; the storage sees to it that they do not do it twice.
- Everything is done in small batches, one transaction each.
- ``every`` says what becomes of errors, and of a look that has done its whole batch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from runnerq.persistence.protocol import Limits, Runs, Storage
from runnerq.persistence.records import Definition
from runnerq.runtime.callbacks import log
from runnerq.runtime.maintenance import every
from runnerq.runtime.retention import Retention
from runnerq.runtime.settings import Settings
from runnerq.runtime.ticker import Ticker
from runnerq.runtime.timers import Timers

PURGE_BATCH = 100
"""Runs that are deleted in one transaction, where no retention says otherwise."""


class Loop(Protocol):
    """Something that is done for ever."""

    async def run(self) -> None: ...


def upkeep(storage: Storage, settings: Settings, definitions: Sequence[Definition], timers: Timers) -> list[Loop]:
    """The loops of one worker."""
    poll, retention = settings.poll_interval, settings.retention
    loops: list[Loop] = [
        DueWaker(storage, timers=timers),
        Sweeper(storage, interval=poll, timers=timers),
        Unblocker(storage, build=settings.build, served=settings.served, interval=poll, timers=timers),
        Adopter(storage, definitions=definitions, interval=poll, timers=timers),
        Reliever(storage, timers=timers),
        Ticker(storage, interval=poll, timers=timers),
        Tallier(storage, timers=timers),
        Purger(storage, interval=poll, timers=timers, batch=retention.batch if retention else PURGE_BATCH),
    ]
    if retention is not None:
        loops.append(Retainer(storage, retention=retention, timers=timers))
    return loops


class DueWaker:
    """Makes what is due claimable, behind the claimers' own knowledge of when something is."""

    def __init__(self, storage: Runs, *, timers: Timers, interval: float = 1.0, batch: int = 500) -> None:
        self._timers = timers
        self._storage = storage
        self._interval = interval
        self._batch = batch

    async def run(self) -> None:
        await every(self._interval, "waking what is due", self._look, self._timers)

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
        await every(self._interval, "sweeping", self._look, self._timers)

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
        await every(self._interval, "taking up blocked runs", self._look, self._timers)

    async def _look(self) -> bool:
        return await self._storage.unblock(self._build, self._served, self._batch) >= self._batch


class Adopter:
    """Takes up runs that were started by name when nobody knew the name, and this worker does."""

    def __init__(
        self, storage: Runs, *, definitions: Sequence[Definition], interval: float, timers: Timers, batch: int = 100
    ) -> None:
        self._timers = timers
        self._storage = storage
        self._definitions = tuple(definitions)
        self._interval = interval
        self._batch = batch

    async def run(self) -> None:
        await every(self._interval, "adopting runs without a version", self._look, self._timers)

    async def _look(self) -> bool:
        return await self._storage.adopt(self._definitions, self._batch) >= self._batch


class Reliever:
    """Lets in who waits for a place of a limit that was freed without a hint: its holder was killed, or left.

    Each look goes on where the last one ended, so that a look costs the same however many wait.
    """

    def __init__(self, storage: Limits, *, timers: Timers, interval: float = 1.0, batch: int = 1000) -> None:
        self._timers = timers
        self._storage = storage
        self._interval = interval
        self._batch = batch
        self._after: str | None = None

    async def run(self) -> None:
        await every(self._interval, "looking for free places of limits", self._look, self._timers)

    async def _look(self) -> bool:
        relieved = await self._storage.relieve(self._after, self._batch)
        self._after = relieved.next
        return relieved.mended > 0 and relieved.next is not None


class Tallier:
    """Counts what happened into its minutes, for charts."""

    def __init__(self, storage: Runs, *, timers: Timers, interval: float = 10.0) -> None:
        self._timers = timers
        self._storage = storage
        self._interval = interval

    async def run(self) -> None:
        await every(self._interval, "counting what happened", self._look, self._timers)

    async def _look(self) -> bool:
        return await self._storage.tally()


class Purger:
    """Deletes what is left of trees that are marked for it, where whoever marked them was broken off."""

    def __init__(self, storage: Runs, *, interval: float, timers: Timers, batch: int) -> None:
        self._timers = timers
        self._storage = storage
        self._interval = interval
        self._batch = batch

    async def run(self) -> None:
        await every(self._interval, "deleting what is marked", self._look, self._timers)

    async def _look(self) -> bool:
        # Until nothing is left, not until a batch is short: one ends at what somebody holds.
        return await self._storage.purge(self._batch) > 0


class Retainer:
    """Deletes trees that have ended long ago: one round over all of them an interval.

    The rounds of many workers share one place in it, so that each of them shortens the others' way.
    """

    def __init__(self, storage: Runs, *, retention: Retention, timers: Timers, batch: int = 1000) -> None:
        self._timers = timers
        self._storage = storage
        self._retention = retention
        self._batch = batch

    async def run(self) -> None:
        await every(self._retention.interval, "looking for runs to delete", self._look, self._timers)

    async def _look(self) -> bool:
        kept = self._retention
        retained = await self._storage.retain(kept.completed, kept.failed, self._batch)
        if retained.trees:
            log.info("%d trees of runs have been kept long enough, and are deleted", retained.trees)
            while await self._storage.purge(kept.batch):
                pass
        return retained.more
