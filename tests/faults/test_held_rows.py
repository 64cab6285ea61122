"""Somebody's transaction holds rows of runs: who sends to those waits, and nobody else does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from runnerq.client.client import Client
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.records import Status
from tests.faults.flows import APPROVAL, order, plus_one

MANY = 20
"""More sends than any storage has connections."""
PATIENCE = 10.0


@asynccontextmanager
async def all_rows_held(database: str) -> AsyncIterator[None]:
    somebody = await asyncpg.connect(database)
    try:
        async with somebody.transaction():
            await somebody.fetch("select run_id from runnerq.live for update")
            yield
    finally:
        await somebody.close()


async def test_sends_to_runs_that_somebody_holds_keep_nothing_else_of_their_process_waiting(database: str) -> None:
    async with Client(PostgresStorage(database)) as client:
        held = await client.start_many(order, [(number,) for number in range(MANY)])
        async with all_rows_held(database):
            sends = [asyncio.create_task(run.send(APPROVAL, 1)) for run in held]
            async with asyncio.timeout(PATIENCE):
                # None of these waits for a held row.
                other = await client.start(plus_one, 1)
                assert await other.status() is Status.PENDING
                assert await client.storage.wake_due(10) == 0
                assert await client.storage.outcomes([other.id]) == []
            assert not any(send.done() for send in sends)
        await asyncio.wait_for(asyncio.gather(*sends), PATIENCE)
