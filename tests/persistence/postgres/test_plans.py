"""The statements' plans: made over empty tables, as a new installation makes them, they still serve 200,000 open runs.

Counted, not timed: what a plan touches does not depend on how busy the machine is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from runnerq.ids import new_run_id
from runnerq.persistence.postgres.documents import commit_parameters, end_parameters, plain_parameters
from runnerq.persistence.postgres.run_documents import start_parameters
from runnerq.persistence.records import Park, Turn
from runnerq.testing.conformance.world import COMPLETED, a_row, a_run
from tests.persistence.postgres.planning import (
    WORKER,
    Plans,
    is_scan,
    nodes,
    plans_made_early,
    touched,
    unbounded_scans,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

INDEXES = {
    "append": {"live_pkey"},
    "append_one": {"live_pkey"},
    "beat": {"live_held", "worker_pkey"},
    "cancel_runs": {"live_pkey", "run_pkey", "outcome_pkey"},
    "claim_runs_free": {
        "gate_turn",
        "live_arrived",
        "live_claimable",
        "live_due",
        "live_pkey",
        "worker_pkey",
        "run_pkey",
        "journal_pkey",
        "queue_pkey",
    },
    "commit": {"live_pkey", "run_pkey", "outcome_pkey", "attempt_pkey", "signal_pkey", "block_pkey"},
    "commit_plain": {"live_pkey", "outcome_pkey", "attempt_pkey", "signal_pkey", "block_pkey"},
    "count_held": {"live_held"},
    "end_runs": {"live_pkey", "attempt_pkey", "block_pkey"},
    "judge_turns": {"live_pkey", "outcome_pkey", "journal_pkey"},
    "keep_details": {"live_pkey"},
    "read_claimed": {"live_pkey", "journal_pkey", "signal_pkey", "outcome_pkey", "attempt_pkey", "state_pkey"},
    "read_inboxes": {"live_pkey", "signal_pkey", "outcome_pkey"},
    "read_open_runs": {"live_pkey", "run_pkey", "journal_pkey"},
    "read_outcomes": {"outcome_pkey"},
    "reap_workers": {"live_held", "live_pkey", "worker_pkey"},
    "release_runs": {"live_held", "live_pkey"},
    "reopen_runs": {
        "live_pkey",
        "outcome_pkey",
        "run_pkey",
        "journal_pkey",
        "key_pkey",
        "signal_pkey",
        "block_pkey",
        "attempt_pkey",
    },
    "send_signals": {"live_pkey", "signal_dedup", "run_pkey", "outcome_pkey"},
    "start_alike": set(),
    "start_runs": {"run_pkey", "outcome_pkey", "live_pkey"},
    "start_runs_plain": {"run_pkey", "outcome_pkey"},
    "sweep_runs": {
        "live_pkey",
        "outcome_pkey",
        "run_pkey",
        "run_parent",
        "signal_pkey",
        "worker_pkey",
    },
    "terminate_runs": {"live_pkey", "run_pkey", "outcome_pkey", "attempt_pkey", "block_pkey"},
    "unblock_runs": {"live_blocked", "block_pkey", "live_pkey"},
    "wake_due": {"live_due", "live_pkey"},
}

UNBOUNDED = {
    ("claim_runs_free", "gate_turn"),  # whether there is any gate
    ("claim_runs_free", "live_arrived"),  # whether any run with a limit has arrived
    ("claim_runs_free", "queue_pkey"),  # the paused queues
    ("reap_workers", "live_held"),  # the first entry, then the next that is greater
    ("reap_workers", "worker_pkey"),  # all workers of a day
    ("sweep_runs", None),  # the cursor, one row
}
"""(statement, index) that are scanned without a condition, and why that is no harm."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plans(module_database: str) -> AsyncIterator[Plans]:
    async with plans_made_early(module_database, INDEXES) as plans:
        yield plans


@pytest_asyncio.fixture(loop_scope="module")
async def undone(plans: Plans) -> AsyncIterator[Plans]:
    """The plans; what the test does with them is rolled back."""
    await plans.execute("begin")
    yield plans
    await plans.execute("rollback")


@pytest.mark.parametrize("name", sorted(INDEXES))
async def test_a_statement_reaches_tables_by_these_indexes_alone(plans: Plans, name: str) -> None:
    used = {node.get("Index Name") for node in nodes(await plans.plan(name)) if is_scan(node)}
    # Found by the place that an index, in another part of the statement, has led to; or a table of one row.
    assert used - {None} == INDEXES[name]


@pytest.mark.parametrize("name", sorted(INDEXES))
async def test_a_statement_reads_no_table_or_index_from_end_to_end(plans: Plans, name: str) -> None:
    unbounded = {(name, index) for index in unbounded_scans(await plans.plan(name))}
    assert unbounded <= UNBOUNDED


async def test_a_claim_touches_what_it_takes(undone: Plans) -> None:
    plan = await undone.run("claim_runs_free", ["q"], ["order@1"], 100, WORKER, 77, [None], [None], 200, None)
    # Twice as many are chosen as are taken; they are chosen, locked and updated.
    assert touched(plan, "live") <= 600
    assert touched(plan, "run") == 100
    held = f"select count(*) from runnerq.live where worker_id = {WORKER} and state = 'running' and token = 77"
    assert await undone.fetch(held) == [100]


async def test_a_claim_beside_a_type_that_nobody_serves_touches_what_it_takes(undone: Plans) -> None:
    """Twenty thousand runs of it are ready in the same queue, and older."""
    ten = "select run_id from runnerq.live where state = 'pending' limit 10"
    await undone.execute(f"update runnerq.live set served = 'mine', rank = now() where run_id in ({ten})")
    plan = await undone.run("claim_runs_free", ["q"], ["mine"], 100, WORKER, 77, [None], [None], 200, None)
    assert touched(plan, "live") <= 60
    assert touched(plan, "run") == 10


async def test_an_empty_claim_touches_nothing(undone: Plans) -> None:
    pairs = ["q", "other"], ["nothing", "order@1"]
    plan = await undone.run("claim_runs_free", *pairs, 100, WORKER, 77, [None] * 2, [None] * 2, 200, None)
    assert touched(plan, "live") <= 2


async def test_a_commit_touches_the_runs_it_writes(undone: Plans) -> None:
    await undone.run("claim_runs_free", ["q"], ["order@1"], 60, WORKER, 77, [None], [None], 200, None)
    mine = await undone.fetch(f"select run_id::text from runnerq.live where worker_id = {WORKER} order by run_id")
    parks, ends = _turns(mine[:50], Park(signals=("go",))), _turns(mine[50:], COMPLETED)
    plan = await undone.run("commit_plain", *plain_parameters(parks))
    assert touched(plan, "live") == 100
    plan = await undone.run("commit", *commit_parameters(ends))
    assert touched(plan, "live") == 20
    states = f"select state from runnerq.live where worker_id = {WORKER}"
    assert await undone.fetch(states) == ["waiting"] * 50


async def test_an_end_touches_the_runs_it_ends(undone: Plans) -> None:
    await undone.run("claim_runs_free", ["q"], ["order@1"], 60, WORKER, 77, [None], [None], 200, None)
    mine = await undone.fetch(f"select run_id::text from runnerq.live where worker_id = {WORKER} order by run_id")
    turns = [Turn(run_id=run_id, token=77, seen=0, move=COMPLETED) for run_id in mine]
    plan = await undone.run("end_runs", *end_parameters(turns))
    assert touched(plan, "live") == 120
    assert await undone.fetch("select count(*) from runnerq.outcome") == [60]


async def test_signals_touch_the_runs_they_are_sent_to(undone: Plans) -> None:
    waiting = await undone.fetch("select run_id::text from runnerq.live where state = 'waiting' limit 50")
    plan = await undone.run("send_signals", waiting, ["go"] * 50, ["1"] * 50, [None] * 50, [None] * 50)
    assert touched(plan, "live") == 100


async def test_waking_touches_what_is_due(undone: Plans) -> None:
    some = "select run_id from runnerq.live where due_at is not null limit 30"
    await undone.execute(f"update runnerq.live set due_at = now() where run_id in ({some})")
    plan = await undone.run("wake_due", 100, None)
    # What the update of this test has left behind in the index is passed over.
    assert touched(plan, "live") <= 100


async def test_a_beat_of_an_idle_worker_touches_no_run(undone: Plans) -> None:
    plan = await undone.run("beat", WORKER, None, None, 1, 2, 3, 4, None)
    assert touched(plan, "live") == 0


async def test_a_sweep_touches_as_many_as_it_is_told(undone: Plans) -> None:
    plan = await undone.run("sweep_runs", 100)
    assert touched(plan, "live") <= 100


async def test_taking_up_what_is_blocked_touches_as_many_as_it_is_told(undone: Plans) -> None:
    plan = await undone.run("unblock_runs", "mine", ["order@1"], 100)
    assert touched(plan, "live") == 300


async def test_a_start_touches_no_open_run(undone: Plans) -> None:
    plan = await undone.run(
        "start_runs_plain", *start_parameters([a_run(id=new_run_id(), key=f"k{n}") for n in range(50)])
    )
    assert touched(plan, "live") == 0


def _turns(run_ids: list[str], move: Any) -> list[Turn]:
    return [Turn(run_id=run_id, token=77, seen=0, move=move, rows=(a_row(0),)) for run_id in run_ids]
