"""Connections: how they are made, checked and lent.

Rules
- Four pools. ``durable`` commits to disk, and so does ``turns``, whose statements wait for no lock; ``quick`` has
  synchronous_commit off, for what is harmless to lose: claims and wake-ups; ``fresh`` plans each statement for what it
  is given, for people's filters.
- Plans do not depend on how large the tables were when they were made: they are generic, tables are probed by key, and
  the rows of a batch are joined by hash. Without that, a plan cached over empty tables makes a claim take seconds
  later. Where a pooler refuses or ignores these settings, statements are planned each time instead
  (statement_cache_size=0), which also keeps us free of session state.
- A server that does not answer is asked again until ``connect_timeout``; one that refuses us is not.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg

from runnerq.errors import ConfigurationError, SchemaError, StorageUnavailable
from runnerq.persistence.postgres.faults import told
from runnerq.persistence.postgres.lending import Connection, Pool, Record

STEADY_PLANS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",  # costs more than the probes that it would save
    "enable_nestloop": "off",  # of a batch with itself; what the text calls lateral stays a loop of probes
    "enable_mergejoin": "off",
    "jit": "off",
}
COMMAND_TIMEOUT = 60.0
"""Seconds after which a statement counts as unanswered; only a lock that somebody holds for so long comes near it."""

PROMPT_TIMEOUT = 15.0
"""The same for what never waits for a lock: claims, and turns, which are sent again until they are answered."""

_OLDEST_SERVER = 150000
_NEEDED = ("server_version_num", "server_encoding")
_DURABLE_CONNECTIONS = 6
_TURN_CONNECTIONS = 2
_QUICK_CONNECTIONS = 2
_FRESH_CONNECTIONS = 2
_PARTING = 5.0
_PATIENCE = 10.0

# What a server says that is not ready to be asked yet: starting up or stopping, or all its connections taken.
_NOT_YET = (asyncpg.CannotConnectNowError, asyncpg.TooManyConnectionsError, asyncpg.AdminShutdownError)
_NO_ANSWER = (OSError, TimeoutError, asyncpg.ConnectionDoesNotExistError, *_NOT_YET)


def place_of(dsn: str) -> str:
    """Where a DSN points, for messages: host, port and database, never the user's password."""
    parts = urlsplit(dsn)
    query = parse_qs(parts.query)
    try:
        named, port = parts.hostname, parts.port
    except ValueError:
        return "the given DSN"
    host = named or query.get("host", [""])[0] or os.environ.get("PGHOST", "the local socket")
    number = port or query.get("port", [""])[0] or os.environ.get("PGPORT", "")
    database = parts.path.lstrip("/") or query.get("dbname", query.get("database", [""]))[0]
    return f"{host}{f':{number}' if number else ''}/{database or os.environ.get('PGDATABASE', '')}"


class Connections:
    """The connections of one storage object. Used on one event loop; ``connect`` may be called on any."""

    def __init__(self, dsn: str, connect_timeout: float) -> None:
        self._dsn = dsn
        self._connect_timeout = connect_timeout
        self._steady = True
        self._durable: Pool | None = None
        self._quick: Pool | None = None
        self._turns: Pool | None = None
        self._fresh: Pool | None = None

    async def open(self) -> None:
        """Look at the server once, then make the pools.

        Raises:
            ConfigurationError: the DSN cannot be read.
            StorageUnavailable: nobody answers there, or whoever does lets us not in.
            SchemaError: the server cannot carry our tables.
        """
        first = await self._first()
        try:
            with told():
                self._steady = await _is_fit(first)
        finally:
            await first.close()
        self._durable = Pool(lambda: self._connect({}, COMMAND_TIMEOUT), _DURABLE_CONNECTIONS)
        self._quick = Pool(lambda: self._connect({"synchronous_commit": "off"}, PROMPT_TIMEOUT), _QUICK_CONNECTIONS)
        self._turns = Pool(lambda: self._connect({}, PROMPT_TIMEOUT), _TURN_CONNECTIONS)
        self._fresh = Pool(lambda: self._connect_with({}, COMMAND_TIMEOUT), _FRESH_CONNECTIONS)

    async def close(self) -> None:
        pools = (self._durable, self._quick, self._turns, self._fresh)
        self._durable = self._quick = self._turns = self._fresh = None
        for pool in pools:
            if pool is not None:
                await pool.close(_PARTING)

    async def connect(
        self, settings: dict[str, str] | None = None, *, command_timeout: float = COMMAND_TIMEOUT
    ) -> Connection:
        """A connection of the caller's own."""
        with told():
            return await self._connect(settings or {}, command_timeout)

    async def fetch(self, statement: str, *args: object) -> Sequence[Record]:
        with told():
            return await _opened(self._durable).fetch(statement, *args)

    async def fetch_turns(self, statement: str, *args: object) -> Sequence[Record]:
        """``fetch`` for turns, which wait for no lock: one silent connection must not stop a worker for long."""
        with told():
            return await _opened(self._turns).fetch(statement, *args)

    async def fetch_quick(self, statement: str, *args: object) -> Sequence[Record]:
        """``fetch`` without waiting for the disk: for what is harmless to lose."""
        with told():
            return await _opened(self._quick).fetch(statement, *args)

    async def fetch_fresh(self, statement: str, *args: object) -> Sequence[Record]:
        """``fetch`` with a plan made for these arguments and for the tables as they are."""
        with told():
            return await _opened(self._fresh).fetch(statement, *args)

    async def fetch_impatiently(self, statement: str, *args: object) -> Sequence[Record] | None:
        """``fetch``, or None if it has to wait for a lock longer than a moment; then nothing was written."""
        with told():
            try:
                async with _opened(self._durable).connection() as connection, connection.transaction():
                    await connection.execute("set local lock_timeout = '200ms'")
                    return await connection.fetch(statement, *args)
            except asyncpg.LockNotAvailableError:
                return None

    async def _first(self) -> Connection:
        """The first connection: keep asking a server that does not answer."""
        started = time.monotonic()
        pause = 0.05
        while True:
            left = started + self._connect_timeout - time.monotonic()
            try:
                return await self._connect({}, COMMAND_TIMEOUT, patience=max(left, 1.0))
            except asyncpg.ClientConfigurationError as error:
                raise ConfigurationError(f"the DSN for {place_of(self._dsn)} cannot be used: {error}") from error
            except _NO_ANSWER as error:
                waited = time.monotonic() - started
                if waited + pause > self._connect_timeout:
                    raise StorageUnavailable(
                        f"Postgres at {place_of(self._dsn)} has not answered for {waited:.1f} s: "
                        f"{str(error) or type(error).__name__}. Is it running, and is the address right?"
                    ) from error
            except asyncpg.PostgresError as error:
                place = place_of(self._dsn)
                raise StorageUnavailable(f"Postgres at {place} refuses the connection: {error}") from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)

    async def _connect(
        self, settings: dict[str, str], command_timeout: float, patience: float = _PATIENCE
    ) -> Connection:
        if self._steady:
            try:
                return await self._connect_with(settings, command_timeout, patience, STEADY_PLANS)
            except asyncpg.ProtocolViolationError:
                self._steady = False  # a pooler that takes no settings at connect
        return await self._connect_with({}, command_timeout, patience)

    async def _connect_with(
        self,
        settings: dict[str, str],
        command_timeout: float,
        patience: float = _PATIENCE,
        plans: dict[str, str] | None = None,
    ) -> Connection:
        """A connection; without settings that keep plans steady, each statement is planned when it is sent."""
        connect: Any = asyncpg.connect  # its annotation of timeout is narrower than what it takes
        connection: Connection = await connect(
            self._dsn,
            timeout=patience,
            command_timeout=command_timeout,
            server_settings=settings | (plans or {}),
            statement_cache_size=200 if plans else 0,
            max_cacheable_statement_size=0,  # no limit: commit.sql is longer than asyncpg would keep
        )
        return connection


def _opened(pool: Pool | None) -> Pool:
    if pool is None:
        raise StorageUnavailable("the storage is not open: call open(), or use it inside of 'async with'")
    return pool


async def _is_fit(connection: Connection) -> bool:
    """Whether our settings hold on this connection; raises if the server cannot carry us at all."""
    settings = await connection.fetch(
        "select name, setting from pg_settings where name = any($1)", [*_NEEDED, *STEADY_PLANS]
    )
    held = {row["name"]: row["setting"] for row in settings}
    version = int(held["server_version_num"])
    if version < _OLDEST_SERVER:
        raise SchemaError(f"runnerq needs PostgreSQL 15 or newer; this server is {version // 10000}")
    if held["server_encoding"] != "UTF8":
        raise SchemaError(f"runnerq needs a database with encoding UTF8; this one has {held['server_encoding']}")
    return all(held.get(name) == setting for name, setting in STEADY_PLANS.items())
