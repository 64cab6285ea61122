"""The queries. None locks anything."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from runnerq.persistence.postgres import rows, tail
from runnerq.persistence.postgres.core import Core
from runnerq.persistence.postgres.lending import Record
from runnerq.persistence.postgres.sought import sought
from runnerq.persistence.records import (
    LOOK,
    MOST_GROUPS,
    Activity,
    Aggregate,
    BlockRecord,
    Counted,
    Definition,
    Event,
    Failures,
    Found,
    Group,
    GroupBy,
    Journal,
    Mail,
    Outcome,
    QueueRecord,
    RunFilter,
    RunRecord,
    Stats,
    Tail,
    WorkerRecord,
    failed_ones,
    in_order,
)

ALL_NAMES = ""
"""The name under which all runs together are counted: no run has it."""
MOST_COUNTED = 250_000
"""Open runs that are counted at most, but for running and blocked ones, which all are: a quarter of a second's work."""


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

    async def list_runs(
        self, where: RunFilter, limit: int, cursor: str | None = None, *, oldest: bool = False, look: int = LOOK
    ) -> Found:
        wanted = sought(where)
        if wanted.statuses == []:
            return Found(runs=())
        statement = f"list_runs_{wanted.way}_turned" if oldest else f"list_runs_{wanted.way}"
        records = await self._fresh(statement, limit, cursor, *wanted.arguments(look))
        found = tuple(rows.run(record) for record in records if record["id"] is not None)
        shown = found[:limit]
        return Found(runs=shown, next=shown[-1].id if len(found) > limit else records[0]["stop"])

    async def count_runs(self, where: RunFilter, cap: int, look: int | None = None) -> Counted:
        if where == RunFilter(status=where.status) and (wanted := sought(where)).way == "unwell":
            [record] = await self._read("count_unwell", wanted.statuses, cap + 1)
            return Counted(count=min(record["how_many"], cap), capped=record["how_many"] > cap)
        counted, capped = await self._aggregate(where, None, cap, look)
        return Counted(count=sum(record["how_many"] for record in counted), capped=capped)

    async def aggregate(self, where: RunFilter, by: GroupBy, cap: int, look: int | None = None) -> Aggregate:
        counted, capped = await self._aggregate(where, by, cap, look)
        groups = [Group(value=record["value"], count=record["how_many"]) for record in counted]
        return Aggregate(groups=in_order(groups, by), capped=capped)

    async def failures(self, where: RunFilter, cap: int) -> Failures:
        counted, capped = await self._aggregate(failed_ones(where), "failure", cap, LOOK)
        largest = sorted(counted, key=lambda record: (-record["how_many"], record["sample"]))[:MOST_GROUPS]
        samples = {each.run_id: each for each in await self.outcomes([record["sample"] for record in largest])}
        groups = tuple(rows.failure_group(record, samples.get(record["sample"])) for record in largest)
        return Failures(groups=groups, capped=capped or len(counted) > MOST_GROUPS)

    async def activity(
        self, since: datetime, until: datetime, span: int, names: Sequence[str] | None = None
    ) -> list[Activity]:
        whose = [ALL_NAMES] if names is None else list(names) or None
        return [rows.activity(record) for record in await self._fresh("read_activity", since, until, span, whose)]

    async def open_runs(self, names: Sequence[str], limit: int, after: str | None) -> list[RunRecord]:
        return [rows.run(record) for record in await self._read("read_open_runs", list(names), limit, after)]

    async def definitions(self, name: str | None = None) -> list[Definition]:
        return [rows.definition(record) for record in await self._read("read_definitions", name)]

    async def stats(self) -> Stats:
        counted = await self._fresh("read_depths", MOST_COUNTED)
        return Stats(
            at=counted[0]["now"],
            depths=tuple(rows.depth(record) for record in counted if record["status"] is not None),
            workers=tuple(worker for worker in await self.workers() if worker.alive),
            capped=counted[0]["capped"],
        )

    async def queues(self) -> list[QueueRecord]:
        return [rows.queue(record) for record in await self._fresh("read_queues", MOST_COUNTED)]

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

    async def _aggregate(
        self, where: RunFilter, by: str | None, cap: int, look: int | None
    ) -> tuple[list[Record], bool]:
        """The groups, and whether there may be more than was looked at."""
        wanted = sought(where)
        if wanted.statuses == []:
            return [], False
        found = await self._fresh(f"aggregate_runs_{wanted.way}", cap, None, *wanted.arguments(look), by)
        return [record for record in found if record["value"] is not None], any(record["capped"] for record in found)

    async def _fresh(self, statement: str, *args: object) -> Sequence[Record]:
        return await self._connections.fetch_fresh(self._statements[statement], *args)

    async def _read(self, statement: str, *args: object) -> Sequence[Record]:
        return await self._connections.fetch_prompt(self._statements[statement], *args)
