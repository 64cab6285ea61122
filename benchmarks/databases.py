"""Where a workload runs: fresh databases of one server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg
import msgspec
import psutil


class Place(msgspec.Struct, frozen=True):
    """A server, and the process id of its postmaster where that runs on this machine."""

    dsn: str
    postmaster: int | None

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[str]:
        """The DSN of a new database, right after a checkpoint; it is gone afterwards."""
        name = f"bench_{os.getpid()}"
        connection = await asyncpg.connect(self.dsn)
        try:
            await connection.execute(f"drop database if exists {name} with (force)")
            await connection.execute(f"create database {name}")
            await connection.execute("checkpoint")
            yield urlsplit(self.dsn)._replace(path=f"/{name}").geturl()
            await connection.execute(f"drop database {name} with (force)")
        finally:
            await connection.close()


async def place_of(dsn: str) -> Place:
    """The server of this DSN; its postmaster is the parent of a backend of ours."""
    connection = await asyncpg.connect(dsn)
    try:
        backend = psutil.Process(await connection.fetchval("select pg_backend_pid()"))
        return Place(dsn, backend.ppid() if "postgres" in backend.name() else None)
    except psutil.NoSuchProcess:
        return Place(dsn, None)
    finally:
        await connection.close()


async def until(dsn: str, query: str, wanted: int, *arguments: object, every: float = 0.02) -> None:
    """Return once the query counts so many. TimeoutError after five minutes."""
    connection = await asyncpg.connect(dsn)
    try:
        async with asyncio.timeout(300):
            while True:
                if (await connection.fetchval(query, *arguments) or 0) >= wanted:
                    return
                await asyncio.sleep(every)
    except TimeoutError:
        raise TimeoutError(f"{wanted} were expected within five minutes: {query}") from None
    finally:
        await connection.close()
