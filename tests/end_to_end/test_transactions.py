"""Worker processes end at each seam of a transaction, by SIGKILL or by a pause: it is paid once, and on record once."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import get_args

import asyncpg
import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.persistence.postgres import PostgresStorage
from runnerq.runtime.worker import Worker
from tests.end_to_end.conftest import Processes
from tests.end_to_end.payments import ANSWER, SCHEMA, Ended, Plan, Seam, buy
from tests.end_to_end.watching import line_of
from tests.pgbouncer import pgbouncer
from tests.postgres import execute, fetch_value
from tests.runtime.stage import Stage

PATIENCE = 60.0


@pytest.fixture
async def client(database: str) -> AsyncIterator[Client]:
    async with Client(PostgresStorage(database)) as client:
        await execute(database, SCHEMA)
        yield client


async def planned(client: Client, dsn: str, seam: Seam, **how: object) -> Plan:
    """A run of its own, in a queue of its own."""
    queue = f"{seam} {sorted(how)}"
    run = await client.options(queue=queue).start(buy)
    return msgspec.structs.replace(Plan(dsn, queue, run.id, seam), **how)


async def check(client: Client, database: str, plans: list[Plan]) -> None:
    """Each run is paid twice, once a transaction, and its journal says so."""
    connection = await asyncpg.connect(database)
    try:
        paid = Counter((row["run"], row["note"]) for row in await connection.fetch("select run, note from payment"))
    finally:
        await connection.close()
    assert paid == {(plan.run_id, note): 1 for plan in plans for note in ("book", "pen")}
    assert await fetch_value(database, "select cents from account") == 2 * len(plans)
    for plan in plans:
        await Stage(client.storage).no_gaps(plan.run_id)
        kinds = [(entry.kind, entry.state) for entry in await client.history(plan.run_id)]
        assert kinds.count(("transaction", "answered")) == 2


@asynccontextmanager
async def a_survivor(dsn: str, plans: list[Plan]) -> AsyncIterator[None]:
    """A worker that takes over."""
    queues = [plan.queue for plan in plans]
    client = Client(PostgresStorage(dsn, migrate=False))
    worker = Worker(client, workflows=[buy], queues=queues, beat=0.2, reaper_interval=0.2, build="tests")
    async with client, worker:
        yield


async def test_a_worker_that_is_killed_at_any_seam_leaves_both_or_neither(
    client: Client, database: str, processes: Processes
) -> None:
    plans = [await planned(client, database, seam) for seam in get_args(Seam)]
    process = processes.start("tests.end_to_end.payments")
    lines = "".join(msgspec.json.encode(plan).decode() + "\n" for plan in plans)
    told, _ = await asyncio.to_thread(process.communicate, lines)
    ends = [msgspec.json.decode(line, type=Ended) for line in told.splitlines()]
    assert sorted(end.queue for end in ends if end.signal == signal.SIGKILL) == sorted(plan.queue for plan in plans)
    async with a_survivor(database, plans):
        for plan in plans:
            assert await client.handle(plan.run_id, list[str]).result(timeout=PATIENCE) == ANSWER
    await check(client, database, plans)


async def test_a_worker_that_stands_still_and_is_woken_later_pays_nothing_and_holds_up_nobody(
    client: Client, database: str, processes: Processes
) -> None:
    # It has the row of the account locked that the next one needs, and no crash of its frees that.
    plan = await planned(client, database, "behind", signal=signal.SIGSTOP, lease=1.0)
    process = processes.start("tests.end_to_end.payments", msgspec.json.encode(plan).decode())
    await line_of(process, "ready")
    async with a_survivor(database, [plan]):
        assert await client.handle(plan.run_id, list[str]).result(timeout=PATIENCE) == ANSWER
    process.send_signal(signal.SIGCONT)
    told, _ = await asyncio.to_thread(process.communicate)
    assert "transaction done" not in told
    await check(client, database, [plan])


async def test_it_works_through_a_pooler(client: Client, database: str) -> None:
    plans = [await planned(client, database, seam) for seam in get_args(Seam)]
    with pgbouncer(database, pool_size=4) as pooled:
        async with a_survivor(pooled, plans):
            for plan in plans:
                assert await client.handle(plan.run_id, list[str]).result(timeout=PATIENCE) == ANSWER
    await check(client, database, plans)
