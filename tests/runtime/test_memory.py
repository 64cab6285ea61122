"""What a worker keeps of runs that are parked."""

from __future__ import annotations

import gc
import tracemalloc

from runnerq.client.client import Client
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.records import RunFilter, Status
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import Stage, soon

RUNS = 2000
CACHE = 100
LIMIT = 1 << 20


@activity
async def note(number: int) -> int:
    return number


@workflow
def order(ctx: Context, number: int) -> Flow[str]:
    yield ctx.step(note, number)
    return (yield from ctx.signal("go"))


async def test_two_thousand_parked_runs_leave_less_than_a_megabyte_behind(shared_database: str) -> None:
    stage = Stage(PostgresStorage(shared_database))
    async with stage.base, stage.worker(order, max_workers=200, cache=CACHE, beat=1) as worker:

        async def park(runs: int) -> int:
            """What Python's heap holds after so many more runs were parked."""
            await stage.client.start_many(order, [(number,) for number in range(runs)])
            await worker.idle()
            assert worker._shift is not None
            cache = worker._shift.cache
            # While a claim is out it may hold twice as many.
            await soon(lambda: len(cache) <= CACHE)
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            # Fills what is filled once: the cache of generators, statements, connections.
            before = await park(RUNS // 4)
            after = await park(RUNS)
        finally:
            tracemalloc.stop()
        assert await _all_wait(stage.client, stage.queue, RUNS + RUNS // 4)
    assert after - before < LIMIT, f"{after - before:,} bytes"


async def _all_wait(client: Client, queue: str, runs: int) -> bool:
    waiting = 0
    cursor = None
    where = RunFilter(queue=queue, status=Status.WAITING)
    while True:
        page = await client.list(where, limit=1000, cursor=cursor)
        waiting += len(page.items)
        cursor = page.next
        if cursor is None:
            return waiting == runs
