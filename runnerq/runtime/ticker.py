"""Fires the schedules that are due: one loop of every worker, whatever the worker serves.

Rules
- It sleeps until the next tick that the storage named, or until a schedule was put or resumed; behind that it polls.
- Any number of workers do the same. The first one to take a schedule's row fires it; the others find nothing to do. Of
  many that are due at once, each worker fires a few that chance picks, so that they are seldom at the same ones.
- Each schedule is fired by itself, a few beside each other: one that cannot be, because somebody's transaction holds a
  run or a key of it, or because this code cannot read it, holds up no other. It is left alone for a while, ever longer,
  and any number of them are looked past.
- What a schedule starts is read when it is its turn: it may be large, and others may have fired it by then.
"""

from __future__ import annotations

import asyncio
import random
from datetime import datetime

import msgspec

from runnerq.errors import RunnerQError, StorageUnavailable
from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import DueSchedule, Fired, Wake
from runnerq.runtime.callbacks import doubling, jittered, log
from runnerq.runtime.firing import firing_of
from runnerq.runtime.reading import SLACK
from runnerq.runtime.timers import Timers

AT_ONCE = 2
FIRST_PAUSE = 0.05
"""Seconds for which a schedule is left alone that somebody else is at; doubling to the poll interval."""
FIRST_AFTER_FAULT, LONGEST_AFTER_FAULT = 1.0, 60.0
"""The same of one that this worker cannot fire."""
SEEN, PICKED = 500, 20
"""How many of those that are due it sees at once, and how many of them it fires before it looks again."""


class _Vain(msgspec.Struct, frozen=True):
    """How often a schedule was fired in vain while it had this serial, and until when it is left alone."""

    serial: int
    tries: int
    until: float


class Ticker:
    """Fires for one worker."""

    def __init__(self, storage: Storage, *, interval: float, timers: Timers) -> None:
        self._storage = storage
        self._interval = interval
        self._timers = timers
        self._places = asyncio.Semaphore(AT_ONCE)
        self._under_way: set[str] = set()
        self._look_at = timers.time()
        self._asleep: asyncio.Future[None] | None = None
        self._vain: dict[str, _Vain] = {}
        self._told: set[str] = set()

    async def run(self) -> None:
        unsubscribe = self._storage.subscribe(self._hear)
        try:
            async with asyncio.TaskGroup() as firings:
                while True:
                    await self._sleep()
                    await self._look(firings)
        finally:
            unsubscribe()

    async def _sleep(self) -> None:
        """Return when it is time to look."""
        while (wait := self._look_at - self._timers.time()) > 0:
            asleep = self._asleep = asyncio.get_running_loop().create_future()
            timer = self._timers.call_later(wait, _end, asleep)
            try:
                await asleep
            finally:
                timer.cancel()
                self._asleep = None

    def _hear(self, wake: Wake) -> None:
        # What a lost wake would have told is found by polling: of many runs there are many wakes.
        if wake.schedules:
            self._look_within(0)

    def _look_within(self, seconds: float) -> None:
        self._look_at = min(self._look_at, self._timers.time() + seconds)
        if self._asleep is not None:
            _end(self._asleep)

    async def _look(self, firings: asyncio.TaskGroup) -> None:
        self._look_at = self._timers.time() + jittered(self._interval)
        try:
            now, picked = await self._find()
        except StorageUnavailable as error:
            log.warning("looking for due schedules: the storage does not answer: %s", error)
            return
        except Exception as error:  # noqa: BLE001 - the loop goes on, whatever it is
            log.error("looking for due schedules failed: %r", error, exc_info=error)
            return
        for due in picked:
            self._under_way.add(due.name)
            firings.create_task(self._fire(due, now))

    async def _find(self) -> tuple[datetime, list[DueSchedule]]:
        """Those to fire, and the time of it: some that nothing is known against, then some to be tried again."""
        fresh: list[DueSchedule] = []
        again: list[DueSchedule] = []
        last = None
        while True:
            found = await self._storage.due_schedules(SEEN, last)
            for due in found.schedules:
                if due.name not in self._under_way:
                    self._sort(due, fresh, again)
            if len(fresh) >= PICKED or len(found.schedules) < SEEN:
                break
            last = found.schedules[-1]
        if found.next_at is not None:
            self._look_within((found.next_at - found.now).total_seconds() + SLACK)
        picked = _some(fresh, PICKED)
        return found.now, picked + _some(again, PICKED - len(picked))

    def _sort(self, due: DueSchedule, fresh: list[DueSchedule], again: list[DueSchedule]) -> None:
        vain = self._vain.get(due.name)
        if vain is None or vain.serial != due.serial:
            fresh.append(due)
        elif (left_alone := vain.until - self._timers.time()) > 0:
            self._look_within(max(left_alone, FIRST_PAUSE))  # one look for many whose time comes one after the other
        else:
            again.append(due)

    async def _fire(self, due: DueSchedule, now: datetime) -> None:
        try:
            async with self._places:
                fired = await self._try(due, now)
            if fired is None:
                self._leave_alone(due, FIRST_PAUSE, self._interval)
            else:
                self._vain.pop(due.name, None)
                self._told.discard(due.name)
        except StorageUnavailable as error:
            log.warning("firing schedule %r: the storage does not answer: %s", due.name, error)
            self._leave_alone(due, FIRST_PAUSE, self._interval)
        except RunnerQError as error:
            self._tell(due, "schedule %r cannot be fired by this worker: %s", error)
        except Exception as error:  # noqa: BLE001 - it holds up no other, whatever it is
            self._tell(due, "firing schedule %r failed: %r", error, exc_info=error)
        finally:
            self._under_way.discard(due.name)
        if len(self._under_way) < AT_ONCE:
            self._look_within(0)

    def _tell(self, due: DueSchedule, what: str, error: Exception, exc_info: Exception | None = None) -> None:
        """Leave one alone that this worker cannot fire, and tell it once: others may fire it, tick by tick."""
        if due.name not in self._told:
            self._told.add(due.name)
            log.error(what, due.name, error, exc_info=exc_info)
        self._leave_alone(due, FIRST_AFTER_FAULT, LONGEST_AFTER_FAULT)

    def _leave_alone(self, due: DueSchedule, first: float, most: float) -> None:
        """Until it is another one by its serial, or for a while."""
        vain = self._vain.get(due.name)
        tries = vain.tries + 1 if vain is not None and vain.serial == due.serial else 1
        until = self._timers.time() + doubling(tries, first, most)
        self._vain[due.name] = _Vain(due.serial, tries, until)

    async def _try(self, due: DueSchedule, now: datetime) -> Fired | None:
        record = await self._storage.schedule(due.name)
        if record is None or record.serial != due.serial:
            return None  # it was fired meanwhile, or changed
        known = [] if record.row.kind is not None else await self._storage.definitions(record.row.workflow)
        fired = await self._storage.fire(firing_of(record, now, known))
        if fired is not None and fired.skipped:
            log.info("schedule %r passed over %d ticks: an earlier run is open", record.row.name, fired.skipped)
        return fired


def _some(due: list[DueSchedule], most: int) -> list[DueSchedule]:
    return due if len(due) <= most else random.sample(due, most)


def _end(asleep: asyncio.Future[None]) -> None:
    if not asleep.done():
        asleep.set_result(None)
