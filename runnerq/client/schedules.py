"""``client.schedules``: rules that start runs, kept in the database; any worker fires them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, assert_never

import msgspec

from runnerq.client.core import Core
from runnerq.client.handle import Handle
from runnerq.client.schedule import Schedule, ScheduleInfo, info_of
from runnerq.client.schedule_rows import Given
from runnerq.errors import ConfigurationError, ScheduleNotFound
from runnerq.persistence.coded import would_seal
from runnerq.persistence.records import Changed, Definition, ScheduleRecord
from runnerq.persistence.scheduling import check_readable, most_at_once, rule_of, run_of
from runnerq.workflow.given import EARLIEST, check_name, checked_time

MOST_TICKS = 10_000
"""Runs of one backfill."""


class Schedules:
    """The schedules of one database."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    async def put(self, schedule: Schedule, *, check: Callable[[ScheduleInfo | None], object] | None = None) -> bool:
        """Create the schedule, or replace the one of its name; False if it is there already, just as it is.

        What is put for the first time, or changed, counts from now: ticks that it missed before are none of it. One
        that is paused stays so. One that is there is sealed anew where this client's codecs seal in another way.

        ``check`` is called with the one that is there, None if there is none, and raises where that is not to be
        replaced. What it was called with last is what is replaced, whoever else puts at the same time.

        Raises ConfigurationError, EncodingError or TypeError for what no run could start with, and PayloadUnreadable
        where one is there whose arguments cannot be opened here: delete it first if nobody can.
        """
        given, storage = Given(schedule, self._core.codec), self._core.storage
        while True:
            known = await storage.schedule(given.row.name)
            if check is not None:
                check(None if known is None else info_of(known))
            if known is not None:
                check_readable(known.row)
            if known is None or not given.is_stored_as(known.row):
                now = await storage.now()
                next_at = rule_of(given.row, now).next(now)
                # Whoever puts the same at the same time is told that it is there, and a tick between is not lost.
                if await storage.put_schedule(given.row, None if known is None else known.serial, now, next_at):
                    return True
            elif known.sealed_by == would_seal(self._core.chain, known.row) or await storage.put_schedule(
                known.row, known.serial, known.since, known.next_at, behind=known.behind
            ):
                return False

    async def list(self) -> list[ScheduleInfo]:
        """All schedules, by name."""
        return [info_of(record) for record in await self._core.storage.schedules()]

    async def get(self, name: str) -> ScheduleInfo | None:
        """The schedule of this name; None if there is none."""
        record = await self._core.storage.schedule(_named(name))
        return None if record is None else info_of(record)

    async def pause(self, name: str) -> bool:
        """Have it start nothing until ``resume``; False if it is paused. Raises ScheduleNotFound."""
        changed = await self._core.storage.pause_schedule(_named(name))
        match changed:
            case Changed.CHANGED | Changed.UNCHANGED:
                return changed is Changed.CHANGED
            case Changed.UNKNOWN | Changed.REFUSED:
                raise ScheduleNotFound(name)
            case _:
                assert_never(changed)

    async def resume(self, name: str) -> bool:
        """End a pause: the next tick from now on is its next; False if it is not paused. Raises ScheduleNotFound."""
        while True:
            record = await self._record(name)
            if record.paused_at is None:
                return False
            now = await self._core.storage.now()
            next_at = rule_of(record.row, record.since).next(now)
            if await self._core.storage.resume_schedule(name, record.serial, next_at):
                return True

    async def trigger(self, name: str) -> Handle[Any]:
        """Start one run of it now, also while it is paused, and whatever runs. Raises ScheduleNotFound.

        It counts as one of its runs: a tick that comes while it is open does what ``overlap`` says.
        """
        record = await self._record(name)
        now = await self._core.storage.now()
        run = msgspec.structs.replace(run_of(record.row, now, await self._known(record)), key=None)
        if await self._core.trigger(name, run) is None:
            raise ScheduleNotFound(name)
        return Handle(self._core, run.id, Any, created=True, known=True)

    async def backfill(self, name: str, since: datetime, until: datetime) -> int:
        """Start a run for each tick from ``since`` on and before ``until`` that has none; how many it was.

        They start at once, beside each other, also while it is paused. Ticks that are yet to come are left to come.
        Raises ScheduleNotFound, and ConfigurationError for more than 10,000 ticks: give a shorter span then.
        """
        begin, end = checked_time(since, "since="), checked_time(until, "until=")
        if begin < EARLIEST:
            raise ConfigurationError(f"since={since} is before the year {EARLIEST.year}: give a later time")
        record = await self._record(name)
        end = min(end, await self._core.storage.now())
        ticks = list(islice(_ticks(record, begin, end), MOST_TICKS + 1))
        if len(ticks) > MOST_TICKS:
            raise ConfigurationError(
                f"schedule {name!r} has more than {MOST_TICKS:,} ticks between {begin} and {end}: nothing was started, "
                "backfill a shorter span"
            )
        known = await self._known(record)
        count = 0
        size = most_at_once(record.row)
        for first in range(0, len(ticks), size):
            runs = [run_of(record.row, tick, known) for tick in ticks[first : first + size]]
            count += sum(reply.created for reply in await self._core.start(runs))
        return count

    async def delete(self, name: str) -> bool:
        """Delete it; its runs go on. False if there is none."""
        return await self._core.storage.delete_schedule(_named(name))

    async def _record(self, name: str) -> ScheduleRecord:
        record = await self._core.storage.schedule(_named(name))
        if record is None:
            raise ScheduleNotFound(name)
        return record

    async def _known(self, record: ScheduleRecord) -> Sequence[Definition]:
        """What is known of its name, where it starts by name."""
        return () if record.row.kind is not None else await self._core.storage.definitions(record.row.workflow)


def _ticks(record: ScheduleRecord, since: datetime, until: datetime) -> Iterator[datetime]:
    # All ticks after a moment before: the first of them may be at ``since``.
    ticks: Iterable[datetime] = rule_of(record.row, record.since).ticks(since - datetime.resolution)
    for tick in ticks:
        if tick >= until:
            return
        yield tick


def _named(name: object) -> str:
    return check_name(name, "the schedule's name")
