"""The schedules of the in-memory storage."""

from __future__ import annotations

from datetime import datetime

from runnerq.persistence.memory import schedules
from runnerq.persistence.memory.checks import check_names, check_run, check_schedule
from runnerq.persistence.memory.core import Core
from runnerq.persistence.records import (
    Changed,
    DueSchedule,
    DueSchedules,
    Fired,
    Firing,
    NewRun,
    ScheduleRecord,
    ScheduleRow,
    StartReply,
)


class Schedules(Core):
    """What the protocol says of schedules."""

    async def put_schedule(
        self, row: ScheduleRow, seen: int | None, since: datetime, next_at: datetime | None, *, behind: bool = False
    ) -> bool:
        check_schedule(row)
        with self.writing() as (book, now):
            if seen is None:
                return schedules.create(book, row, since, next_at, now)
            return schedules.replace(book, row, seen, since=since, next_at=next_at, behind=behind)

    async def schedule(self, name: str) -> ScheduleRecord | None:
        check_names(name)
        with self._reading() as (book, _):
            return book.schedules.get(name)

    async def schedules(self) -> list[ScheduleRecord]:
        with self._reading() as (book, _):
            return [book.schedules[name] for name in sorted(book.schedules)]

    async def pause_schedule(self, name: str) -> Changed:
        check_names(name)
        with self.writing() as (book, now):
            return schedules.pause(book, name, now)

    async def resume_schedule(self, name: str, seen: int, next_at: datetime | None) -> bool:
        check_names(name)
        with self.writing() as (book, _):
            return schedules.resume(book, name, seen, next_at)

    async def delete_schedule(self, name: str) -> bool:
        check_names(name)
        with self.writing() as (book, _):
            return book.schedules.pop(name, None) is not None

    async def due_schedules(self, limit: int, after: DueSchedule | None = None) -> DueSchedules:
        with self._reading() as (book, now):
            return schedules.due(book, limit, after, now)

    async def fire(self, firing: Firing) -> Fired | None:
        for run in firing.runs:
            check_run(run)
        with self.writing() as (book, now):
            return schedules.fire(book, firing, now)

    async def trigger(self, name: str, run: NewRun) -> StartReply | None:
        check_names(name)
        check_run(run)
        with self.writing() as (book, now):
            return schedules.trigger(book, name, run, now)
