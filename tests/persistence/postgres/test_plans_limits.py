"""Plans of the statements about limits, made over empty tables: 100,000 keys wait, and 100,000 runs of one key.

Counted, not timed: what a plan touches does not depend on how busy the machine is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.postgres.greeting import STEADY_PLANS
from tests.persistence.postgres.planning import WORKER, Plans, is_scan, nodes, touched, unbounded_scans

pytestmark = pytest.mark.asyncio(loop_scope="module")

INDEXES = {
    "claim_runs_limited": {
        "bucket_pkey",
        "gate_turn",
        "journal_pkey",
        "lane_turn",
        "live_arrived",
        "live_claimable",
        "live_due",
        "live_lines",
        "live_pkey",
        "live_places",
        "queue_pkey",
        "run_pkey",
        "worker_pkey",
    },
    "forget_buckets": {"bucket_pkey", "gate_pkey", "lane_turn", "live_lines"},
    "line_up": {
        "bucket_pkey",
        "gate_pkey",
        "lane_pkey",
        "limit_rule_pkey",
        "live_arrived",
        "live_pkey",
        "live_places",
    },
    "mend_lines": {"bucket_pkey", "gate_pkey", "lane_pkey", "live_lines", "live_pkey"},
    "open_gates": {"bucket_pkey", "gate_pkey", "gate_shut", "live_places"},
    "relieve_gates": {"bucket_pkey", "gate_pkey", "gate_shut", "live_places"},
}
UNBOUNDED = {
    ("claim_runs_limited", "gate_turn"),  # whether there is any gate
    ("claim_runs_limited", "live_arrived"),  # whether any run with a limit has arrived
    ("claim_runs_limited", "queue_pkey"),  # the paused queues
    ("line_up", None),  # the one row of lining
}
"""(statement, index) that are scanned without a condition, and why that is no harm."""

MANY = 100_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plans(module_database: str) -> AsyncIterator[Plans]:
    storage = PostgresStorage(module_database)
    await storage.open()
    await storage.close()
    connection = await asyncpg.connect(module_database, server_settings=STEADY_PLANS)
    try:
        plans = Plans(connection)
        await plans.prepare([*INDEXES, "apply_rule"])
        await _fill(connection)
        yield plans
    finally:
        await connection.close()


async def _fill(connection: asyncpg.Connection) -> None:
    """Of ``many`` each key has a run that waits for ``keys@1``; of ``one`` the only key has as many, for ``runs@1``,
    and five places; of ``whole`` a fifth as many keys have lanes, for ``lanes@1``; of ``some`` each of a hundred keys
    has eight, for ``some@1``. There are runs and buckets for all that the tests should reach, and a few more."""
    await connection.execute(
        f"""
        alter table runnerq.live set (autovacuum_enabled = off);
        insert into runnerq.worker (id, beat_at, lease, pid, host, build, queues, served)
        values ({WORKER}, now(), 60, 1, 'h', 'b', '{{}}', '{{}}');
        insert into runnerq.live (run_id, rank, priority, state, queue, served, limit_scope, limit_key, lined)
        select gen_random_uuid(), now() - n * interval '1 ms', 2, 'pending', 'q', s.served, s.scope, s.key, true
        from generate_series(1, {MANY}) as n
        cross join lateral (
            values ('many', n::text, 'keys@1'), ('one', '', 'runs@1'), ('whole', n::text, 'lanes@1')
        ) as s(scope, key, served)
        where s.scope <> 'whole' or n <= 300;
        insert into runnerq.live (run_id, rank, priority, state, queue, served, limit_scope, limit_key, lined)
        select gen_random_uuid(), now(), 2, 'pending', 'q', 'some@1', 'some', (n % 100)::text, true
        from generate_series(1, 800) as n;
        insert into runnerq.bucket (scope, key, whole, concurrency)
        select 'many', n::text, false, 1 from generate_series(1, 1000) as n
        union all select 'some', n::text, false, 5 from generate_series(0, 99) as n
        union all values ('one', '', false, 5), ('whole', '', true, 50);
        insert into runnerq.gate (scope, key, queue, served, open_at)
        select 'many', n::text, 'q', 'keys@1', now() - (1e6 - n) * interval '1 ms'
        from generate_series(1, {MANY}) as n
        union all select 'some', n::text, 'q', 'some@1', now() from generate_series(0, 99) as n
        union all select 'many', n::text, 'q', 'shut@1', null from generate_series(1, 1000) as n
        union all values ('one', '', 'q', 'runs@1', now()), ('whole', '', 'q', 'lanes@1', now());
        insert into runnerq.lane (scope, queue, served, key, turn_at)
        select 'whole', 'q', 'lanes@1', n::text, now() + n * interval '1 ms' from generate_series(1, {MANY // 5}) as n
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
    plan = await plans.plan(name)
    used = {node.get("Index Name") for node in nodes(plan) if is_scan(node)}
    assert used - {None} == INDEXES[name]
    assert {(name, index) for index in unbounded_scans(plan)} <= UNBOUNDED


async def claimed(plans: Plans, served: str) -> dict[str, int]:
    """A claim of a hundred; how many rows of each table it has touched, and how many runs it took."""
    plan = await plans.run("claim_runs_limited", ["q"], [served], 100, WORKER, 77, [None], [None], 200, None)
    [taken] = await plans.fetch(f"select count(*) from runnerq.live where worker_id = {WORKER} and token = 77")
    return {table: touched(plan, table) for table in ("live", "gate", "bucket", "lane")} | {"taken": taken}


async def test_a_claim_does_not_look_at_all_that_has_arrived_and_is_not_lined_up(undone: Plans) -> None:
    await undone.execute(
        """
        insert into runnerq.live (run_id, rank, priority, state, queue, served, limit_scope, limit_key)
        select gen_random_uuid(), now(), 2, 'pending', 'q', 'keys@1', 'many', n::text from generate_series(1, 5000) as n
        """
    )
    rows = await claimed(undone, "keys@1")
    assert rows["taken"] == 100
    assert rows["live"] <= 1000


async def test_a_claim_touches_what_it_takes_however_many_keys_wait(undone: Plans) -> None:
    rows = await claimed(undone, "keys@1")
    assert rows["taken"] == 100
    # Twice as many are chosen as are taken: each gate is read, its bucket, and a run or two of its line.
    assert rows["live"] <= 1000
    assert rows["gate"] <= 500
    assert rows["bucket"] <= 500


async def test_a_large_claim_looks_at_no_more_keys_than_it_needs(undone: Plans) -> None:
    rows = await claimed(undone, "some@1")
    assert rows["taken"] == 100
    # Four of each key: a quarter as many keys, and a few more.
    admitted = "select count(*) from runnerq.bucket where scope = 'some' and admitted_at is not null"
    assert await undone.fetch(admitted) == [25]
    # Each run locks its bucket and gate; each bucket is read once, and written once if somebody is admitted.
    assert rows["bucket"] <= 33 + 100 + 25
    assert rows["live"] <= 700


async def test_a_claim_touches_what_it_takes_however_many_runs_wait_for_one_key(undone: Plans) -> None:
    rows = await claimed(undone, "runs@1")
    assert rows["taken"] == 5
    assert rows["live"] <= 40
    assert rows["bucket"] + rows["gate"] <= 20


async def test_a_claim_touches_what_it_takes_where_all_keys_share_a_scope(undone: Plans) -> None:
    rows = await claimed(undone, "lanes@1")
    assert rows["taken"] == 50
    assert rows["live"] <= 500
    assert rows["lane"] <= 200
    assert rows["bucket"] + rows["gate"] <= 300


async def test_a_claim_looks_at_no_gate_that_is_shut(undone: Plans) -> None:
    rows = await claimed(undone, "shut@1")
    assert rows["taken"] == 0
    assert rows["live"] + rows["bucket"] + rows["gate"] <= 2


async def test_lining_up_touches_what_has_arrived(undone: Plans) -> None:
    await undone.execute("update runnerq.live set lined = null where limit_scope = 'whole'")
    plan = await undone.run("line_up", ["q"], ["lanes@1"], None, None, 100, 100, 100)
    assert touched(plan, "live") <= 500
    assert await undone.fetch("select count(*) from runnerq.live where lined is null") == [200]


async def test_lining_up_counts_a_bucket_once_for_a_gate_and_no_farther_than_its_places(undone: Plans) -> None:
    await undone.execute("insert into runnerq.limit_rule (scope, concurrency, per_key) values ('full', 5, true)")
    held = "gen_random_uuid(), now(), 2, 'running', 'q', 'full@1', 'full', (n % 100)::text"
    await undone.execute(
        "insert into runnerq.live (run_id, rank, priority, state, queue, served, limit_scope, limit_key)"
        f" select {held} from generate_series(1, 2000) as n union all"
        f" select {held.replace('running', 'pending')} from generate_series(1, 100) as n"
    )
    plan = await undone.run("line_up", ["q"], ["full@1"], None, None, 100, 100, 100)
    # Of each key: the line and its run, which is locked and written; and its five places.
    assert touched(plan, "live") <= 100 * (4 + 5) + 20
    assert await undone.fetch("select count(*) from runnerq.gate where scope = 'full' and open_at is null") == [100]
    rows = await claimed(undone, "full@1")
    assert rows["taken"] == 0
    assert rows["live"] + rows["bucket"] + rows["gate"] <= 2


async def test_a_look_over_what_is_shut_touches_as_much_as_it_is_told(undone: Plans) -> None:
    plan = await undone.run("relieve_gates", None, None, None, None, 100)
    assert touched(plan, "gate") <= 400
    assert touched(plan, "bucket") <= 100
    opened = "select count(*) from runnerq.gate where served = 'shut@1' and open_at is not null"
    assert await undone.fetch(opened) == [100]


async def test_a_look_for_lost_lines_touches_as_much_as_it_is_told(undone: Plans) -> None:
    await undone.execute("delete from runnerq.lane where key = '1'")
    plan = await undone.run("mend_lines", "q", "lanes@1", None, None, 400)
    assert touched(plan, "live") <= 500
    assert touched(plan, "gate") <= 1000
    assert touched(plan, "lane") <= 400
    assert await undone.fetch("select limit_key from runnerq.live where lined is null") == ["1"]


async def test_a_look_for_what_is_idle_touches_as_much_as_it_is_told(undone: Plans) -> None:
    idle = "scope = 'many' and key in ('1', '10', '100')"
    await undone.execute(f"update runnerq.bucket set made_at = now() - interval '1 day' where {idle}")
    await undone.execute(f"delete from runnerq.gate where {idle}")
    plan = await undone.run("forget_buckets", None, None, 100)
    assert touched(plan, "bucket") <= 120
    assert await undone.fetch(f"select count(*) from runnerq.bucket where {idle}") == [0]


async def test_a_word_of_a_free_place_touches_the_gates_of_its_bucket(undone: Plans) -> None:
    plan = await undone.run("open_gates", ["many", "one"], ["7", ""])
    assert touched(plan, "gate") <= 4
    assert await undone.fetch("select count(*) from runnerq.gate where served = 'shut@1' and open_at is not null") == [
        1
    ]


async def test_a_rule_is_applied_by_reading_what_it_concerns_once_or_twice(undone: Plans) -> None:
    await undone.execute("insert into runnerq.limit_rule (scope, concurrency, per_key) values ('one', 5, false)")
    plan = await undone.run("apply_rule", "one")
    assert touched(plan, "gate") + touched(plan, "bucket") + touched(plan, "lane") <= 20
    assert await undone.fetch("select key from runnerq.lane where scope = 'one'") == [""]
