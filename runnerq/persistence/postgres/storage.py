"""``PostgresStorage``: the storage protocol on PostgreSQL 15 or newer."""

from __future__ import annotations

from collections.abc import Callable

from runnerq.persistence.postgres import schema as schemas
from runnerq.persistence.postgres.auditing import Audits
from runnerq.persistence.postgres.changes import Changes
from runnerq.persistence.postgres.connections import Connections
from runnerq.persistence.postgres.heart import PostgresHeart
from runnerq.persistence.postgres.joined import Joins
from runnerq.persistence.postgres.lending import Connection
from runnerq.persistence.postgres.reads import Queries
from runnerq.persistence.postgres.schedules import Schedules
from runnerq.persistence.postgres.statements import Statements, checked_schema
from runnerq.persistence.postgres.tallying import Tallying
from runnerq.persistence.postgres.transactions import Transactions
from runnerq.persistence.postgres.upkeep import Upkeep
from runnerq.persistence.records import Wake


class PostgresStorage(Upkeep, Tallying, Schedules, Queries, Audits, Joins, Transactions):
    """Everything in one schema of one database. Used on the event loop that opened it.

    ``migrate=False`` only checks the schema. A server that does not answer is asked again for ``connect_timeout``
    seconds. ``pooled`` says that the DSN leads to a pooler in transaction mode; ``direct_dsn`` is then the way to the
    server itself, for LISTEN and beats, without which everything moves by polling.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "runnerq",
        migrate: bool = True,
        connect_timeout: float = 10.0,
        pooled: bool = False,
        direct_dsn: str | None = None,
    ) -> None:
        self._schema = checked_schema(schema)
        self._migrates = migrate
        connections = Connections(dsn, connect_timeout, pooled=pooled, direct_dsn=direct_dsn)
        statements = Statements(schema)
        super().__init__(connections, statements, Changes(connections, statements, schema))

    async def open(self) -> None:
        try:
            await self._connections.open()
            connection = await self._for_migrations()
            try:
                if self._migrates:
                    await schemas.migrate(connection, self._schema, self._for_migrations)
                else:
                    await schemas.check(connection, self._schema)
            finally:
                connection.terminate()
            await self._changes.open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        try:
            await self._changes.close()
        finally:
            await self._connections.close()

    def subscribe(self, hear: Callable[[Wake], None]) -> Callable[[], None]:
        return self._changes.subscribe(hear)

    def heart(self) -> PostgresHeart:
        return PostgresHeart(self._connections, self._statements)

    async def _for_migrations(self) -> Connection:
        return await self._connections.connect(command_timeout=schemas.MIGRATION_TIMEOUT)
