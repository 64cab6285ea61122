"""What must hold of a hammered database: while it is hammered, and at the end."""

from __future__ import annotations

import asyncpg

from tests.persistence.postgres.hammer.counts import Report
from tests.persistence.postgres.hammer.turns import LENGTH, MOVING

LOST_WAKES = """
select l.run_id::text, l.inbox, l.wants_signals, l.wants_children, l.needs, l.cancel
from runnerq.live as l
where l.state = 'waiting' and (
    l.cancel is not null
    or exists (
        select from runnerq.signal as s
        where s.run_id = l.run_id and not s.taken and s.channel = any(l.wants_signals))
    or exists (select from runnerq.outcome as o where o.run_id = any(l.wants_children) and o.status <> 'completed')
    or (select count(*) from runnerq.outcome as o where o.run_id = any(l.wants_children)) >= greatest(l.needs, 1)
    or l.wants_children is null and not exists (select from runnerq.live as c where c.parent_id = l.run_id))
"""

MUST_BE_NOTHING = {
    "journals with gaps": """
        select run_id::text from runnerq.journal group by run_id having count(*) <> max(place) + 1""",
    "entries of two owners interleaved": """
        select run_id::text from runnerq.journal group by run_id, value ->> 'token'
        having count(*) <> max(place) - min(place) + 1""",
    "entries written under another token than their own": """
        select run_id::text from runnerq.journal where (value ->> 'token')::bigint <> token""",
    "runs without an outcome": """
        select r.id::text from runnerq.run as r
        left join runnerq.outcome as o on o.run_id = r.id where o.run_id is null""",
    "open runs that have ended": """
        select l.run_id::text from runnerq.live as l join runnerq.outcome as o on o.run_id = l.run_id""",
    "signals consumed twice": """
        select value ->> 'value' from runnerq.journal where value ->> 'kind' = 'signal'
        group by value ->> 'value' having count(*) > 1""",
    "signals consumed and still there": """
        select s.value::text from runnerq.signal as s join runnerq.journal as j
        on j.value ->> 'kind' = 'signal' and j.value ->> 'value' = s.value #>> '{}' where not s.taken""",
    "children that nobody has made": """
        select j.run_id::text from runnerq.journal as j
        cross join lateral json_array_elements_text(j.value -> 'ids') as c(id)
        left join runnerq.outcome as o on o.run_id = c.id::uuid
        where j.value ->> 'kind' = 'spawn' and o.run_id is null""",
    "keys that more than one run began with": """
        select r.key from runnerq.run as r left join runnerq.outcome as o on o.run_id = r.id
        where r.key is not null and o.error ->> 'type' is distinct from 'KeyTaken'
        group by r.name, r.key having count(*) > 1""",
    "published states that are not the last ones": """
        select s.run_id::text from runnerq.state as s
        join (
            select run_id, max(place) as place from runnerq.journal where value ->> 'kind' = 'published' group by run_id
        ) as j on j.run_id = s.run_id
        where s.value::text::integer <> j.place""",
    "attempts of ended runs": "select run_id::text from runnerq.attempt",
    "blocks of ended runs": "select run_id::text from runnerq.block",
}
STEPS_SHORT = """
    select o.run_id::text from runnerq.outcome as o
    left join lateral (
        select count(*) as n from runnerq.journal as j where j.run_id = o.run_id and j.value ->> 'kind' = any($2)
    ) as e on true
    where o.status in ('completed', 'failed') and o.token <> 0 and e.n <> $1"""
CONSUMED_OR_LEFT = """
    select (select count(*) from runnerq.journal where value ->> 'kind' = 'signal')
         + (select count(*) from runnerq.signal where not taken)"""


async def judge(connection: asyncpg.Connection, report: Report) -> None:
    """Add to the report whatever is wrong in the end."""
    left = await connection.fetch("select state, count(*) from runnerq.live group by state")
    if left:
        report.faults.append(f"runs that did not end: {[tuple(row) for row in left]}")
    for fault, query in MUST_BE_NOTHING.items():
        found = await connection.fetch(query)
        if found and not (left and "outcome" in fault):
            report.faults.append(f"{fault}: {len(found)}, such as {found[0][0]}")
    short = await connection.fetch(STEPS_SHORT, LENGTH, sorted(MOVING))
    if short:
        report.faults.append(f"runs that ended early: {len(short)}, such as {short[0][0]}")
    there = await connection.fetchval(CONSUMED_OR_LEFT)
    if there != report.counts["sent"]:
        report.faults.append(f"{report.counts['sent']} signals were sent, {there} were consumed or are left")
