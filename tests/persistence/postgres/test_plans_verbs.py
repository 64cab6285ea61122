"""The plans of what people ask and of what keeps the tables small, over 200,000 open runs and 50,000 ended ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from runnerq.ids import derived_run_id, new_run_id
from runnerq.persistence.postgres.run_documents import whole_start_parameters
from runnerq.testing.conformance.world import AT, a_run
from tests.persistence.postgres.planning import Plans, is_scan, nodes, plans_made_early, touched, unbounded_scans

pytestmark = pytest.mark.asyncio(loop_scope="module")

INDEXES = {
    "add_to_schedule": {"schedule_pkey"},
    "adopt_runs": {"live_unnamed", "live_pkey", "run_pkey"},
    "create_schedule": set(),
    "delete_schedule": {"schedule_pkey"},
    "doom_trees": {"run_pkey", "run_root", "live_pkey", "outcome_pkey", "key_pkey"},
    "hold_schedule": {"schedule_pkey", "live_pkey"},
    "hold_tree": {"outcome_pkey", "run_pkey", "key_pkey"},
    "look_for_old": {"outcome_pkey", "outcome_unwell", "run_pkey"},
    "move_schedule": {"schedule_pkey"},
    "pause_queue": set(),
    "pause_schedule": {"schedule_pkey"},
    "prioritize_run": {"live_pkey", "run_pkey"},
    "purge_runs": {
        "doomed_pkey",
        "run_pkey",
        "run_root",
        "outcome_pkey",
        "key_pkey",
        "journal_pkey",
        "signal_pkey",
        "attempt_pkey",
        "block_pkey",
        "state_pkey",
    },
    "read_doomed": {"doomed_pkey"},
    "read_due_schedules": {"schedule_due"},
    "replace_schedule": {"schedule_pkey"},
    "reschedule_run": {"live_pkey", "run_pkey", "attempt_pkey"},
    "resume_queue": {"queue_pkey"},
    "resume_schedule": {"schedule_pkey"},
    "run_now": {"live_pkey", "run_pkey", "attempt_pkey"},
    "start_runs": {"run_pkey", "live_pkey", "outcome_pkey"},
}

UNBOUNDED = {
    ("look_for_old", None),  # the cursor, one row
}
"""(statement, index) that are scanned without a condition, and why that is no harm."""

TREE = 5_000
ROOT = derived_run_id(AT, "root")
OLD = "01900000"
"""What the ids of old runs begin with."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plans(module_database: str) -> AsyncIterator[Plans]:
    async with plans_made_early(module_database, INDEXES) as plans:
        await plans.execute(
            f"""
            insert into runnerq.run (id, version, priority, depth, kind, name, queue, input)
            select ('{OLD}' || substr(md5(n::text), 9))::uuid, 1, 2, 0, 'workflow', 'order', 'q', '[]'
            from generate_series(1, 50000) as n;
            insert into runnerq.run (id, root_id, parent_id, version, priority, depth, kind, name, queue, key, input)
            select id, nullif('{ROOT}'::uuid, id), nullif('{ROOT}'::uuid, id), 1, 2, 0, 'workflow', 'order', 'q',
                   'k' || n, '[]'
            from generate_series(0, {TREE} - 1) as n
            cross join lateral (select case n when 0 then '{ROOT}' else gen_random_uuid() end as id) as i;
            insert into runnerq.key (name, key, run_id) select name, key, id from runnerq.run where key is not null;
            insert into runnerq.outcome (run_id, token, ended_at, status)
            select id, 1, now() - interval '1 day', 'completed' from runnerq.run
            where id not in (select run_id from runnerq.live);
            insert into runnerq.journal (run_id, token, at, generation, place, kind, position)
            select id, 1, now(), 1, n, 'answered', n::text
            from runnerq.run cross join generate_series(1, 3) as n where coalesce(root_id, id) = '{ROOT}'
            """
        )
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
    assert used - {None} == INDEXES[name]


@pytest.mark.parametrize("name", sorted(INDEXES))
async def test_a_statement_reads_no_table_or_index_from_end_to_end(plans: Plans, name: str) -> None:
    unbounded = {(name, index) for index in unbounded_scans(await plans.plan(name))}
    assert unbounded <= UNBOUNDED


@pytest.mark.parametrize("name", ["run_now", "reschedule_run", "prioritize_run"])
async def test_a_verb_touches_its_run(undone: Plans, name: str) -> None:
    [run_id] = await undone.fetch("select run_id::text from runnerq.live where state = 'pending' limit 1")
    await undone.execute(f"update runnerq.live set due_at = now() + interval '1 hour' where run_id = '{run_id}'")
    arguments: dict[str, list[Any]] = {"run_now": [], "reschedule_run": [AT], "prioritize_run": [0]}
    plan = await undone.run(name, run_id, *arguments[name])
    assert touched(plan, "live") <= 3
    assert touched(plan, "run") <= 1
    assert await undone.fetch("select count(*) from runnerq.event") == [1]


async def test_adoption_touches_as_many_as_it_is_told_and_nothing_where_nobody_waits(undone: Plans) -> None:
    names = ["workflow"], ["order"], [7]
    assert touched(await undone.run("adopt_runs", *names, 100), "live") == 0
    some = "select run_id from runnerq.live where state = 'pending' limit 300"
    await undone.execute(
        f"""
        update runnerq.live set served = 'order@?' where run_id in ({some});
        update runnerq.run set version = 0 where id in (select run_id from runnerq.live where served = 'order@?')
        """
    )
    plan = await undone.run("adopt_runs", *names, 100)
    assert touched(plan, "live") == 300
    assert await undone.fetch("select count(*) from runnerq.live where served = 'order@7'") == [100]


async def test_a_look_for_old_trees_touches_what_has_ended_and_is_old_and_no_more_than_its_reach(
    undone: Plans,
) -> None:
    plan = await undone.run("look_for_old", 60, 60, 10, 1000)
    # As many as the reach are looked at, and those that are locked are looked at again.
    assert touched(plan, "outcome") == 1010
    assert touched(plan, "run") <= 1000
    assert touched(plan, "live") == 0


@pytest.mark.parametrize("completed", [None, 1e9])
async def test_a_look_for_old_failures_passes_by_the_rest_of_history(undone: Plans, completed: float | None) -> None:
    await undone.execute(
        "update runnerq.outcome set status = case when run_id in (select run_id from runnerq.outcome limit 20)"
        " then 'failed' else 'completed' end"
    )
    plan = await undone.run("look_for_old", completed, 60, 10, 1000)
    assert touched(plan, "outcome") <= 40


async def test_a_tree_is_judged_by_its_own_runs(undone: Plans) -> None:
    plan = await undone.run("doom_trees", [ROOT])
    assert touched(plan, "live") == 0
    assert touched(plan, "run") <= TREE + 1
    assert touched(plan, "key") <= 4
    assert await undone.fetch("select count(*) from runnerq.doomed") == [1]


async def test_a_tree_with_something_open_is_judged_by_the_first_that_is(undone: Plans) -> None:
    await undone.execute(
        f"""
        insert into runnerq.live (run_id, rank, priority, state, queue, served)
        select id, now(), 2, 'pending', 'q', 'order@1' from runnerq.run where root_id = '{ROOT}' order by id limit 1
        """
    )
    plan = await undone.run("doom_trees", [ROOT])
    assert touched(plan, "live") == 1
    assert touched(plan, "run") <= 3
    assert await undone.fetch("select count(*) from runnerq.doomed") == [0]


async def test_a_purge_of_a_large_tree_touches_what_it_deletes(undone: Plans) -> None:
    await undone.run("doom_trees", [ROOT])
    plan = await undone.run("purge_runs", 100, None, 10_000)
    assert touched(plan, "run") <= 500
    assert touched(plan, "outcome") <= 200
    assert touched(plan, "key") <= 400
    assert touched(plan, "journal") <= 600
    counted = f"select count(*) from runnerq.run where root_id = '{ROOT}'"
    assert await undone.fetch(counted) == [TREE - 1 - 100]
    assert await undone.fetch("select count(*) from runnerq.doomed") == [1]


async def test_a_purge_of_one_tree_among_many_touches_that_alone(undone: Plans) -> None:
    await undone.execute(
        "insert into runnerq.doomed (root_id)"
        " select id from runnerq.run where root_id is null and id not in (select run_id from runnerq.live) limit 5000"
    )
    [root] = await undone.fetch("select root_id::text from runnerq.doomed limit 1")
    plan = await undone.run("purge_runs", 100, root, 10_000)
    assert touched(plan, "doomed") <= 2
    assert await undone.fetch("select count(*) from runnerq.doomed") == [4999]


async def test_children_from_outside_touch_their_parent(undone: Plans) -> None:
    [parent] = await undone.fetch("select run_id::text from runnerq.live where state = 'running' limit 1")
    children = [a_run(id=new_run_id(), parent_id=parent, root_id=parent, key=f"x{n}") for n in range(50)]
    plan = await undone.run("start_runs", *whole_start_parameters(children))
    assert touched(plan, "live") <= 1
    assert touched(plan, "run") <= 50
