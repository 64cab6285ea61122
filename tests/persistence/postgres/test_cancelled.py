"""What is cancelled while it opens, listens or closes ends, and leaves no connection and no task behind."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from runnerq.persistence.postgres import PostgresStorage, changes
from tests.persistence.postgres.cancelling import When, cancelled
from tests.postgres import fetch_value

SOON = 60.0


async def others_end() -> None:
    """Return once no other task is left: each ends by itself, or never."""
    async with asyncio.timeout(SOON):
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)


async def nobody_is_connected(dsn: str) -> None:
    others = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    async with asyncio.timeout(SOON):
        while await fetch_value(dsn, others):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("when", When)
async def test_an_open_that_is_cancelled_in_any_place_leaves_no_task_and_no_connection(
    database: str, when: When
) -> None:
    first = PostgresStorage(database)
    await first.open()
    await first.close()
    kept: list[PostgresStorage] = []
    for wait in count():
        storage = PostgresStorage(database)
        # What it has left open must not be closed by the garbage collector.
        kept.append(storage)
        if not await cancelled(storage.open(), wait, when):
            await storage.close()
            break
        await others_end()
    assert len(kept) > 10
    await nobody_is_connected(database)


@pytest.mark.parametrize("when", When)
async def test_a_close_that_is_cancelled_in_any_place_leaves_no_task_and_no_connection(
    database: str, when: When
) -> None:
    kept: list[PostgresStorage] = []
    for wait in count():
        storage = PostgresStorage(database)
        kept.append(storage)
        await storage.open()
        await asyncio.gather(*(storage.now() for _ in range(3)))
        reached = await cancelled(storage.close(), wait, when)
        await others_end()
        if not reached:
            break
    assert len(kept) > 2
    await nobody_is_connected(database)


@pytest.mark.parametrize("when", When)
async def test_listening_that_is_cancelled_in_any_place_ends(
    database: str, when: When, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "PROBE_INTERVAL", 0.01)
    storage = PostgresStorage(database)
    await storage.open()
    for wait in range(18):
        async with asyncio.timeout(SOON):
            assert await cancelled(storage._changes._listen(), wait, when)
    await storage.close()
    await others_end()
    await nobody_is_connected(database)
