"""The schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

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


class Schedules(Protocol):
    """Rules that start runs. A storage keeps them and says which are due; when the next tick is, its callers work out.

    Every change of a schedule gives it another ``serial``, which none of that name had before, a deleted one included.
    A change that names a serial MUST be made only while it is the schedule's: of two at once, one is.
    """

    async def put_schedule(
        self, row: ScheduleRow, seen: int | None, since: datetime, next_at: datetime | None, *, behind: bool = False
    ) -> bool:
        """Create it (``seen`` is None), or replace the one that was seen; False, and nothing is changed, if there is
        one, or another one than was seen. What was paused stays so; its counts and last runs stay."""
        ...

    async def schedule(self, name: str) -> ScheduleRecord | None:
        """The schedule of this name. DecodingError for one that this code cannot read."""
        ...

    async def schedules(self) -> list[ScheduleRecord]:
        """All that this code can read, by name; the log tells of others."""
        ...

    async def pause_schedule(self, name: str) -> Changed:
        """Have it fire no more until it is resumed; UNCHANGED if it was paused, UNKNOWN if there is none."""
        ...

    async def resume_schedule(self, name: str, seen: int, next_at: datetime | None) -> bool:
        """End the pause of the schedule that was seen; its next tick is this. False if it is another one by now."""
        ...

    async def delete_schedule(self, name: str) -> bool:
        """Delete it; its runs go on. Whether there was one."""
        ...

    async def due_schedules(self, limit: int, after: DueSchedule | None = None) -> DueSchedules:
        """Up to so many that are due, and not paused, whether this code can read them or not; those that come after
        one of an earlier answer."""
        ...

    async def fire(self, firing: Firing) -> Fired | None:
        """Start the runs of a firing, judge overlap, and move the schedule on, in one commit; None, and nothing is
        changed, if the schedule is not the one that was seen any more, or somebody is at it or holds what it needs.

        A tick's run that is there already, by its key, is what stands for that tick.
        """
        ...

    async def trigger(self, name: str, run: NewRun) -> StartReply | None:
        """Start this run as one of the schedule's, in one commit, whatever the schedule does; None if there is none.
        Repeating it is harmless."""
        ...
