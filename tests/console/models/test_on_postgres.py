"""The same reads over Postgres: what the storage in memory might be kinder about."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from runnerq.client.client import Client
from runnerq.client.connect import connect
from runnerq.console.actions import fleet, runs
from runnerq.console.actions.batches import BatchRequest, Selection, preview
from runnerq.console.models.attempts import attempts
from runnerq.console.models.audit import audit
from runnerq.console.models.context import PATIENCE, Context, bounded
from runnerq.console.models.dead_letters import failures
from runnerq.console.models.exports import exported
from runnerq.console.models.filters import RunQuery
from runnerq.console.models.history import history, spans
from runnerq.console.models.limits import limits
from runnerq.console.models.overview import activity, overview
from runnerq.console.models.queues import queue, queues
from runnerq.console.models.run import run_detail
from runnerq.console.models.runs import count, list_runs
from runnerq.console.models.schedules import schedules
from runnerq.console.models.signals import signals
from runnerq.console.models.tree import tree
from runnerq.console.models.types import types
from runnerq.console.models.workers import workers
from runnerq.errors import ReadTimeout
from runnerq.persistence.records import Status
from runnerq.runtime.worker import Worker
from tests.console.seeing import context_of
from tests.console.shop import ACTIVITIES, SECRET, WORKFLOWS, checkout, fanned, refused


@pytest.fixture
async def client(module_database: str) -> AsyncIterator[Client]:
    async with connect(module_database) as client:
        yield client


@pytest.fixture
def context(client: Client) -> Context:
    return context_of(client)


async def test_every_read_answers_without_a_secret_over_what_a_worker_has_done(
    client: Client, context: Context
) -> None:
    async with Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES, build="tests"):
        run = await client.options(key="order-1").start(checkout, {"password": SECRET})
        await run.reached(Status.WAITING, timeout=20)
        dead = await client.start(refused, 4711)
        await dead.reached(Status.DEAD_LETTER, timeout=20)
        family = await client.start(fanned, 2, 2)
        await family.result(timeout=20)
        await runs.send(context, run.id, "approval", {"token": SECRET}, reason="asked")
        await run.result(timeout=20)
        await fleet.put_schedule(context, fleet.ScheduleRequest(name="n", workflow="charge", args=[{}], every=3600))
        await fleet.set_limit(context, fleet.LimitRequest(scope="bank", concurrency=1))
        await fleet.pause_queue(context, "mail", reason="down")
        fork = await runs.fork(context, run.id, from_entry="3")
        assert fork.run_id is not None
        listed = await list_runs(context, RunQuery(limit=3))
        answers = [
            listed,
            await list_runs(context, RunQuery(limit=3, cursor=listed.next)),
            await list_runs(context, RunQuery(error="declined", q="01a", roots=True, since="1h")),
            await count(context, RunQuery(status=(Status.COMPLETED,))),
            await run_detail(context, run.id),
            await run_detail(context, fork.run_id),
            await run_detail(context, dead.id),
            await history(context, run.id),
            await spans(context, run.id),
            await signals(context, run.id),
            await attempts(context, dead.id),
            await tree(context, family.id),
            await exported(context, run.id),
            await failures(context),
            await overview(context),
            await activity(context, "24h"),
            await queues(context),
            await queue(context, "default"),
            await workers(context),
            await types(context),
            await limits(context),
            await schedules(context),
            await audit(context),
            await preview(context, BatchRequest(action="redrive", selection=Selection(query=RunQuery()))),
        ]
    assert all(answers)
    assert SECRET not in str(answers)
    assert len((await tree(context, family.id)).nodes) == 7
    [paused] = [each for each in await queues(context) if each.paused_at is not None]
    assert (paused.paused_by, paused.reason) == ("ada", "down")


async def test_a_read_that_takes_too_long_is_given_up(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runnerq.console.models.context.PATIENCE", 0.001)

    @bounded
    async def many(context: Context) -> None:
        while True:
            await context.now()

    with pytest.raises(ReadTimeout):
        await many(context)
    assert PATIENCE == 5.0
