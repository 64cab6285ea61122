"""Somebody's transaction holds rows of runs: who sends to those waits, and nobody else does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from runnerq.client.client import Client
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.records import Sent, Status
from runnerq.testing.conformance.world import a_run, a_signal
from tests.faults.flows import APPROVAL, order, plus_one

MANY = 20
"""More sends than any storage has connections."""
CROWD = 300
PATIENCE = 45.0
"""Seconds: less than after which a storage gives up what waits for a held row."""
MOMENTS = 6.0
"""Seconds: less than one round takes in which all of the crowd try, two at a time for 50 ms each."""
WAITS_CALLED_OFF = (
    "select count(pg_cancel_backend(pid)) from pg_stat_activity"
    " where datname = current_database() and wait_event_type = 'Lock'"
)


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


@asynccontextmanager
async def opened(database: str) -> AsyncIterator[PostgresStorage]:
    storage = PostgresStorage(database)
    await storage.open()
    try:
        yield storage
    finally:
        await storage.close()


async def test_a_wait_for_a_held_run_that_the_server_calls_off_is_taken_up_again(database: str) -> None:
    """Postgres itself calls one off where the time of a wait runs out just as the lock is had."""
    async with opened(database) as storage:
        [held] = await storage.start([a_run()])
        async with all_rows_held(database):
            send = asyncio.create_task(storage.send([a_signal(held.id)]))
            assert await called_off(database)
            assert not send.done()
        assert await asyncio.wait_for(send, PATIENCE) == [Sent.SENT]


async def called_off(database: str) -> bool:
    """Call off what waits for a lock there, as soon as it does."""
    somebody = await asyncpg.connect(database)
    try:
        async with asyncio.timeout(PATIENCE):
            while not await somebody.fetchval(WAITS_CALLED_OFF):
                pass
        return True
    finally:
        await somebody.close()


async def test_starts_that_send_to_a_held_run_delay_no_other_start_or_send(database: str) -> None:
    async with opened(database) as storage:
        [held] = await storage.start([a_run(key="held")])
        async with all_rows_held(database):
            [other] = await storage.start([a_run()])
            calls = [
                asyncio.create_task(storage.start_or_send(a_run(key="held"), [a_signal(held.id)])) for _ in range(MANY)
            ]
            async with asyncio.timeout(PATIENCE):
                # Their key is there already: these wait for no run.
                replies = await asyncio.gather(*(storage.start([a_run(key="held")]) for _ in range(MANY)))
                assert {reply.id for [reply] in replies} == {held.id}
                assert await storage.send([a_signal(other.id)]) == [Sent.SENT]
            assert not any(call.done() for call in calls)
        answers = await asyncio.wait_for(asyncio.gather(*calls), PATIENCE)
        assert [(reply.id, reply.created, sent) for reply, sent in answers] == [(held.id, False, [Sent.SENT])] * MANY


async def test_starts_under_a_parent_that_somebody_holds_delay_no_other_start(database: str) -> None:
    async with opened(database) as storage:
        [parent] = await storage.start([a_run()])
        async with all_rows_held(database):
            below = [a_run(parent_id=parent.id, root_id=parent.id, depth=1) for _ in range(MANY)]
            calls = [asyncio.create_task(storage.start([child])) for child in below]
            async with asyncio.timeout(PATIENCE):
                [other] = await storage.start([a_run()])
            assert other.created
            assert not any(call.done() for call in calls)
        replies = await asyncio.wait_for(asyncio.gather(*calls), PATIENCE)
        assert all(reply.created for [reply] in replies)


async def test_a_crowd_that_waits_for_one_run_delays_sends_to_others_by_moments(database: str) -> None:
    async with opened(database) as storage:
        [held] = await storage.start([a_run()])
        async with all_rows_held(database):
            [other] = await storage.start([a_run()])
            crowd = [asyncio.create_task(storage.send([a_signal(held.id)])) for _ in range(CROWD)]
            await asyncio.sleep(0)  # they stand in line now
            async with asyncio.timeout(PATIENCE):
                # The first comes after all of the crowd have tried once, the second beside those that try again.
                assert await storage.send([a_signal(other.id)]) == [Sent.SENT]
            async with asyncio.timeout(MOMENTS):
                assert await storage.send([a_signal(other.id)]) == [Sent.SENT]
        await asyncio.wait_for(asyncio.gather(*crowd), PATIENCE)
