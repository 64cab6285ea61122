"""The Postgres storage as tests make it, wipe it and move its time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.protocol import Storage

KEPT = ("migration", "sweep")
"""Tables that a wipe does not empty."""


def a_storage(dsn: str) -> PostgresStorage:
    """A storage that is not open yet."""
    return PostgresStorage(dsn)


async def wipe(connection: asyncpg.Connection) -> None:
    """Empty all tables."""
    tables = await connection.fetch(
        "select relname from pg_class where relnamespace = 'runnerq'::regnamespace and relkind = 'r'"
    )
    names = ", ".join(f"runnerq.{row['relname']}" for row in tables if row["relname"] not in KEPT)
    await connection.execute(
        f"truncate {names}; update runnerq.sweep set run_id = '00000000-0000-0000-0000-000000000000'"
    )


class PostgresWorld:
    """A ``World`` of the conformance suite: open storages on one schema, whose stored times can be moved back."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.postgres = a_storage(dsn)
        self._second: PostgresStorage | None = None
        self._connection: asyncpg.Connection | None = None

    @property
    def storage(self) -> Storage:
        return self.postgres

    @property
    def connection(self) -> asyncpg.Connection:
        assert self._connection is not None, "the world is open"
        return self._connection

    async def open(self) -> None:
        await self.postgres.open()
        self._connection = await asyncpg.connect(self.dsn)

    async def close(self) -> None:
        await self.connection.close()
        for storage in (self.postgres, self._second):
            if storage is not None:
                await storage.close()

    async def wipe(self) -> None:
        await wipe(self.connection)

    async def another(self) -> Storage:
        if self._second is None:
            self._second = a_storage(self.dsn)
            await self._second.open()
        return self._second

    async def advance(self, seconds: float) -> None:
        await self.connection.execute(
            f"""
            update runnerq.live set due_at = due_at - interval '{seconds} s', rank = rank - interval '{seconds} s';
            update runnerq.worker set beat_at = beat_at - interval '{seconds} s';
            update runnerq.build set first_seen = first_seen - interval '{seconds} s';
            update runnerq.block set retry_at = retry_at - interval '{seconds} s' where retry_at is not null
            """
        )

    async def advance_workers(self, seconds: float) -> None:
        """``advance``, but for runs: they may be locked by a transaction that the test holds."""
        await self.connection.execute(f"update runnerq.worker set beat_at = beat_at - interval '{seconds} s'")

    async def lose_wake(self, run_id: str) -> None:
        moved = await self.connection.execute(
            "update runnerq.live set state = 'waiting', arrived = 0 where run_id = $1 and state = 'pending'",
            run_id,
        )
        assert moved == "UPDATE 1"

    async def forget_worker(self, worker_id: int) -> None:
        await self.connection.execute("delete from runnerq.worker where id = $1", worker_id)


@asynccontextmanager
async def a_world(dsn: str) -> AsyncIterator[PostgresWorld]:
    """An open world in this database, whose schema is made if it is not there."""
    world = PostgresWorld(dsn)
    await world.open()
    try:
        yield world
    finally:
        await world.close()
