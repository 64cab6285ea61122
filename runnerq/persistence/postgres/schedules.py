"""Schedules: kept, changed by whom has seen them last, and fired once a tick.

Rules
- A firing is one transaction: it takes the schedule's row, if it is the one that was seen and nobody has it; starts the
  runs; asks those in their way to cancel; moves the schedule on. What fails of it leaves nothing.
- It does not wait for a key or a run that somebody holds for longer than a moment: nothing is fired then, and whoever
  fires looks again. So one schedule's trouble takes nobody's time.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

import msgspec

from runnerq.errors import DecodingError, StorageRefused
from runnerq.persistence.postgres import rows
from runnerq.persistence.postgres.lending import Lent, Record
from runnerq.persistence.postgres.runs import RunWrites
from runnerq.persistence.postgres.starts import wake_of
from runnerq.persistence.postgres.texts import plain
from runnerq.persistence.records import (
    KEPT_RUNS,
    Changed,
    DueSchedule,
    DueSchedules,
    Fired,
    Firing,
    NewRun,
    ScheduleRecord,
    ScheduleRow,
    StartReply,
    Wake,
)

_log = logging.getLogger("runnerq.postgres")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ScheduleRow).decode
_MOVED = Wake(schedules=True)


class Schedules(RunWrites):
    """What the protocol says of schedules."""

    async def put_schedule(
        self, row: ScheduleRow, seen: int | None, since: datetime, next_at: datetime | None, *, behind: bool = False
    ) -> bool:
        given = [plain(row.name, "the schedule's name"), _rule(row), row.input, since, next_at]
        if seen is None:
            put = await self._connections.fetch(self._statements["create_schedule"], *given)
        else:
            put = await self._connections.fetch(self._statements["replace_schedule"], *given, seen, behind)
        return self._whether(put)

    async def schedule(self, name: str) -> ScheduleRecord | None:
        found = await self._connections.fetch_prompt(self._statements["read_schedules"], plain(name, "the name"))
        return next(map(_record, found), None)

    async def schedules(self) -> list[ScheduleRecord]:
        found = await self._connections.fetch_prompt(self._statements["read_schedules"], None)
        records = []
        for each in found:
            try:
                records.append(_record(each))
            except DecodingError as error:
                _log.error("it is left out of the list of schedules: %s", error)
        return records

    async def pause_schedule(self, name: str) -> Changed:
        [record] = await self._connections.fetch(self._statements["pause_schedule"], plain(name, "the name"))
        return Changed(record["changed"])

    async def resume_schedule(self, name: str, seen: int, next_at: datetime | None) -> bool:
        named = plain(name, "the name")
        return self._whether(await self._connections.fetch(self._statements["resume_schedule"], named, seen, next_at))

    async def delete_schedule(self, name: str) -> bool:
        return bool(await self._connections.fetch(self._statements["delete_schedule"], plain(name, "the name")))

    async def due_schedules(self, limit: int, after: DueSchedule | None = None) -> DueSchedules:
        seen = (None, None) if after is None else (after.next_at, after.name)
        found = await self._connections.fetch_upkeep(self._statements["read_due_schedules"], limit, *seen)
        due = [DueSchedule(each["name"], each["serial"], each["next_at"]) for each in found if each["name"] is not None]
        return DueSchedules(now=found[0]["now"], schedules=tuple(due), next_at=found[0]["later"])

    async def fire(self, firing: Firing) -> Fired | None:
        async def within(connection: Lent) -> tuple[Fired, Wake] | None:
            held = await connection.fetch(self._statements["hold_schedule"], firing.name, firing.serial)
            return await self._fired(connection, firing, held[0]["open"]) if held else None

        done = await self._connections.in_transaction_at_once(within)
        if done is None:
            return None
        fired, wake = done
        self._changes.tell(wake)
        return fired

    async def trigger(self, name: str, run: NewRun) -> StartReply | None:
        async def within(connection: Lent) -> StartReply | None:
            if not await connection.fetch(self._statements["add_to_schedule"], name, run.id, KEPT_RUNS):
                return None
            [record] = await connection.fetch(*self._starts.starting([run]))
            return rows.start_reply(record)

        plain(name, "the name")
        reply = await self._connections.in_transaction(within)
        self._changes.tell(Wake(queues=frozenset(() if reply is None else (run.queue,))))
        return reply

    async def _fired(self, connection: Lent, firing: Firing, open_runs: Sequence[str]) -> tuple[Fired, Wake]:
        """What becomes of a firing whose schedule is held, and whom to tell once it is committed."""
        started: Sequence[Record] = ()
        cancelled: Sequence[Record] = ()
        skips = firing.overlap == "skip" and len(open_runs) > 0
        if firing.runs and not skips:
            started = await connection.fetch(*self._starts.starting(firing.runs))
        runs = [record["id"] for record in started]
        if runs and firing.overlap == "cancel":
            asked = [run_id for run_id in open_runs if run_id not in runs]
            reason = f"schedule {firing.name!r} goes on"
            cancelled = await connection.fetch(self._statements["cancel_runs"], asked, reason) if asked else ()
        skipped = len(firing.runs) if skips else 0
        behind = firing.behind and not skips
        await connection.fetch(
            self._statements["move_schedule"], firing.name, firing.next_at, firing.last_at, behind, skipped, runs,
            KEPT_RUNS,
        )  # fmt: skip
        born = {run.queue for run, record in zip(firing.runs, started, strict=False) if record["created"]}
        ended = [record["run_id"] for record in cancelled if record["ended"]]
        wake = wake_of(cancelled, ("ready_queue", "parent_queue"), ("worker_id", "parent_worker"), ended, born)
        sent = tuple(record["run_id"] for record in cancelled if record["sent"] == "sent")
        return Fired(runs=tuple(runs), skipped=skipped, cancelled=sent), wake

    def _whether(self, changed: Sequence[Record]) -> bool:
        if changed:
            self._changes.tell(_MOVED)
        return len(changed) > 0


def _rule(row: ScheduleRow) -> str:
    """All but the input, which stands beside it as payloads do."""
    try:
        return _encode(msgspec.structs.replace(row, input="")).decode()
    except UnicodeEncodeError as error:
        raise StorageRefused(f"a name of schedule {row.name!r} cannot be stored as UTF-8: {error}") from error


def _record(record: Record) -> ScheduleRecord:
    try:
        row = _decode(record["rule"])
    except msgspec.DecodeError as error:
        raise DecodingError(
            f"schedule {record['name']!r}, as it is stored,",
            "a rule that this version of runnerq knows",
            f"{error}; another version has put it: use that one, or delete it and put it anew",
        ) from error
    return ScheduleRecord(
        row=msgspec.structs.replace(row, input=record["input"]),
        serial=record["serial"],
        since=record["since"],
        created_at=record["created_at"],
        next_at=record["next_at"],
        last_at=record["last_at"],
        paused_at=record["paused_at"],
        runs=tuple(record["runs"]),
        started=record["started"],
        skipped=record["skipped"],
        behind=record["behind"],
    )
