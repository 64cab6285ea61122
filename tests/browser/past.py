"""Changes to what is on record that no test could wait for: days between two entries, and a journal of 20,000."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg

_TIMES = (
    ("run", "id", ("created_at",)),
    ("live", "run_id", ("started_at", "parked_at")),
    ("journal", "run_id", ("at",)),
    ("outcome", "run_id", ("started_at", "ended_at")),
)


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Any]:
    """A connection of its own."""
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def gap_before(dsn: str, root: str, kind: str, position: str, gap: timedelta) -> None:
    """Have all that happened in a tree before this row of its root have happened so much earlier."""
    async with connected(dsn) as connection, connection.transaction():
        at = await connection.fetchval(
            "select at from runnerq.journal where run_id = $1 and kind = $2 and position = $3", root, kind, position
        )
        ids = await connection.fetchval("select array_agg(id) from runnerq.run where coalesce(root_id, id) = $1", root)
        for table, key, columns in _TIMES:
            moved = ", ".join(
                f"{each} = case when {each} < $2::timestamptz then {each} - $3::interval else {each} end"
                for each in columns
            )
            await connection.execute(f"update runnerq.{table} set {moved} where {key} = any($1)", ids, at, gap)


async def long_history(dsn: str, run_id: str, entries: int) -> None:
    """Have a run that has ended have done so many steps, one a second."""
    async with connected(dsn) as connection, connection.transaction():
        await connection.execute("delete from runnerq.journal where run_id = $1 and place > 0", run_id)
        await connection.execute(_ENTRIES, run_id, entries)
        for table, key, columns in _TIMES[:1] + _TIMES[3:]:
            begun = columns[0]
            statement = f"update runnerq.{table} set {begun} = {begun} - $2::interval where {key} = $1"
            await connection.execute(statement, run_id, timedelta(seconds=entries))
        await connection.execute(
            "update runnerq.journal set at = at - $2::interval where run_id = $1", run_id, timedelta(seconds=entries)
        )


_ENTRIES = """
    with first as (select * from runnerq.journal where run_id = $1)
    insert into runnerq.journal (run_id, token, at, generation, place, kind, position, value, asked)
    select run_id, token, at + n * interval '1 second', generation, n, 'answered', n::text, to_json(n),
        case when n < $2 then json_build_array(json_build_array((n + 1)::text, 'step', 'read_page', 'd')) end
    from first, generate_series(1, $2) as n
"""


async def busy_day(dsn: str, runs: int) -> None:
    """Have so many runs ended in the last day, most of them well, as a shop's would by day and by night."""
    async with connected(dsn) as connection, connection.transaction():
        await connection.execute(_DAY, runs)


_DAY = """
    with spread as (
        select n, clock_timestamp() - interval '20 seconds' - random() * random() * interval '23 hours' as begun,
            (array['checkout', 'greet', 'ship', 'pay_supplier'])[1 + floor(random() * 4)::int] as name,
            random() as luck, (0.05 + random() * random() * 4) * interval '1 second' as took
        from generate_series(1, $1) as n
    ), made as (
        select spread.*, (lpad(to_hex((extract(epoch from begun) * 1000)::bigint), 12, '0') || '7'
            || substr(md5(random()::text), 1, 3) || '8' || substr(md5(random()::text), 1, 15))::uuid as id
        from spread
    ), began as (
        insert into runnerq.run (id, created_at, version, priority, depth, kind, name, queue, input)
        select id, begun, 1, 2, 0, 'workflow', name, 'default', '{"args":[],"kwargs":{}}' from made
    )
    insert into runnerq.outcome (run_id, token, ended_at, started_at, status, result, error)
    select id, 0, begun + took, begun, case when luck < 0.98 then 'completed' else 'failed' end,
        case when luck < 0.98 then 'null'::json end,
        case when luck >= 0.98 then (select error from runnerq.outcome where status = 'failed' limit 1) end
    from made
"""
