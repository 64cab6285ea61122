"""Connections to lend: a pool that costs nothing when one is free.

asyncpg's own pool starts a task and resets the session each time one is given back, which costs as much as a small
statement does. We leave no session state, so there is nothing to reset.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import asyncpg

from runnerq.errors import StorageUnavailable


class Record(Protocol):
    """A row, by column name."""

    def __getitem__(self, column: str) -> Any: ...


class Prepared(Protocol):
    """A statement whose parameters and columns are known."""

    async def fetch(self, *args: object) -> list[Record]: ...


class Lent(Protocol):
    """What a pool lends."""

    async def fetch(self, query: str, *args: object) -> list[Record]: ...
    async def execute(self, query: str) -> str: ...
    async def close(self, *, timeout: float | None = None) -> None: ...
    def transaction(self) -> AbstractAsyncContextManager[object]: ...
    def is_closed(self) -> bool: ...
    def terminate(self) -> None: ...


class Connection(Lent, Protocol):
    """What we use of asyncpg's connection, which has no types of its own."""

    async def fetch(self, query: str, *args: object, timeout: float | None = None) -> list[Record]: ...
    async def fetchrow(self, query: str, *args: object) -> Record | None: ...
    async def fetchval(self, query: str, *args: object) -> Any: ...
    async def execute(self, query: str, *args: object) -> str: ...
    async def prepare(self, query: str, *, name: str) -> Prepared: ...
    async def add_listener(self, channel: str, hear: Any) -> None: ...
    def add_termination_listener(self, hear: Any) -> None: ...
    def get_server_pid(self) -> int: ...
    def is_in_transaction(self) -> bool: ...
    async def reset(self, *, timeout: float | None = None) -> None: ...


class Pool:
    """At most ``size`` connections, made when they are needed, the last one used lent first."""

    def __init__(self, connect: Callable[[], Awaitable[Lent]], size: int) -> None:
        self._connect = connect
        self._places = asyncio.Semaphore(size)
        self._idle: list[Lent] = []
        self._lent: set[Lent] = set()
        self._closed = False

    async def fetch(self, statement: str, *args: object) -> Sequence[Record]:
        """Run one statement on any connection."""
        async with self._places:
            connection = await self._take()
            try:
                return await connection.fetch(statement, *args)
            except BaseException as error:
                _cut_if_useless(connection, error)
                raise
            finally:
                self._give_back(connection)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Lent]:
        """Lend one for several statements."""
        async with self._places:
            connection = await self._take()
            try:
                yield connection
            except BaseException as error:
                _cut_if_useless(connection, error)
                raise
            finally:
                self._give_back(connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Lent]:
        """Lend one for one transaction."""
        async with self.connection() as connection:
            try:
                async with connection.transaction():
                    yield connection
            except asyncpg.PostgresError:
                raise
            except BaseException:
                # Broken off in its begin it would be open still, and take in what the next one writes.
                connection.terminate()
                raise

    async def close(self, patience: float) -> None:
        """Close all; what is still lent, or does not part in time, is cut."""
        idle, self._idle = self._idle, []
        self.cut()
        try:
            await asyncio.gather(*(_part(connection, patience) for connection in idle))
        finally:
            for connection in idle:
                connection.terminate()

    def cut(self) -> None:
        """Close all at once, without a goodbye."""
        self._closed = True
        idle, self._idle = self._idle, []
        for connection in (*self._lent, *idle):
            connection.terminate()

    async def _take(self) -> Lent:
        connection = self._open_one()
        if connection is None:
            connection = await self._connect()
        self._lent.add(connection)
        return connection

    def _open_one(self) -> Lent | None:
        """An idle one that has not been closed meanwhile, from the other side for instance."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    def _give_back(self, connection: Lent) -> None:
        self._lent.discard(connection)
        if self._closed:
            connection.terminate()
        elif not connection.is_closed():
            self._idle.append(connection)


def can_only_read(error: BaseException) -> bool:
    """Whether the server refuses to write: after a failover the old one may be at its address for a while, a standby,
    and whoever called it then would have it for good."""
    return isinstance(error, asyncpg.ReadOnlySQLTransactionError)


def _cut_if_useless(connection: Lent, error: BaseException) -> None:
    """What follows on a silent or broken connection would wait for the answer that did not come, so it is cut.

    After an error the server has answered; after a cancel asyncpg calls the statement off before it sends another.
    """
    if isinstance(error, AttributeError) and connection.is_closed():
        # asyncpg's own word for one that was cut, as its pool closed, between two messages of a statement.
        raise StorageUnavailable("the storage was closed while it was asked") from error
    if can_only_read(error) or not isinstance(error, asyncpg.PostgresError | asyncio.CancelledError):
        connection.terminate()


async def _part(connection: Lent, patience: float) -> None:
    try:
        await connection.close(timeout=patience)
    except Exception:  # noqa: BLE001 - a connection that is lost already cannot say goodbye
        connection.terminate()
