"""What can be seen of a server by whoever wants to know what is wrong with it.

Rules
- It looks over connections of its own, changes nothing, and needs no tables: what is wrong may be that they are not
  there.
- What it finds is told as it is; what is good or bad is for others to say.
- LISTEN is tried for real, but never through a pooler that is known: it would stay in a session of somebody else.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import msgspec

from runnerq.persistence.postgres import rows
from runnerq.persistence.postgres.changes import probe_of
from runnerq.persistence.postgres.faults import translating
from runnerq.persistence.postgres.greeting import Seen, call, look
from runnerq.persistence.postgres.lending import Lent, Record
from runnerq.persistence.postgres.nameless import Nameless
from runnerq.persistence.postgres.rights import needed
from runnerq.persistence.postgres.schema import Standing, standing
from runnerq.persistence.postgres.statements import Statements, checked_schema

PATIENCE = 15.0
"""Seconds for one look."""

SETTINGS = (
    "autovacuum",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "fsync",
    "full_page_writes",
    "lock_timeout",
    "max_connections",
    "statement_timeout",
    "synchronous_commit",
    "track_counts",
)


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A server, and how it is set for this role in this database. ``ahead`` is how many seconds the clock of this
    machine is before its own, by ``give`` more or less. ``taken`` are the connections of all databases, ``size`` is
    bytes. ``sees_all``: this role may see what others do."""

    version: str
    database: str
    role: str
    standby: bool
    sees_all: bool
    settings: Mapping[str, str]
    taken: int
    size: int
    ahead: float
    give: float


class HeldBack(msgspec.Struct, frozen=True, kw_only=True):
    """Something that has been open for long. ``age`` is seconds; None for replication. ``keeps``: rows that died
    since cannot be cleared as long as it is; else it may still make a migration wait."""

    kind: str
    pid: int | None
    age: float | None
    role: str | None
    name: str | None
    state: str | None
    query: str | None
    keeps: bool


class TableCondition(msgspec.Struct, frozen=True, kw_only=True):
    """A table: its bytes with its indexes, its rows as the server has counted them, and whether it is cleared of dead
    ones. ``broken`` are indexes whose building was broken off."""

    name: str
    bytes: int
    alive: int
    dead: int
    cleared_at: datetime | None
    cleared: bool
    broken: tuple[str, ...]


class Condition:
    """A server as it is seen over one connection at a time; ``seen`` is what answered, and whether through a pooler."""

    def __init__(self, dsn: str, schema: str, seen: Seen) -> None:
        self._dsn = dsn
        self._connection: Lent | None = None
        self._statements = Statements(schema)
        self.schema_name = schema
        self._server: Server | None = None
        self.seen = seen

    def close(self) -> None:
        if self._connection is not None:
            self._connection.terminate()

    async def server(self) -> Server:
        """Asked once."""
        if self._server is None:
            self._server = await self._look()
        return self._server

    async def _look(self) -> Server:
        before = datetime.now(UTC)
        [row] = await self._read("read_server", list(SETTINGS))
        took = datetime.now(UTC) - before
        return Server(
            version=row["version"],
            database=row["database"],
            role=row["role"],
            standby=row["standby"],
            sees_all=row["sees_all"],
            settings=dict(zip(row["names"], row["values"], strict=True)),
            taken=row["taken"],
            size=row["size"],
            ahead=(before + took / 2 - row["now"]) / timedelta(seconds=1),
            give=took / timedelta(seconds=2),
        )

    async def schema(self) -> Standing:
        """How far the schema is. SchemaError where this role may not even look."""
        return await standing(await self._connected(), self.schema_name)

    async def missing_rights(self) -> Sequence[tuple[str, str]]:
        """What is not open to this role, with the right that it needs: tables, functions and the schema itself."""
        tables, rights = zip(*needed(), strict=True)
        found = await self._read("read_rights", self.schema_name, list(tables), list(rights))
        return [(record["name"], record["needs"]) for record in found]

    async def missing_tables(self) -> Sequence[str]:
        """Those that the code asks for by names that there are not."""
        there = {each.name for each in await self.tables()}
        return sorted({table for table, _ in needed()} - there)

    async def held_back(self, age: float) -> Sequence[HeldBack]:
        """What has been open for so many seconds."""
        found = await self._read("read_held_back", age)
        return [rows.of(HeldBack, record) for record in found]

    async def tables(self) -> Sequence[TableCondition]:
        """Those of the schema, the largest first."""
        found = await self._read("read_tables", self.schema_name)
        return [rows.of(TableCondition, record, broken=tuple(record["broken"])) for record in found]

    async def hears(self, direct_dsn: str | None, patience: float) -> bool:
        """Whether what is told by the DSN is heard by LISTEN, on the server's own address if that is another."""
        channel, note = f"runnerq_{self.schema_name}", probe_of(secrets.token_hex(6))
        heard = asyncio.Event()

        def hear(_connection: object, _pid: int, _channel: str, payload: str) -> None:
            if payload == note:
                heard.set()

        with translating():
            listener = await call(direct_dsn or self._dsn, {}, command_timeout=PATIENCE)
            try:
                await listener.add_listener(channel, hear)
                await self._read("notify", channel, note)
                async with asyncio.timeout(patience):
                    await heard.wait()
            except TimeoutError:
                # It may have come with the end of the wait, on a machine that stood still.
                return heard.is_set()
            finally:
                listener.terminate()
        return True

    async def _read(self, statement: str, *args: object) -> Sequence[Record]:
        connection = await self._connected()
        with translating():
            return await connection.fetch(self._statements[statement], *args)

    async def _connected(self) -> Lent:
        """A statement that is refused may have cost the connection: then it is another one."""
        if self._connection is None or self._connection.is_closed():
            with translating():
                self._connection = Nameless(await call(self._dsn, {}, command_timeout=PATIENCE))
        return self._connection


@asynccontextmanager
async def condition_of(dsn: str, schema: str, *, patience: float) -> AsyncIterator[Condition]:
    """Look at what answers there. A server that does not answer is asked again for ``patience`` seconds.

    Raises:
        ConfigurationError: the DSN cannot be read.
        StorageUnavailable: nobody answers there, or whoever does lets us not in.
        SchemaError: the server cannot carry our tables.
    """
    seen = await look(dsn, patience)
    condition = Condition(dsn, checked_schema(schema), seen)
    try:
        yield condition
    finally:
        condition.close()
