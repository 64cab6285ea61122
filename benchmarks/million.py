"""W13, console: what people ask of a database with a million runs, most of which have ended."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import asyncpg

import runnerq as rq
from benchmarks.databases import Place
from runnerq.client.filters import checked_filter
from runnerq.console.access import ALL, Principal
from runnerq.console.models.batches import Batches
from runnerq.console.models.cache import Cache
from runnerq.console.models.context import Context
from runnerq.console.models.dead_letters import GLANCE, failures
from runnerq.console.models.filters import RunQuery
from runnerq.console.models.overview import overview
from runnerq.console.models.paging import Cursors
from runnerq.console.models.queues import queues
from runnerq.console.models.run import run_detail
from runnerq.console.models.runs import list_runs
from runnerq.console.models.types import types
from runnerq.persistence.records import LOOK

RUNS = 1_000_000
BATCH = 20_000
ASKED = 7
"""How often each question is asked; the median counts."""
PAGE = 50

FILL = (Path(__file__).parent / "million.sql").read_text()


async def w13_console(place: Place) -> dict[str, Any]:
    """Milliseconds of what a console asks of a million runs: lists by each filter, a run, an overview."""
    async with place.fresh() as dsn, rq.connect(dsn) as client:
        await fill(dsn)
        return await measure(client, dsn)


async def fill(dsn: str, runs: int = RUNS) -> None:
    """Make the runs, and let the server come to rest."""
    connection = await asyncpg.connect(dsn, command_timeout=600)
    try:
        for first in range(0, runs, BATCH):
            await connection.execute(FILL, first, first + BATCH - 1)
        await connection.execute("vacuum analyze")
        await connection.execute("checkpoint")
    finally:
        await connection.close()


async def measure(client: rq.Client, dsn: str) -> dict[str, Any]:
    """Ask each question some times; the milliseconds of each, by its name."""
    questions = await _questions(client, dsn)
    return {name: round(await _took(ask), 1) for name, ask in questions.items()}


async def _took(ask: Callable[[], Awaitable[object]]) -> float:
    await ask()
    took: list[float] = []
    for _ in range(ASKED):
        began = time.perf_counter()
        await ask()
        took.append(time.perf_counter() - began)
    return 1000 * median(took)


async def _questions(client: rq.Client, dsn: str) -> dict[str, Callable[[], Awaitable[object]]]:
    connection = await asyncpg.connect(dsn)
    try:
        middle = await connection.fetchval("select id::text from runnerq.run order by id offset 500000 limit 1")
        parent = await connection.fetchval(
            "select parent_id::text from runnerq.run where parent_id is not null limit 1"
        )
    finally:
        await connection.close()
    now = datetime.now(UTC)
    group = (await client.failures()).groups[0]
    filters: Mapping[str, rq.RunFilter] = {
        "none": rq.RunFilter(),
        "status_completed": rq.RunFilter(status="completed"),
        "status_running": rq.RunFilter(status="running"),
        "status_waiting": rq.RunFilter(status="waiting"),
        "status_retrying": rq.RunFilter(status="retrying"),
        "status_dead_letter": rq.RunFilter(status="dead_letter"),
        "status_mixed": rq.RunFilter(status=(rq.Status.FAILED, rq.Status.RUNNING)),
        "workflow": rq.RunFilter(workflow="refund"),
        "workflow_nothing": rq.RunFilter(workflow="nothing"),
        "queue_nothing": rq.RunFilter(queue="nothing"),
        "completed_of_nothing": rq.RunFilter(workflow="nothing", status="completed"),
        "id_prefix": rq.RunFilter(id_prefix=middle[:14]),
        "key_prefix": rq.RunFilter(key_prefix="order-9999"),
        "key_nothing": rq.RunFilter(key_prefix="nothing"),
        "metadata": rq.RunFilter(metadata={"tenant": "t17"}),
        "metadata_nothing": rq.RunFilter(metadata={"tenant": "nobody"}),
        "error": rq.RunFilter(error="bank 3"),
        "error_nothing": rq.RunFilter(error="nothing like this"),
        "fingerprint": rq.RunFilter(fingerprint=group.fingerprint),
        "since": rq.RunFilter(since=now - timedelta(hours=1)),
        "day_long_ago": rq.RunFilter(since=now - timedelta(days=20), until=now - timedelta(days=19)),
        "ended_since": rq.RunFilter(ended_since=now - timedelta(hours=1)),
        "ended_long_ago": rq.RunFilter(ended_until=now - timedelta(days=20)),
        "version": rq.RunFilter(version=2),
        "roots": rq.RunFilter(roots=True),
        "parent": rq.RunFilter(parent=parent),
        "root": rq.RunFilter(root=parent),
    }

    def listing(where: rq.RunFilter) -> Callable[[], Awaitable[object]]:
        return lambda: client.list(where, PAGE)

    def counting(where: rq.RunFilter) -> Callable[[], Awaitable[object]]:
        return lambda: client.storage.count_runs(checked_filter(where), 10_000, LOOK)

    context = Context(client, Principal("benchmark", ALL), Cursors(), Cache(), Batches())

    def page(read: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[object]]:
        async def ask() -> object:
            context.cache.forget()
            return await read()

        return ask

    return {
        "page_overview": page(lambda: overview(context)),
        "page_runs": page(lambda: list_runs(context, RunQuery())),
        "page_run": page(lambda: run_detail(context, middle)),
        "page_dead_letters": page(lambda: failures(context, most=GLANCE)),
        "page_dead_letters_far": page(lambda: failures(context)),
        "page_types": page(lambda: types(context)),
        "page_queues": page(lambda: queues(context)),
        **{f"list_{name}": listing(where) for name, where in filters.items()},
        "list_far_down": lambda: client.list(None, PAGE, middle),
        "list_back": lambda: client.list(None, PAGE, middle, oldest=True),
        "count_all": counting(rq.RunFilter()),
        "count_workflow": counting(rq.RunFilter(workflow="refund")),
        "count_dead_letter": counting(rq.RunFilter(status="dead_letter")),
        "failures": client.failures,
        "run": lambda: client.info(middle),
        "history": lambda: client.history(middle),
        "tree": lambda: client.tree(parent),
        "stats": client.stats,
        "queues": client.queues.list,
        "activity_hour": lambda: client.activity(now - timedelta(hours=1), now),
        "activity_day": lambda: client.activity(now - timedelta(days=1), now, span=900),
        "activity_by_workflow": lambda: client.activity_by_workflow(now - timedelta(days=1), now),
    }
