from __future__ import annotations

import asyncio

import asyncpg

from tests.persistence.postgres.watching import WAITS, backend_that


async def test_a_backend_that_comes_after_the_first_look_is_seen_in_a_transaction_too(database: str) -> None:
    watcher = await asyncpg.connect(database)
    async with watcher.transaction():
        await watcher.execute("select pg_advisory_xact_lock(1)")
        assert await watcher.fetchval(f"select count(*) from pg_stat_activity where {WAITS}") == 0
        other = await asyncpg.connect(database)
        waiting = asyncio.create_task(other.execute("select pg_advisory_lock(1)"))
        assert await backend_that(watcher, WAITS) == other.get_server_pid()
    await waiting
    await other.close()
    await watcher.close()
