"""The Postgres storage as tests make it, wipe it and move its time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import asyncpg

from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.protocol import Storage

KEPT = ("migration", "sweep", "retention", "lining", "tally")
"""Tables that a wipe does not empty."""


def a_storage(dsn: str) -> PostgresStorage:
    """A storage that is not open yet."""
    return PostgresStorage(dsn)


LARGE = 4_000_000
"""Bytes on disk from which a table is worth a truncate: that takes fifty times as long as to delete a few rows."""
WORN = 300_000
"""Bytes of runs, a thousand or two, from which on they are vacuumed: then every statement is planned anew."""


async def wipe(connection: asyncpg.Connection) -> None:
    """Empty all tables."""
    tables = await connection.fetch(
        """
        select relname, pg_total_relation_size(oid) > $1 as large,
               relname = 'live' and pg_relation_size(oid) > $2 as worn
        from pg_class
        where relnamespace = 'runnerq'::regnamespace and relkind = 'r' and pg_relation_size(oid) > 0
        and relname <> all($3)
        """,
        LARGE,
        WORN,
        KEPT,
    )
    emptied = [f"{'truncate' if row['large'] else 'delete from'} runnerq.{row['relname']}" for row in tables]
    begin = "set run_id = '00000000-0000-0000-0000-000000000000'"
    await connection.execute(
        ";\n".join([*emptied, f"update runnerq.sweep {begin}", f"update runnerq.retention {begin}"])
    )
    # Claims go by how many dead rows there are: many of an earlier test are none of this one's.
    if any(row["worn"] for row in tables):
        await connection.execute("vacuum (parallel 0) runnerq.live")


class PostgresWorld:
    """A ``World`` of the conformance suite: open storages on one schema, whose stored times can be moved back."""

    def __init__(self, dsn: str, make: Callable[[], PostgresStorage] | None = None) -> None:
        """``make`` makes the storages, where they are not to go to the DSN as it is."""
        self.dsn = dsn
        self._make = make or (lambda: a_storage(dsn))
        self.postgres = self._make()
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
            self._second = self._make()
            await self._second.open()
        return self._second

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[object]:
        connection = await asyncpg.connect(self.dsn)
        try:
            async with connection.transaction():
                yield connection
        finally:
            await connection.close()

    async def advance(self, seconds: float) -> None:
        await self.connection.execute(
            f"""
            update runnerq.live set due_at = due_at - interval '{seconds} s', rank = rank - interval '{seconds} s';
            update runnerq.outcome set ended_at = ended_at - interval '{seconds} s';
            update runnerq.attempt set next_at = next_at - interval '{seconds} s' where next_at is not null;
            update runnerq.worker
            set beat_at = beat_at - interval '{seconds} s', reaped_at = reaped_at - interval '{seconds} s';
            update runnerq.build set first_seen = first_seen - interval '{seconds} s';
            update runnerq.schedule
            set next_at = next_at - interval '{seconds} s', since = since - interval '{seconds} s';
            update runnerq.gate set open_at = open_at - interval '{seconds} s';
            update runnerq.lane set turn_at = turn_at - interval '{seconds} s';
            update runnerq.bucket
            set admitted_at = admitted_at - interval '{seconds} s',
                recent_at = array(select at - interval '{seconds} s' from unnest(recent_at) as r(at));
            update runnerq.tally set at = at - interval '{seconds} s';
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
async def a_world(dsn: str, make: Callable[[], PostgresStorage] | None = None) -> AsyncIterator[PostgresWorld]:
    """An open world in this database, whose schema is made if it is not there."""
    world = PostgresWorld(dsn, make)
    await world.open()
    try:
        yield world
    finally:
        await world.close()
