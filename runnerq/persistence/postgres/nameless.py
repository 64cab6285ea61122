"""A connection that leaves nothing in the server's session: for a pooler in transaction mode, and for fresh plans.

Rules
- Behind a pooler the server's end may be another session from one transaction to the next, with whatever its last user
  left there. So nothing is kept there: no names of statements, no settings, no LISTEN, no locks of a session.
- A statement is parsed, bound and run in one message under no name, which a pooler hands to one session as a whole. It
  is planned for its arguments, and for the tables as they are.
- What a statement takes and answers is asked once a connection, and kept on our side: to ask each time would cost
  another round trip, and the text would be parsed twice. To ask, asyncpg changes a setting of the session for a moment
  (jit); so it is asked in a transaction that is rolled back, which changes it for nobody else.
- Settings are those of a transaction: of one that is opened for the statement, three round trips in place of one, or of
  the one that it stands in.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import asyncpg

from runnerq.persistence.postgres.lending import Connection, Prepared, Record

_ALONE = ("begin", "rollback")
_ASIDE = ("savepoint asked", "rollback to savepoint asked; release savepoint asked")
"""Around the question what a statement takes: outside of a transaction, and in one."""


class Nameless:
    """What ``Pool`` lends, over a connection that keeps no statements of its own (statement_cache_size=0)."""

    def __init__(self, connection: Connection, settings: Mapping[str, str] | None = None) -> None:
        self._connection = connection
        self._known: dict[str, Prepared] = {}
        self._settings = "".join(f"set local {name} = {value};" for name, value in (settings or {}).items())
        self._within = False
        """Whether a transaction is open, which has the settings already."""

    async def fetch(self, query: str, *args: object) -> list[Record]:
        statement = self._known.get(query)
        if statement is None:
            statement = self._known[query] = await self._learn(query)
        if self._within or not self._settings:
            return await statement.fetch(*args)
        async with self.transaction():
            return await statement.fetch(*args)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """One with the settings."""
        ended = False
        self._within = True
        try:
            await self._connection.execute(f"begin isolation level read committed; {self._settings}")
            yield
            await self._connection.execute("commit")
            ended = True
        except asyncpg.PostgresError:
            ended = await self._roll_back()
            raise
        finally:
            self._within = False
            if not ended:
                # Whoever is lent it next must not find the transaction open.
                self._connection.terminate()

    async def _roll_back(self) -> bool:
        """Whether it could be; a server that hangs up with its error cannot be asked to."""
        try:
            await self._connection.execute("rollback")
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
            return False
        return True

    async def _learn(self, query: str) -> Prepared:
        begin, end = _ASIDE if self._within else _ALONE
        try:
            await self._connection.execute(begin)
            statement = await self._connection.prepare(query, name="")
            await self._connection.execute(end)
        except BaseException:
            self._connection.terminate()
            raise
        return statement

    async def execute(self, query: str) -> str:
        return await self._connection.execute(query)

    async def close(self, *, timeout: float | None = None) -> None:
        await self._connection.close(timeout=timeout)

    def is_closed(self) -> bool:
        return self._connection.is_closed()

    def terminate(self) -> None:
        self._connection.terminate()
