"""What somebody has set for the whole database neither stops us for good nor changes what a statement means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg
import pytest

from runnerq.errors import StorageUnavailable
from runnerq.persistence.postgres import PostgresStorage, connections
from runnerq.persistence.postgres.connections import Connections
from runnerq.persistence.postgres.lending import Lent
from runnerq.persistence.records import ClaimRequest
from runnerq.testing.conformance.world import COMPLETED, a_holder, a_run, a_signal
from tests.persistence.postgres.watching import WAITS, backend_that
from tests.pgbouncer import pgbouncer
from tests.postgres import execute


async def alter(dsn: str, change: str) -> None:
    """For whoever connects from now on."""
    altered = f"do $$ begin execute format('alter database %I {change}', current_database()); end $$"
    await execute(dsn, f"begin; set transaction read write; {altered}; commit")


@asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[PostgresStorage]:
    storage = PostgresStorage(dsn)
    await storage.open()
    try:
        yield storage
    finally:
        await storage.close()


async def test_connections_that_can_only_read_are_not_kept(database: str) -> None:
    """As after a failover: who calls while the old server is still at its address finds it a standby."""
    async with opened(database) as before:
        holder = await a_holder(before)
        held = await holder.start(a_run())
    await alter(database, "set default_transaction_read_only = on")
    async with opened(database) as storage:
        holder.storage = storage
        heart = storage.heart()
        claim = ClaimRequest(worker_id=holder.id, token=2, pairs=(("default", "order@1"),), limit=1)
        writes: list[Callable[[], Awaitable[object]]] = [
            lambda: storage.start([a_run()]),
            lambda: storage.send([a_signal(held.id)]),
            lambda: storage.wake_due(1),
            lambda: storage.retain(1.0, None, 1),
            lambda: storage.claim(claim),
            lambda: heart.beat(holder.id),
            lambda: holder.commit(held, COMPLETED),
        ]
        for write in writes:
            with pytest.raises(StorageUnavailable, match="read-only"):
                await write()
        await alter(database, "reset default_transaction_read_only")
        for write in writes:
            await write()
        await heart.close()


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_statements_see_what_they_have_waited_for_whatever_the_isolation(database: str, isolation: str) -> None:
    await alter(database, f"set default_transaction_isolation = ''{isolation}''")
    async with opened(database) as storage:
        other = await asyncpg.connect(database)
        async with other.transaction():
            await other.execute("insert into runnerq.queue values ('mail')")
            pausing = asyncio.ensure_future(storage.pause("mail"))
            await backend_that(other, WAITS)
        assert await pausing is False
        await other.close()


async def _isolation(connection: Lent) -> str:
    [row] = await connection.fetch("show transaction_isolation")
    return str(row["transaction_isolation"])


async def test_through_a_pooler_it_is_so_in_transactions(database: str) -> None:
    await alter(database, "set default_transaction_isolation = ''serializable''")
    with pgbouncer(database) as dsn:
        through = Connections(dsn, 10, pooled=True)
        await through.open()
        assert await through.in_transaction(_isolation) == "read committed"
        await through.close()


async def test_first_starts_at_once_are_safe_whatever_the_isolation(empty_database: str) -> None:
    await alter(empty_database, "set default_transaction_isolation = ''repeatable read''")
    storages = [PostgresStorage(empty_database) for _ in range(4)]
    await asyncio.gather(*(storage.open() for storage in storages))
    await asyncio.gather(*(storage.close() for storage in storages))


async def test_a_migration_may_take_longer_than_other_statements(database: str) -> None:
    await alter(database, "set statement_timeout = ''1min''")
    ours = Connections(database, 10)
    await ours.open()
    connection = await ours.connect()
    assert await connection.fetchval("show statement_timeout") == "0"
    await connection.close()
    await ours.close()


async def test_what_a_machine_holds_that_is_gone_is_free_again_soon(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "SILENT", 300)
    async with opened(database) as storage:
        [started] = await storage.start([a_run(key="one")])
    ours = Connections(database, 10)
    await ours.open()
    holds = asyncio.Event()

    async def vanish(connection: Lent) -> None:
        await connection.fetch("select from runnerq.live for update")
        holds.set()
        await asyncio.Event().wait()

    gone = asyncio.ensure_future(ours.in_transaction(vanish))
    await holds.wait()
    other = await asyncpg.connect(database)
    assert await other.fetchval("select run_id::text from runnerq.live for update") == started.id
    await other.close()
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    await ours.close()
