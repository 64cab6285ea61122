"""Worker processes behind PgBouncer in transaction mode: runs end there as anywhere, and a killed worker is missed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from runnerq.client.connect import connect
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.records import Status
from tests.end_to_end.conftest import Processes
from tests.end_to_end.serving import Serving
from tests.end_to_end.shop import ANSWER, CUP, checkout, wait_for_approval
from tests.end_to_end.watching import PATIENCE, ended, keys, ran, until
from tests.pgbouncer import pgbouncer
from tests.runtime.stage import Stage

RUNS = 3
STEPS = 9
"""Of a checkout and its children."""


@pytest.fixture
def pooled(database: str) -> Iterator[str]:
    """Two server connections for all processes together."""
    with pgbouncer(database, pool_size=2) as dsn:
        yield dsn


async def test_runs_end_through_a_pooler_and_a_killed_worker_is_missed_by_its_direct_beat(
    database: str, pooled: str, log: Path, processes: Processes
) -> None:
    where = {"RUNNERQ_DSN": pooled, "RUNNERQ_DIRECT_DSN": database}
    worker = ("runnerq", "worker", "tests.end_to_end.shop", "--queue", "shop")
    async with connect(pooled, direct_dsn=database) as client:
        shop = client.options(queue="shop")
        first = processes.start(*worker, **where)
        runs = [await shop.start(checkout, CUP) for _ in range(RUNS)]
        await until(log, RUNS + 1)
        first.kill()
        await ended(first)
        # Its lease would last a minute.
        processes.start(*worker, **where)
        assert await asyncio.gather(*(run.result(timeout=PATIENCE) for run in runs)) == [ANSWER] * RUNS
        for run in runs:
            assert [entry.state for entry in await run.history() if entry.state == "asked"] == []
    times = Counter(keys(log))
    assert len(times) == RUNS * STEPS
    # The one that fails at first; and again, after the crash, the two at most that a run had under way.
    assert times.total() <= RUNS * (STEPS + 1 + 2)


async def test_by_polling_alone_runs_are_taken_up_signalled_and_outlive_a_killed_worker(
    database: str, pooled: str, log: Path, processes: Processes
) -> None:
    stage = Stage(PostgresStorage(pooled, pooled=True))
    async with stage.base:
        serving = Serving(pooled, stage.queue, lease=2.0, poll_interval=0.2)
        first = await processes.serving(serving)
        run = await stage.client.start(wait_for_approval)
        await run.reached(Status.WAITING, timeout=PATIENCE)
        order = await stage.client.start(checkout, CUP)
        await until(log, 2)
        first.kill()
        await ended(first)
        await processes.serving(serving)
        sending = processes.start("runnerq", "send", run.id, "approval", '"from outside"', RUNNERQ_DSN=pooled)
        assert await ended(sending) == 0
        assert await run.result(timeout=PATIENCE) == ["to before", "from outside", "to after"]
        assert await order.result(timeout=PATIENCE) == ANSWER
        await stage.no_gaps(order.id)
    assert ran(log)[0] == "label"
