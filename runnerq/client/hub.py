"""Waiting for runs, for every handle of one client at once.

Rules
- All ids that may have ended are read in one ``outcomes`` query a look, or a few. A query that has no answer may have
  asked for more than can be read in time: the next one is for a quarter of it, and each that has one lets the next be
  twice as large.
- An id is watched before it is first looked at, and what wakes it during a look leads to another look: no wake is lost
  between "nothing yet" and "waiting".
- Who waits for a run that was started a moment ago, of which nothing was heard since, is not looked for at once.
- A wake is a hint. Behind it every id is looked at again after 0.5 s, rising to 5 s, with jitter.
- The loop runs while somebody waits for an outcome; it ends with its last waiter, or with ``close``.
- A storage that does not answer is asked again; the callers' timeouts bound that.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from runnerq.errors import SchemaError, StorageUnavailable
from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import Outcome, Wake

FIRST_POLL = 0.5
LAST_POLL = 5.0
LOOK = 5.0
"""Seconds that a first look may take even if the timeout is shorter: ``timeout=0`` looks, and does not wait."""
AFTER_A_WAKE = 0.1
"""What commits while an older transaction is open can be seen only once that has ended: the first look may be early."""
GATHER = 0.05
"""Who follows everything looks so rarely at most, however many wakes come."""
FRESH = 0.1
"""Seconds for which a run counts as just started."""
AT_ONCE = 1000
"""Runs that one query looks for."""
GROUP = 0.1
"""Polls due within so many seconds of each other are one query."""

log = logging.getLogger("runnerq.client")


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(0.75, 1.25)  # noqa: S311 - spreads load, hides nothing


class _Awaited:
    """One id and those who wait for its end."""

    __slots__ = ("due", "interval", "looked", "waiters")

    def __init__(self) -> None:
        self.interval = FIRST_POLL
        self.due = 0.0
        self.looked = asyncio.Event()
        self.waiters: set[asyncio.Future[Outcome]] = set()

    def answer(self, outcome: Outcome) -> None:
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(outcome)
        self.looked.set()

    def fail(self, error: Exception) -> None:
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_exception(error)
        self.looked.set()

    def missed(self, now: float) -> None:
        """Nothing yet: look again later than the last time."""
        self.due = now + _jittered(self.interval)
        self.interval = min(LAST_POLL, self.interval * 2)
        self.looked.set()


class Changes:
    """The changes of one run, as hints: each ``next`` is a reason to look again."""

    __slots__ = ("_interval", "_stirred")

    def __init__(self) -> None:
        self._stirred = asyncio.Event()
        self._interval = FIRST_POLL

    def stir(self) -> None:
        self._stirred.set()

    async def next(self, within: float | None) -> bool:
        """True once the run may have changed since the last call; False if ``within`` seconds passed before."""
        poll = _jittered(self._interval)
        last = within is not None and within <= poll
        wait = poll if within is None else max(0.0, min(poll, within))
        try:
            async with asyncio.timeout(wait):
                await self._stirred.wait()
        except TimeoutError:
            self._interval = min(LAST_POLL, self._interval * 2)
            return not last
        # Cleared before the caller looks: what changes from here on is another reason.
        self._stirred.clear()
        return True


class Stirs:
    """That something has changed, anywhere, as hints for who follows everything."""

    __slots__ = ("_interval", "_stirred", "closed")

    def __init__(self) -> None:
        self.closed = False
        self._stirred = asyncio.Event()
        self._interval = FIRST_POLL

    def stir(self) -> None:
        self._stirred.set()

    def close(self) -> None:
        self.closed = True
        self._stirred.set()

    async def next(self) -> None:
        """Return when there is a reason to look, a wake or an interval, or when nothing more will come."""
        try:
            async with asyncio.timeout(_jittered(self._interval)):
                await self.heard()
        except TimeoutError:
            self._interval = min(LAST_POLL, self._interval * 2)
            return
        self._interval = AFTER_A_WAKE
        if not self.closed:
            await asyncio.sleep(GATHER)

    async def heard(self) -> None:
        """Return when a wake has come since the last call, or when nothing more will come."""
        await self._stirred.wait()
        if not self.closed:
            self._stirred.clear()


class Hub:
    """Everything that the handles of one client wait for."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._awaited: dict[str, _Awaited] = {}
        self._woken: set[str] = set()
        self._fresh: dict[str, float] = {}
        self._watched: dict[str, set[Changes]] = {}
        self._followers: set[Stirs] = set()
        self._stirred = asyncio.Event()
        self._next_scan = 0.0
        self._most = AT_ONCE
        self._loop: asyncio.Task[None] | None = None
        self._unsubscribe = storage.subscribe(self._hear)

    def expect(self, run_id: str) -> None:
        """This one is about to be started: nothing that is told of it is missed from now on."""
        now = asyncio.get_running_loop().time()
        while self._fresh and self._fresh[oldest := next(iter(self._fresh))] <= now - FRESH:
            del self._fresh[oldest]
        self._fresh[run_id] = now

    async def ended(self, run_id: str, timeout: float | None) -> Outcome | None:
        """How the run ended; None if it had not after ``timeout`` seconds. Looks at least once."""
        clock = asyncio.get_running_loop().time
        until = None if timeout is None else clock() + timeout
        waiter = self._join(run_id, patient=timeout is None or timeout > 2 * FIRST_POLL)
        try:
            awaited = self._awaited[run_id]
            if until is not None and not awaited.looked.is_set():
                await _set_within(awaited.looked, max(LOOK, until - clock()))
            done, _ = await asyncio.wait({waiter}, timeout=None if until is None else max(0.0, until - clock()))
            return waiter.result() if done else None
        finally:
            self._leave(run_id, waiter)

    @contextmanager
    def changes(self, run_id: str) -> Iterator[Changes]:
        """The run's changes from now on."""
        changes = Changes()
        self._watched.setdefault(run_id, set()).add(changes)
        try:
            yield changes
        finally:
            watching = self._watched[run_id]
            watching.discard(changes)
            if not watching:
                del self._watched[run_id]

    @contextmanager
    def everything(self) -> Iterator[Stirs]:
        """All changes from now on."""
        stirs = Stirs()
        self._followers.add(stirs)
        try:
            yield stirs
        finally:
            self._followers.discard(stirs)

    async def close(self) -> None:
        """End all waiting; those who wait for a run get a StorageUnavailable."""
        self._unsubscribe()
        for stirs in self._followers:
            stirs.close()
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait({self._loop})
            self._loop = None
        self._fail(StorageUnavailable("the client was closed while this was waited for"))

    def _join(self, run_id: str, *, patient: bool) -> asyncio.Future[Outcome]:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Outcome] = loop.create_future()
        awaited = self._awaited.setdefault(run_id, _Awaited())
        awaited.waiters.add(waiter)
        if patient and self._fresh.pop(run_id, 0.0) > loop.time() - FRESH:
            awaited.due = loop.time() + _jittered(FIRST_POLL)
            self._next_scan = min(self._next_scan, awaited.due)
        else:
            self._woken.add(run_id)
        self._stirred.set()
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._watch(), name="runnerq-outcomes")
        return waiter

    def _leave(self, run_id: str, waiter: asyncio.Future[Outcome]) -> None:
        awaited = self._awaited.get(run_id)
        if awaited is not None:
            awaited.waiters.discard(waiter)
            if not awaited.waiters:
                del self._awaited[run_id]
                self._stirred.set()
        # An error that nobody will ask for any more must not be reported as never retrieved.
        if waiter.done() and not waiter.cancelled():
            waiter.exception()

    def _hear(self, wake: Wake) -> None:
        for stirs in self._followers:
            stirs.stir()
        if wake.many_runs:
            self._fresh.clear()
            self._woken.update(self._awaited)
            watched: Iterable[str] = self._watched
        else:
            for run_id in wake.runs & self._fresh.keys():
                del self._fresh[run_id]
            self._woken.update(wake.runs & self._awaited.keys())
            watched = wake.runs & self._watched.keys()
        for run_id in watched:
            for changes in self._watched[run_id]:
                changes.stir()
        if self._woken:
            self._stirred.set()

    async def _watch(self) -> None:
        try:
            while self._awaited:
                chosen = self._chosen()
                if chosen:
                    await self._look(chosen)
                else:
                    await self._rest()
        except Exception as error:  # noqa: BLE001 - it is raised again, where the results are waited for
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        for awaited in self._awaited.values():
            awaited.fail(error)
        self._awaited.clear()

    def _chosen(self) -> list[str]:
        now = asyncio.get_running_loop().time()
        woken, self._woken = self._woken, set()
        if now >= self._next_scan:
            woken.update(run_id for run_id, awaited in self._awaited.items() if awaited.due <= now)
            earliest = min((awaited.due for awaited in self._awaited.values() if awaited.due > now), default=now)
            self._next_scan = max(now + GROUP, earliest)
        return sorted(woken & self._awaited.keys())

    async def _rest(self) -> None:
        self._stirred.clear()
        try:
            async with asyncio.timeout_at(self._next_scan):
                await self._stirred.wait()
        except TimeoutError:
            return

    async def _look(self, run_ids: list[str]) -> None:
        left = run_ids
        while left:
            some, left = left[: self._most], left[self._most :]
            try:
                outcomes = await self._outcomes(some)
            except StorageUnavailable as error:
                self._most = max(1, len(some) // 4)
                log.warning("could not look for the ends of %d runs, looking again: %s", len(some) + len(left), error)
                break
            self._most = min(AT_ONCE, 2 * self._most)
            for outcome in outcomes:
                awaited = self._awaited.pop(outcome.run_id, None)
                if awaited is not None:
                    awaited.answer(outcome)
        now = asyncio.get_running_loop().time()
        for run_id in run_ids:
            awaited = self._awaited.get(run_id)
            if awaited is not None:
                awaited.missed(now)
                self._next_scan = min(self._next_scan, awaited.due)

    async def _outcomes(self, run_ids: list[str]) -> list[Outcome]:
        """The ends of those that have ended; one that cannot be read fails those alone who wait for it."""
        try:
            return await self._storage.outcomes(run_ids)
        except (StorageUnavailable, SchemaError):
            raise
        except Exception as error:  # noqa: BLE001 - it is raised again, where the results are waited for
            if len(run_ids) > 1:
                return [outcome for run_id in run_ids for outcome in await self._outcomes([run_id])]
            awaited = self._awaited.pop(run_ids[0], None)
            if awaited is not None:
                awaited.fail(error)
            return []


async def _set_within(event: asyncio.Event, timeout: float) -> None:
    try:
        async with asyncio.timeout(timeout):
            await event.wait()
    except TimeoutError:
        return
