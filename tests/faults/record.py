"""What the database says in the end: runs, outcomes, the entries of journals, and when each was committed."""

from __future__ import annotations

from collections import defaultdict

import asyncpg
import msgspec

Position = tuple[str, int, str]
"""Run, generation and position: what an idempotency key begins with."""

_RUNS = """
select r.id::text, r.parent_id::text, r.kind, r.name, r.key, o.status, o.result::text,
       extract(epoch from pg_xact_commit_timestamp(o.xmin))::double precision as ended
from runnerq.run as r left join runnerq.outcome as o on o.run_id = r.id"""
_ENTRIES = """
select run_id::text, generation, place, position, kind, token, asked::text,
       extract(epoch from pg_xact_commit_timestamp(xmin))::double precision as at
from runnerq.journal order by run_id, generation, place"""
_LEFT = {
    "open runs": "select count(*) from runnerq.live",
    "outcomes of nothing": """
        select count(*) from runnerq.outcome as o left join runnerq.run as r on r.id = o.run_id where r.id is null""",
    "attempts of ended runs": "select count(*) from runnerq.attempt",
    "blocks": "select count(*) from runnerq.block",
    "signals that nobody took": "select count(*) from runnerq.signal where not taken",
}
_STUCK = """
select run_id::text || ' ' || served || ' ' || state || coalesce(', due ' || due_at, '')
       || ', waits for ' || coalesce(wants_signals::text, 'no signal')
from runnerq.live order by run_id limit 3"""


class Run(msgspec.Struct, frozen=True):
    """``ended`` is when its outcome was committed."""

    id: str
    parent_id: str | None
    kind: str
    name: str
    key: str | None
    status: str | None
    result: str | None
    ended: float | None


class Record(msgspec.Struct, frozen=True):
    """``entries`` is when the answer of each step was committed, that of an activity run under position ``""``."""

    runs: dict[str, Run]
    entries: dict[Position, float]
    faults: list[str]

    @property
    def roots(self) -> list[Run]:
        return [run for run in self.runs.values() if run.parent_id is None]


async def read(dsn: str) -> Record:
    connection = await asyncpg.connect(dsn)
    try:
        runs = {row["id"]: Run(*row.values()) for row in await connection.fetch(_RUNS)}
        entries, faults = _judged(await connection.fetch(_ENTRIES))
        for what, query in _LEFT.items():
            if count := await connection.fetchval(query):
                faults.append(f"{what}: {count}")
        faults += [f"still open: {row[0]}" for row in await connection.fetch(_STUCK)]
    finally:
        await connection.close()
    for run in runs.values():
        if run.kind == "activity" and run.ended is not None:
            entries[run.id, 1, ""] = run.ended
    return Record(runs, entries, faults)


def _judged(rows: list[asyncpg.Record]) -> tuple[dict[Position, float], list[str]]:
    """When the answer of each step was committed, and what is wrong with the journals themselves."""
    asked: dict[Position, str] = {}
    entries: dict[Position, float] = {}
    faults: list[str] = []
    places: dict[tuple[str, int], int] = defaultdict(int)
    writers: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        run, generation = row["run_id"], row["generation"]
        if row["place"] != places[run, generation]:
            faults.append(f"run {run}: place {places[run, generation]} is not in its journal")
        places[run, generation] = row["place"] + 1
        tokens = writers[run]
        if not tokens or tokens[-1] != row["token"]:
            if row["token"] in tokens:
                faults.append(f"run {run}: entries of two owners are interleaved at place {row['place']}")
            tokens.append(row["token"])
        position = (run, generation, row["position"])
        if row["kind"] in ("answered", "failed") and asked.get(position) == "step":
            if position in entries:
                faults.append(f"run {run}: the step at {row['position']} was answered twice")
            entries[position] = row["at"]
        for ask in msgspec.json.decode(row["asked"]) if row["asked"] else ():
            asked[run, generation, ask[0]] = ask[1]
    return entries, faults
