"""What the other backends of a database do, looked at until it is what a test waits for.

``pg_stat_activity`` stands still in a transaction: it shows who was there at the first look. Each look here is new.
"""

from __future__ import annotations

import asyncio

import asyncpg

WAITS = "wait_event_type = 'Lock' and backend_type = 'client backend'"


async def backend_that(connection: asyncpg.Connection, does: str, *args: object) -> int:
    """The process of another backend of this database that does this, a condition, as soon as there is one."""
    async with asyncio.timeout(60):
        # Each look is a round trip: nothing tells what a backend does.
        while (pid := await _found(connection, does, args)) is None:
            pass
    return pid


async def nobody_that(connection: asyncpg.Connection, does: str) -> None:
    """Return once no other backend of this database does this."""
    async with asyncio.timeout(60):
        while await _found(connection, does, ()) is not None:
            pass


async def _found(connection: asyncpg.Connection, does: str, args: tuple[object, ...]) -> int | None:
    await connection.execute("select pg_stat_clear_snapshot()")
    pid: int | None = await connection.fetchval(
        "select min(pid) from pg_stat_activity where datname = current_database()"
        f" and pid <> pg_backend_pid() and ({does})",
        *args,
    )
    return pid
