"""A connection that leaves nothing in the server's session: for a pooler in transaction mode, and for fresh plans.

Rules
- Behind a pooler the server's end may be another session from one transaction to the next, with whatever its last user
  left there. So nothing is kept there: no names of statements, no settings, no LISTEN, no locks of a session.
- A statement is parsed, bound and run in one message under no name, which a pooler hands to one session as a whole. It
  is planned for its arguments, and for the tables as they are.
- What a statement takes and answers is asked once a connection, and kept on our side: to ask each time would cost
  another round trip, and the text would be parsed twice. To ask, asyncpg changes a setting of the session for a moment
  (jit); so it is asked in a transaction that is rolled back, which changes it for nobody else.
- Settings are those of a transaction that is opened for them: three round trips in place of one.
"""

from __future__ import annotations

from collections.abc import Mapping

from runnerq.persistence.postgres.lending import Connection, Prepared, Record, Transaction


class Nameless:
    """What ``Pool`` lends, over a connection that keeps no statements of its own (statement_cache_size=0)."""

    def __init__(self, connection: Connection, settings: Mapping[str, str] | None = None) -> None:
        self._connection = connection
        self._known: dict[str, Prepared] = {}
        self._settings = "".join(f"set local {name} = {value};" for name, value in (settings or {}).items())

    async def fetch(self, query: str, *args: object) -> list[Record]:
        statement = self._known.get(query)
        if statement is None:
            statement = self._known[query] = await self._learn(query)
        if not self._settings:
            return await statement.fetch(*args)
        try:
            await self._connection.execute(f"begin; {self._settings}")
            records = await statement.fetch(*args)
            await self._connection.execute("commit")
        except BaseException:
            # Whoever is lent it next must not find the transaction open.
            self._connection.terminate()
            raise
        return records

    async def _learn(self, query: str) -> Prepared:
        transaction = self._connection.transaction()
        try:
            await transaction.start()
            statement = await self._connection.prepare(query, name="")
            await transaction.rollback()
        except BaseException:
            self._connection.terminate()
            raise
        return statement

    async def execute(self, query: str) -> str:
        return await self._connection.execute(query)

    def transaction(self) -> Transaction:
        return self._connection.transaction()

    async def close(self, *, timeout: float | None = None) -> None:
        await self._connection.close(timeout=timeout)

    def is_closed(self) -> bool:
        return self._connection.is_closed()

    def terminate(self) -> None:
        self._connection.terminate()
