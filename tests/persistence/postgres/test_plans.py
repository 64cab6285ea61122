"""The statements' plans: made over empty tables, as a new installation makes them, they still serve 200,000 open runs.

Counted, not timed: what a plan touches does not depend on how busy the machine is.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from runnerq.ids import new_run_id
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.postgres.connections import STEADY_PLANS
from runnerq.persistence.postgres.documents import commit_parameters, plain_parameters, start_parameters
from runnerq.persistence.postgres.statements import Statements
from runnerq.persistence.records import Park, Turn
from runnerq.testing.conformance.world import COMPLETED, a_row, a_run

pytestmark = pytest.mark.asyncio(loop_scope="module")

OPEN_RUNS = 200_000
WORKER, OTHER = 1, 2

INDEXES = {
    "append": {"live_pkey"},
    "append_one": {"live_pkey"},
    "beat": {"live_held", "worker_pkey"},
    "cancel_runs": {"live_pkey", "run_pkey", "outcome_pkey"},
    "claim_runs": {
        "live_ready",
        "live_due",
        "live_pkey",
        "worker_pkey",
        "run_pkey",
        "journal_pkey",
        "signal_pkey",
        "outcome_pkey",
        "attempt_pkey",
        "state_pkey",
    },
    "commit": {"live_pkey", "run_pkey", "outcome_pkey", "attempt_pkey", "signal_pkey", "block_pkey"},
    "commit_plain": {"live_pkey", "outcome_pkey", "attempt_pkey", "signal_pkey", "block_pkey"},
    "count_held": {"live_held"},
    "judge_turns": {"live_pkey", "outcome_pkey", "journal_pkey"},
    "read_inboxes": {"live_pkey", "signal_pkey", "outcome_pkey"},
    "read_open_runs": {"live_pkey", "run_pkey", "journal_pkey"},
    "read_outcomes": {"outcome_pkey"},
    "reap_workers": {"live_held", "live_pkey", "worker_pkey"},
    "release_runs": {"live_held", "live_pkey"},
    "reopen_runs": {"live_pkey", "outcome_pkey", "run_pkey", "journal_pkey", "key_pkey", "signal_pkey", "block_pkey"},
    "send_signals": {"live_pkey", "signal_dedup", "run_pkey", "outcome_pkey"},
    "start_runs": {"run_pkey", "outcome_pkey"},
    "start_runs_plain": {"run_pkey", "outcome_pkey"},
    "sweep_runs": {"live_pkey", "outcome_pkey", "run_pkey", "run_parent", "signal_pkey", "worker_pkey"},
    "terminate_runs": {"live_pkey", "run_pkey", "outcome_pkey", "attempt_pkey", "block_pkey"},
    "unblock_runs": {"live_blocked", "block_pkey", "live_pkey"},
    "wake_due": {"live_due", "live_pkey"},
}

UNBOUNDED = {
    ("claim_runs", "live_due"),  # its first entry alone
    ("reap_workers", "live_held"),  # the first entry, then the next that is greater
    ("reap_workers", "worker_pkey"),  # all workers of a day
    ("sweep_runs", None),  # the cursor, one row
}
"""(statement, index) that are scanned without a condition, and why that is no harm."""


class Plans:
    """One session whose statements were all prepared, and their plans made, before there was anything in the tables."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def prepare(self) -> None:
        statements = Statements("runnerq")
        for name in INDEXES:
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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plans(module_database: str) -> AsyncIterator[Plans]:
    storage = PostgresStorage(module_database)
    await storage.open()
    await storage.close()
    connection = await asyncpg.connect(module_database, server_settings=STEADY_PLANS)
    try:
        plans = Plans(connection)
        await plans.prepare()
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


@pytest_asyncio.fixture(loop_scope="module")
async def undone(plans: Plans) -> AsyncIterator[Plans]:
    """The plans; what the test does with them is rolled back."""
    await plans.execute("begin")
    yield plans
    await plans.execute("rollback")


@pytest.mark.parametrize("name", sorted(INDEXES))
async def test_a_statement_reaches_tables_by_these_indexes_alone(plans: Plans, name: str) -> None:
    used = {node.get("Index Name") for node in _nodes(await plans.plan(name)) if _is_scan(node)}
    # Found by the place that an index, in another part of the statement, has led to; or a table of one row.
    assert used - {None} == INDEXES[name]


@pytest.mark.parametrize("name", sorted(INDEXES))
async def test_a_statement_reads_no_table_or_index_from_end_to_end(plans: Plans, name: str) -> None:
    unbounded = {
        (name, node.get("Index Name"))
        for node in _nodes(await plans.plan(name))
        if _is_scan(node) and "Index Cond" not in node and "TID Cond" not in node
    }
    assert unbounded <= UNBOUNDED


async def test_a_claim_touches_what_it_takes(undone: Plans) -> None:
    plan = await undone.run("claim_runs", ["q"], ["order@1"], 100, WORKER, 77, [], [], [None], [None], 200)
    # Twice as many are chosen as are taken; they are chosen, locked, updated, and read again.
    assert _touched(plan, "live") <= 700
    assert _touched(plan, "run") == 100
    held = f"select count(*) from runnerq.live where worker_id = {WORKER} and state = 'running' and token = 77"
    assert await undone.fetch(held) == [100]


async def test_an_empty_claim_touches_nothing(undone: Plans) -> None:
    plan = await undone.run(
        "claim_runs", ["q", "other"], ["nothing", "order@1"], 100, WORKER, 77, [], [], [None] * 2, [None] * 2, 200
    )
    assert _touched(plan, "live") <= 2


async def test_a_commit_touches_the_runs_it_writes(undone: Plans) -> None:
    await undone.run("claim_runs", ["q"], ["order@1"], 60, WORKER, 77, [], [], [None], [None], 200)
    mine = await undone.fetch(f"select run_id::text from runnerq.live where worker_id = {WORKER} order by run_id")
    parks, ends = _turns(mine[:50], Park(signals=("go",))), _turns(mine[50:], COMPLETED)
    plan = await undone.run("commit_plain", *plain_parameters(parks))
    assert _touched(plan, "live") == 100
    plan = await undone.run("commit", *commit_parameters(ends))
    assert _touched(plan, "live") == 20
    states = f"select state from runnerq.live where worker_id = {WORKER}"
    assert await undone.fetch(states) == ["waiting"] * 50


async def test_signals_touch_the_runs_they_are_sent_to(undone: Plans) -> None:
    waiting = await undone.fetch("select run_id::text from runnerq.live where state = 'waiting' limit 50")
    plan = await undone.run("send_signals", waiting, ["go"] * 50, ["1"] * 50, [None] * 50)
    assert _touched(plan, "live") == 100


async def test_waking_touches_what_is_due(undone: Plans) -> None:
    some = "select run_id from runnerq.live where due_at is not null limit 30"
    await undone.execute(f"update runnerq.live set due_at = now() where run_id in ({some})")
    plan = await undone.run("wake_due", 100)
    # What the update of this test has left behind in the index is passed over.
    assert _touched(plan, "live") <= 100


async def test_a_beat_of_an_idle_worker_touches_no_run(undone: Plans) -> None:
    plan = await undone.run("beat", WORKER, None, None)
    assert _touched(plan, "live") == 0


async def test_a_sweep_touches_as_many_as_it_is_told(undone: Plans) -> None:
    plan = await undone.run("sweep_runs", 100)
    assert _touched(plan, "live") <= 100


async def test_taking_up_what_is_blocked_touches_as_many_as_it_is_told(undone: Plans) -> None:
    plan = await undone.run("unblock_runs", "mine", ["order@1"], 100)
    assert _touched(plan, "live") == 300


async def test_a_start_touches_no_open_run(undone: Plans) -> None:
    plan = await undone.run(
        "start_runs_plain", *start_parameters([a_run(id=new_run_id(), key=f"k{n}") for n in range(50)])
    )
    assert _touched(plan, "live") == 0


def _turns(run_ids: list[str], move: Any) -> list[Turn]:
    return [Turn(run_id=run_id, token=77, seen=0, move=move, rows=(a_row(0),)) for run_id in run_ids]


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)


def _is_scan(node: dict[str, Any]) -> bool:
    """Whether the node reads a table of ours."""
    return "Relation Name" in node and node["Node Type"] != "ModifyTable"


def _touched(plan: dict[str, Any], table: str) -> int:
    """Rows of this table that the nodes read, those included that they threw away."""
    return sum(
        round(
            (node["Actual Rows"] + node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0))
            * node["Actual Loops"]
        )
        for node in _nodes(plan)
        if _is_scan(node) and node["Relation Name"] == table
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
