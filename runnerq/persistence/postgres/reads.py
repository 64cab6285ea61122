"""The queries. None locks anything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from runnerq.persistence.postgres import rows, tail
from runnerq.persistence.postgres.core import Core
from runnerq.persistence.postgres.lending import Record
from runnerq.persistence.records import (
    Aggregate,
    BlockRecord,
    Definition,
    Event,
    Group,
    GroupBy,
    Journal,
    Mail,
    Outcome,
    QueueRecord,
    RunFilter,
    RunRecord,
    Stats,
    Status,
    Tail,
    WorkerRecord,
    in_order,
)

_STORED = {
    "pending": "pending",
    "scheduled": "pending",
    "retrying": "pending",
    "running": "running",
    "waiting": "waiting",
    "blocked": "blocked",
}
_UNWELL = frozenset({"failed", "dead_letter", "cancelled"})


class Queries(Core):
    """What reads."""

    async def outcomes(self, run_ids: Sequence[str]) -> list[Outcome]:
        if not run_ids:
            return []
        return [rows.outcome(record) for record in await self._read("read_outcomes", list(run_ids))]

    async def run(self, run_id: str) -> RunRecord | None:
        return next(map(rows.run, await self._read("read_run", run_id)), None)

    async def by_key(self, name: str, key: str) -> str | None:
        found = await self._read("read_key", name, key)
        return found[0]["run_id"] if found else None

    async def journal(self, run_id: str, generation: int | None = None) -> Journal | None:
        found = await self._read("read_journal", run_id, generation)
        if not found:
            return None
        return Journal(
            run_id=found[0]["run_id"],
            generation=found[0]["generation"],
            rows=rows.journal_rows(found[0]),
            attempts=rows.attempts(found[0]["attempts"]),
        )

    async def block(self, run_id: str) -> BlockRecord | None:
        return next(map(rows.block, await self._read("read_block", run_id)), None)

    async def state(self, run_id: str) -> str | None:
        found = await self._read("read_state", run_id)
        return found[0]["value"] if found else None

    async def mailbox(self, run_id: str) -> list[Mail]:
        return [
            Mail(record["number"], record["number"], record["at"], record["channel"], record["value"])
            for record in await self._read("read_mailbox", run_id)
        ]

    async def list_runs(self, where: RunFilter, limit: int, before: str | None) -> list[RunRecord]:
        return [rows.run(record) for record in await self._find("list_runs", limit, before, where)]

    async def count_runs(self, where: RunFilter, cap: int) -> int:
        counted = await self._find("aggregate_runs", cap, None, where, None)
        return sum(record["how_many"] for record in counted)

    async def aggregate(self, where: RunFilter, by: GroupBy, cap: int) -> Aggregate:
        counted = await self._find("aggregate_runs", cap, None, where, by)
        groups = [Group(value=record["value"], count=record["how_many"]) for record in counted]
        return Aggregate(groups=in_order(groups, by), capped=any(record["capped"] for record in counted))

    async def open_runs(self, names: Sequence[str], limit: int, after: str | None) -> list[RunRecord]:
        return [rows.run(record) for record in await self._read("read_open_runs", list(names), limit, after)]

    async def definitions(self, name: str | None = None) -> list[Definition]:
        return [rows.definition(record) for record in await self._read("read_definitions", name)]

    async def stats(self) -> Stats:
        counted = await self._fresh("read_depths")
        return Stats(
            at=counted[0]["now"],
            depths=tuple(rows.depth(record) for record in counted if record["status"] is not None),
            workers=tuple(worker for worker in await self.workers() if worker.alive),
        )

    async def queues(self) -> list[QueueRecord]:
        return [rows.queue(record) for record in await self._fresh("read_queues")]

    async def workers(self) -> list[WorkerRecord]:
        return [rows.worker(record) for record in await self._read("read_workers")]

    async def events(self, after: str | None, limit: int) -> Tail:
        [record] = await self._read("read_snapshot")
        now = tail.snapshot(record["snapshot"])
        if after is None:
            return Tail(events=(), cursor=now.text)
        cursor = tail.parsed(after, now)
        step = tail.STEP
        events: list[Event] = []
        while True:
            seen, until = cursor.seen, cursor.next_stop(now, step)
            found = await self._happened(seen, until, cursor.place, limit - len(events))
            events += [rows.event(record, tail.at(record, seen, until)) for record in found]
            if len(events) == limit:
                return Tail(events=tuple(events), cursor=events[-1].cursor)
            if until == now:
                return Tail(events=tuple(events), cursor=until.text)
            cursor = tail.Cursor(until)
            if len(found) < limit / 4:
                step *= 2 if found else 16

    async def now(self) -> datetime:
        [record] = await self._read("read_now")
        now: datetime = record["now"]
        return now

    async def _happened(
        self, seen: tail.Snapshot, until: tail.Snapshot, place: tail.Place, limit: int
    ) -> Sequence[Record]:
        return await self._fresh(
            "read_events",
            limit,
            seen.xmax,
            sorted(set(seen.open) - set(until.open)),
            until.xmax,
            list(until.open),
            place.xid,
            place.source,
            place.id,
        )

    async def _find(
        self, statement: str, limit: int, before: str | None, where: RunFilter, *more: object
    ) -> Sequence[Record]:
        statuses = _statuses(where.status)
        way = _way(where, statuses)
        return await self._fresh(
            f"{statement}_{way}",
            limit,
            before,
            statuses,
            where.workflow,
            where.queue,
            where.key_prefix,
            None if where.metadata is None else _patterns(where.metadata),
            where.parent,
            where.root,
            where.since,
            where.until,
            sorted({_STORED[status] for status in statuses}) if statuses and way == "open" else None,
            *more,
        )

    async def _fresh(self, statement: str, *args: object) -> Sequence[Record]:
        return await self._connections.fetch_fresh(self._statements[statement], *args)

    async def _read(self, statement: str, *args: object) -> Sequence[Record]:
        return await self._connections.fetch_prompt(self._statements[statement], *args)


def _statuses(given: Iterable[Status] | Status | str | None) -> list[str] | None:
    match given:
        case None:
            return None
        case str():
            return [given]
        case _:
            return [str(status) for status in given]


def _way(where: RunFilter, statuses: list[str] | None) -> str:
    """The way to the runs that fit which passes by the fewest others."""
    if where.parent is not None:
        return "parent"
    if where.root is not None:
        return "root"
    if statuses and _STORED.keys() >= set(statuses):
        return "open"
    if statuses and _UNWELL.issuperset(statuses):
        return "unwell"
    return "all"


def _patterns(metadata: Mapping[str, str]) -> list[str]:
    """A regular expression for each pair, over JSON text: taking the text apart would fail on a NUL in any run's."""
    return [
        rf"[{{,]\s*{re.escape(_json(name))}\s*:\s*{re.escape(_json(value))}\s*[,}}]" for name, value in metadata.items()
    ]


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()
