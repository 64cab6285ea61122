"""What any worker does for the whole fleet, beside its runs: looks at what there is to do, one loop each.

Rules
- Any number of workers may do the same; the storage sees to it that they do not do it twice.
- Everything is done in small batches, one transaction each.
- ``every`` says what becomes of errors, and of a look that has done its whole batch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any, TypeAlias

from runnerq.persistence.protocol import Limits, Runs, Storage
from runnerq.persistence.records import Definition
from runnerq.runtime.callbacks import log
from runnerq.runtime.maintenance import every
from runnerq.runtime.retention import Retention
from runnerq.runtime.settings import Settings
from runnerq.runtime.ticker import Ticker
from runnerq.runtime.timers import Timers

SECOND = 1.0
TALLYING = 10.0
"""Seconds between two counts for charts."""
PURGE_BATCH = 100
"""Runs that are deleted in one transaction, where no retention says otherwise."""

Look: TypeAlias = Callable[[], Awaitable[bool]]
"""Does some of it, and says whether there may be more of the same."""


def upkeep(
    storage: Storage, settings: Settings, definitions: Sequence[Definition], timers: Timers
) -> list[Coroutine[Any, Any, None]]:
    """The loops of one worker."""
    poll, retention = settings.poll_interval, settings.retention
    looks: list[tuple[float, str, Look]] = [
        (SECOND, "waking what is due", wake_due(storage)),
        (poll, "sweeping", sweep(storage)),
        (poll, "taking up blocked runs", unblock(storage, settings.build, settings.served)),
        (poll, "adopting runs without a version", adopt(storage, definitions)),
        (SECOND, "looking for free places of limits", relieve(storage)),
        (TALLYING, "counting what happened", storage.tally),
        (poll, "deleting what is marked", purge(storage, retention.batch if retention else PURGE_BATCH)),
    ]
    if retention is not None:
        looks.append((retention.interval, "looking for runs to delete", retain(storage, retention)))
    loops = [every(interval, what, look, timers) for interval, what, look in looks]
    return [*loops, Ticker(storage, interval=poll, timers=timers).run()]


def wake_due(storage: Runs, batch: int = 500) -> Look:
    """Make what is due claimable, behind the claimers' own knowledge of when something is."""

    async def look() -> bool:
        return await storage.wake_due(batch) >= batch

    return look


def sweep(storage: Runs, batch: int = 1000) -> Look:
    """Mend what must not be: missed wakes, runs and children that nobody looks after."""

    async def look() -> bool:
        mended = await storage.sweep(batch)
        if mended:
            log.warning("the sweep mended %d runs", mended)
        # The whole fleet shares one cursor, so one look an interval is enough, whatever it found.
        return False

    return look


def unblock(storage: Runs, build: str, served: Collection[str], batch: int = 100) -> Look:
    """Make blocked runs claimable that this build has not failed to follow, or whose worker's fault is due again."""
    names = tuple(served)

    async def look() -> bool:
        return await storage.unblock(build, names, batch) >= batch

    return look


def adopt(storage: Runs, definitions: Sequence[Definition], batch: int = 100) -> Look:
    """Take up runs that were started by name when nobody knew the name, and this worker does."""
    known = tuple(definitions)

    async def look() -> bool:
        return await storage.adopt(known, batch) >= batch

    return look


def relieve(storage: Limits, batch: int = 1000) -> Look:
    """Let in who waits for a place of a limit that was freed without a hint: its holder was killed, or left.

    Each look goes on where the last one ended, so that a look costs the same however many wait.
    """
    after: str | None = None

    async def look() -> bool:
        nonlocal after
        relieved = await storage.relieve(after, batch)
        after = relieved.next
        return relieved.mended > 0 and after is not None

    return look


def purge(storage: Runs, batch: int) -> Look:
    """Delete what is left of trees that are marked for it, where whoever marked them was broken off."""

    async def look() -> bool:
        # Until nothing is left, not until a batch is short: one ends at what somebody holds.
        return await storage.purge(batch) > 0

    return look


def retain(storage: Runs, retention: Retention, batch: int = 1000) -> Look:
    """Delete trees that have ended long ago: one round over all of them an interval.

    The rounds of many workers share one place in it, so that each of them shortens the others' way.
    """

    async def look() -> bool:
        retained = await storage.retain(retention.completed, retention.failed, batch)
        if retained.trees:
            log.info("%d trees of runs have been kept long enough, and are deleted", retained.trees)
            while await storage.purge(retention.batch):
                pass
        return retained.more

    return look
