"""The plans of what people read: made anew each time, over 100,000 runs of which most are of no concern.

Counted, not timed: what a plan touches does not depend on how busy the machine is.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from runnerq.persistence.postgres import PostgresStorage, tail
from runnerq.persistence.postgres.sought import sought
from runnerq.persistence.postgres.statements import Statements
from runnerq.persistence.records import LOOK, RunFilter, Status
from tests.persistence.postgres.planning import is_scan, nodes, touched

pytestmark = pytest.mark.asyncio(loop_scope="module")

BATCHES, BATCH = 100, 1_000
"""So many transactions, and so many runs in each: a fifth has ended, the others are open."""

PAGE = 50
ROOMY = 40 * PAGE
"""What a page may touch: some times what it shows, and no matter of how many runs there are."""


class Asked:
    """Statements as ``fetch_fresh`` sends them: planned for what they are given."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        self._statements = Statements("runnerq")

    async def explain(self, name: str, *args: object) -> dict[str, Any]:
        text = f"explain (analyze, costs off, timing off, format json) {self._statements[name]}"
        [explained] = json.loads(await self.connection.fetchval(text, *args))
        plan: dict[str, Any] = explained["Plan"]
        return plan

    async def listed(
        self, where: RunFilter, cursor: str | None = None, *, turned: bool = False, look: int = LOOK
    ) -> dict[str, Any]:
        """A page of runs."""
        wanted = sought(where)
        statement = f"list_runs_{wanted.way}_turned" if turned else f"list_runs_{wanted.way}"
        return await self.explain(statement, PAGE, cursor, *wanted.arguments(look))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def asked(module_database: str) -> AsyncIterator[Asked]:
    storage = PostgresStorage(module_database)
    await storage.open()
    await storage.close()
    connection = await asyncpg.connect(module_database, statement_cache_size=0)
    try:
        for batch in range(BATCHES):
            await connection.execute(_FILL.format(first=batch * BATCH, last=(batch + 1) * BATCH - 1))
        await connection.execute("vacuum analyze runnerq.run, runnerq.live, runnerq.outcome, runnerq.event")
        yield Asked(connection)
    finally:
        await connection.close()


_FILL = """
with batch as materialized (
    select n, (lpad(to_hex(1700000000000 + n), 12, '0') || '7' || lpad(to_hex(n % 4096), 3, '0') || '8'
               || lpad(to_hex(n), 15, '0'))::uuid as id
    from generate_series({first}, {last}) as n
), cold as (
    insert into runnerq.run (id, parent_id, root_id, version, priority, depth, kind, name, queue, input)
    select id, case when n % 5000 = 1 then '00000000-0000-7000-8000-000000000001'::uuid end,
           case when n % 5000 = 1 then '00000000-0000-7000-8000-000000000001'::uuid end,
           1, 2, 0, 'workflow', 'order', 'q', '[]'
    from batch
), over as (
    insert into runnerq.outcome (run_id, token, ended_at, status)
    select id, 1, now(), case when n % 1000 = 5 then 'dead_letter' else 'completed' end from batch where n % 5 = 0
), event as (
    insert into runnerq.event (kind, run_id) select 'crashed', id from batch where n % 100 = 1
)
insert into runnerq.live (run_id, worker_id, rank, due_at, started_at, priority, state, queue, served)
select id, case when n % 1000 = 1 then 1 end, now(), case when n % 5 = 2 then now() end, now(), 2,
       case when n % 1000 = 1 then 'running' when n % 1000 = 6 then 'blocked' when n % 5 = 4 then 'pending'
            else 'waiting' end,
       'q', 'order@1'
from batch where n % 5 <> 0
"""


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("status", "index"),
    [
        (None, "run_pkey"),
        (Status.COMPLETED, "run_pkey"),
        (Status.WAITING, "live_pkey"),
        (Status.PENDING, "live_pkey"),
        (Status.RUNNING, "live_held"),
        (Status.BLOCKED, "live_blocked"),
        (Status.DEAD_LETTER, "outcome_unwell"),
        ((Status.FAILED, Status.CANCELLED), "outcome_unwell"),
    ],
)
async def test_a_page_of_runs_touches_little_more_than_it_shows(
    asked: Asked, status: Status | tuple[Status, ...] | None, index: str, turned: bool
) -> None:
    plan = await asked.listed(RunFilter(status=status), turned=turned)
    assert index in _indexes(plan)
    assert _read(plan) < ROOMY


@pytest.mark.parametrize("way", ["parent", "root"])
async def test_a_family_is_found_without_looking_at_others(asked: Asked, way: str) -> None:
    plan = await asked.listed(RunFilter(**{way: "00000000-0000-7000-8000-000000000001"}))
    assert f"run_{way}" in _indexes(plan)
    assert _read(plan) < ROOMY


async def test_a_page_far_down_costs_what_the_first_one_does(asked: Asked) -> None:
    before = await asked.connection.fetchval("select id from runnerq.run order by id offset 500 limit 1")
    assert _read(await asked.listed(RunFilter(), before)) < ROOMY
    assert _read(await asked.listed(RunFilter(), before, turned=True)) < ROOMY


async def test_the_beginning_of_an_id_is_a_range_of_ids(asked: Asked) -> None:
    run_id = await asked.connection.fetchval("select id::text from runnerq.run order by id offset 50000 limit 1")
    plan = await asked.listed(RunFilter(id_prefix=run_id.replace("-", "")[:12]))
    assert _read(plan) < ROOMY


@pytest.mark.parametrize(
    "where",
    [
        RunFilter(workflow="nothing"),
        RunFilter(key_prefix="nothing"),
        RunFilter(status=Status.COMPLETED, queue="nothing"),
        RunFilter(status=Status.WAITING, workflow="nothing"),
        RunFilter(status=Status.DEAD_LETTER, error="nothing"),
        RunFilter(ended_until=datetime(2000, 1, 1, tzinfo=UTC)),
    ],
)
async def test_what_finds_nothing_ends_after_so_many_runs(asked: Asked, where: RunFilter) -> None:
    plan = await asked.listed(where, look=PAGE)
    # What was looked at, what is beside it in two tables, and once more to know where that ended.
    assert _read(plan) <= 5 * PAGE


async def test_a_count_stops_at_its_cap(asked: Asked) -> None:
    plan = await asked.explain("aggregate_runs_all", PAGE, None, *sought(RunFilter()).arguments(None), None)
    assert _read(plan) < ROOMY


async def test_what_did_not_complete_is_counted_by_an_index_alone(asked: Asked) -> None:
    plan = await asked.explain("count_unwell", ["dead_letter", "failed"], 1000)
    assert {node["Node Type"] for node in nodes(plan) if "Index Name" in node} == {"Index Only Scan"}
    assert touched(plan, "outcome") <= 1000


async def test_a_count_looks_at_no_more_than_it_may(asked: Asked) -> None:
    wanted = sought(RunFilter(workflow="nothing"))
    plan = await asked.explain("aggregate_runs_all", PAGE, None, *wanted.arguments(PAGE), None)
    assert _read(plan) < ROOMY


@pytest.mark.parametrize("statement", ["read_depths", "read_queues"])
async def test_depths_and_queues_read_open_runs_alone_and_no_more_than_they_may(asked: Asked, statement: str) -> None:
    few = BATCHES * BATCH // 500
    for most in (BATCH, BATCHES * BATCH):
        plan = await asked.explain(statement, most)
        assert touched(plan, "live") <= min(most, BATCHES * BATCH * 4 // 5) + few + ROOMY
        assert {"live_held", "live_blocked"} <= _indexes(plan)
        assert touched(plan, "run") == touched(plan, "outcome") == 0


async def test_a_tail_reads_what_happened_and_not_what_had_happened_before(asked: Asked) -> None:
    last = await asked.connection.fetchval("select max(xid) from runnerq.run")
    args = (PAGE, last, [], last + 1, [], *_place())
    plan = await asked.explain("read_events", *args)
    assert {"run_xid", "outcome_xid", "event_xid"} <= _indexes(plan)
    # A range of a coarse index holds 32 pages, whatever of them is wanted.
    assert touched(plan, "run") < 12 * BATCH
    assert touched(plan, "outcome") < 12 * BATCH
    assert touched(plan, "event") < ROOMY


async def test_a_tail_looks_up_those_that_were_open_by_their_ids(asked: Asked) -> None:
    first = await asked.connection.fetchval("select min(xid) from runnerq.run")
    last = await asked.connection.fetchval("select max(xid) from runnerq.run")
    plan = await asked.explain("read_events", PAGE, last, [first], last + 1, [], *_place())
    assert {"run_xid", "outcome_xid", "event_xid"} <= _indexes(plan)
    assert touched(plan, "run") < 24 * BATCH


async def test_a_page_in_the_midst_of_much_begins_at_its_place(asked: Asked) -> None:
    first = await asked.connection.fetchval("select min(xid) from runnerq.run")
    last = await asked.connection.fetchval("select max(xid) from runnerq.run")
    args = (PAGE, first, [], last + 1, [], last, 0, "00000000-0000-0000-0000-000000000000")
    plan = await asked.explain("read_events", *args)
    assert {"run_xid", "outcome_xid", "event_xid"} <= _indexes(plan)
    assert touched(plan, "run") < 12 * BATCH


def _place() -> tuple[int, int, str]:
    return tail.BEGINNING.xid, tail.BEGINNING.source, tail.BEGINNING.id


def _indexes(plan: dict[str, Any]) -> set[str]:
    return {node["Index Name"] for node in nodes(plan) if "Index Name" in node}


def _read(plan: dict[str, Any]) -> int:
    """Rows that were read of any table."""
    tables = {node["Relation Name"] for node in nodes(plan) if is_scan(node)}
    return sum(touched(plan, table) for table in tables)
