"""Plans of statements as a new installation makes them, over empty tables, and what they touch once there is much."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import asyncpg

from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.postgres.greeting import STEADY_PLANS
from runnerq.persistence.postgres.statements import Statements

OPEN_RUNS = 200_000
WORKER, OTHER = 1, 2


class Plans:
    """One session whose statements were all prepared, and their plans made, before there was anything in the tables."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def prepare(self, names: Iterable[str]) -> None:
        statements = Statements("runnerq")
        for name in names:
            await self._connection.execute(f"prepare {name} as {statements[name]}")
            await self.plan(name)

    async def plan(self, name: str) -> dict[str, Any]:
        """The plan that the session keeps for a statement."""
        parameters = "select cardinality(parameter_types) from pg_prepared_statements where name = $1"
        nulls = ["null"] * await self._connection.fetchval(parameters, name)
        return await self._explained(f"explain (format json) execute {name}({', '.join(nulls)})")

    async def run(self, name: str, *args: object) -> dict[str, Any]:
        """Run a statement by its plan; the plan with what it touched."""
        return await self._explained(
            f"explain (analyze, costs off, timing off, format json) execute {name}({', '.join(map(_literal, args))})"
        )

    async def fetch(self, query: str) -> list[Any]:
        return [row[0] for row in await self._connection.fetch(query)]

    async def execute(self, command: str) -> None:
        await self._connection.execute(command)

    async def _explained(self, command: str) -> dict[str, Any]:
        [explained] = json.loads(await self._connection.fetchval(command))
        plan: dict[str, Any] = explained["Plan"]
        return plan


@asynccontextmanager
async def plans_made_early(dsn: str, names: Iterable[str]) -> AsyncIterator[Plans]:
    """The plans of these statements in a new database, which is filled once they are made."""
    storage = PostgresStorage(dsn)
    await storage.open()
    await storage.close()
    connection = await asyncpg.connect(dsn, server_settings=STEADY_PLANS)
    try:
        plans = Plans(connection)
        await plans.prepare(names)
        await _fill(connection)
        yield plans
    finally:
        await connection.close()


async def _fill(connection: asyncpg.Connection) -> None:
    """A tenth ready, a tenth held by another worker, a tenth blocked, a tenth with a timer, the others parked."""
    await connection.execute(
        f"""
        alter table runnerq.live set (autovacuum_enabled = off);
        insert into runnerq.worker (id, beat_at, lease, pid, host, build, queues, served)
        select id, now(), 60, 1, 'h', 'b', '{{}}', '{{}}' from unnest(array[{WORKER}, {OTHER}]) as w(id);
        insert into runnerq.live (
            run_id, token, worker_id, rank, due_at, started_at, parked_at, priority, state, queue, served,
            wants_signals)
        select gen_random_uuid(), n, case kind when 1 then {OTHER} end, now() - n * interval '1 ms',
               case kind when 3 then now() + n * interval '1 s' end, now(), now(), 2,
               case kind when 0 then 'pending' when 1 then 'running' when 2 then 'blocked' else 'waiting' end,
               'q', 'order@1', '{{go}}'
        from generate_series(1, {OPEN_RUNS}) as n cross join lateral (select n % 10 as kind) as k;
        insert into runnerq.block (run_id, at, builds, message)
        select run_id, now(), '{{other}}', 'm' from runnerq.live where state = 'blocked';
        insert into runnerq.run (id, version, priority, depth, kind, name, queue, input)
        select run_id, 1, 2, 0, 'workflow', 'order', 'q', '[]' from runnerq.live where state = 'pending'
        """
    )


def unbounded_scans(plan: dict[str, Any]) -> set[str | None]:
    """The indexes (None: a table) that a plan reads from end to end."""
    return {
        node.get("Index Name")
        for node in nodes(plan)
        if is_scan(node) and "Index Cond" not in node and "TID Cond" not in node
    }


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def is_scan(node: dict[str, Any]) -> bool:
    """Whether the node reads a table of ours."""
    return "Relation Name" in node and node["Node Type"] != "ModifyTable"


def touched(plan: dict[str, Any], table: str) -> int:
    """Rows of this table that the nodes read, those included that they threw away."""
    return sum(
        round(
            (node["Actual Rows"] + node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0))
            * node["Actual Loops"]
        )
        for node in nodes(plan)
        if is_scan(node) and node["Relation Name"] == table
    )


def _literal(value: object) -> str:
    """An argument of EXECUTE; text, whose type the statement knows."""
    match value:
        case None:
            return "null"
        case list():
            return _quoted("{" + ",".join("null" if each is None else _element(each) for each in value) + "}")
        case datetime():
            return _quoted(value.isoformat())
        case _:
            return _quoted(str(value))


def _element(value: object) -> str:
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
