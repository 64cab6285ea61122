"""The first words with a server: how it is called, and what is seen of it."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import SplitResult, parse_qs, parse_qsl, urlencode, urlsplit

import asyncpg
import msgspec

from runnerq.errors import ConfigurationError, SchemaError, StorageUnavailable
from runnerq.persistence.postgres.faults import translating
from runnerq.persistence.postgres.lending import Connection

STEADY_PLANS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",  # costs more than the probes that it would save
    "enable_nestloop": "off",  # of a batch with itself; what the text calls lateral stays a loop of probes
    "enable_mergejoin": "off",
    "jit": "off",
}

PATIENCE = 10.0
"""Seconds for one connection to be made."""

_LEADS_THERE = frozenset({"host", "port", "dbname", "database", "user", "sslmode", "target_session_attrs"})
_BEGINS = re.compile(r"\s*postgres(?:ql)?://", re.IGNORECASE)
_OF_PAIRS = re.compile(r"[\s=]")
_UNREADABLE = (
    "the DSN cannot be read: expected postgresql://user:password@host:port/database. In the password write "
    "% as %25, / as %2F, # as %23, ? as %3F, @ as %40, : as %3A, [ as %5B and ] as %5D"
)

_OLDEST_SERVER = 150000
_LOOK = """
    select pg_backend_pid() as pid, pg_postmaster_start_time() as started, current_database() as database,
           current_setting('server_version_num') as version, current_setting('server_encoding') as encoding,
           (select array_agg(name || '=' || setting) from pg_settings where name = any($1)) as held
    """

# What a server says that is not ready to be asked yet: starting up or stopping, or all its connections taken.
_NOT_YET = (asyncpg.CannotConnectNowError, asyncpg.TooManyConnectionsError, asyncpg.AdminShutdownError)
_NO_ANSWER = (OSError, TimeoutError, asyncpg.ConnectionDoesNotExistError, *_NOT_YET)


class Seen(msgspec.Struct, frozen=True):
    """What answers at a DSN: which server, which database, and whether there is a pooler before it."""

    started: datetime
    database: str
    pooled: bool


def place_of(dsn: str) -> str:
    """Where a DSN points, for messages: host, port and database, never the user's password."""
    parts = _read(dsn)
    if parts is None or "," in parts.netloc:
        return "the given DSN"
    query = parse_qs(parts.query)
    host = parts.hostname or query.get("host", [""])[0] or os.environ.get("PGHOST", "the local socket")
    number = parts.port or query.get("port", [""])[0] or os.environ.get("PGPORT", "")
    database = parts.path.lstrip("/") or query.get("dbname", query.get("database", [""]))[0]
    return f"{host}{f':{number}' if number else ''}/{database or os.environ.get('PGDATABASE', '')}"


def without_secrets(dsn: str) -> str | None:
    """The DSN with what leads there and nothing else, for messages; None if it cannot be read."""
    parts = _read(dsn)
    if parts is None:
        return None
    user, at, hosts = parts.netloc.rpartition("@")
    told = [(name, value) for name, value in parse_qsl(parts.query) if name in _LEADS_THERE]
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{hosts}{parts.path}{'?' if told else ''}{urlencode(told)}"


def _read(dsn: str) -> SplitResult | None:
    """The parts; None for what is no URL of ours, and where a password may be taken for something else."""
    if not _BEGINS.match(dsn):
        return None
    try:
        parts = urlsplit(dsn)
        for host in parts.netloc.rpartition("@")[2].split(","):
            _ = urlsplit(f"//{host}").port  # raises where it is none
    except ValueError:
        return None
    return None if parts.netloc.count("@") > 1 or _misplaced(parts) else parts


def _misplaced(parts: SplitResult) -> bool:
    """Whether a piece that would be told may have a password in it."""
    user, _, hosts = parts.netloc.rpartition("@")
    pairs = [pair.partition("=") for pair in parts.query.split("&")]
    led = [value for name, _, value in pairs if name in _LEADS_THERE]
    # As in host=... password=...: half a URL, half the other form that libpq reads.
    if any(_OF_PAIRS.search(piece) for piece in (user.partition(":")[0], hosts, parts.path, *led)):
        return True
    # A password that is not escaped ends what it stands in early, and its @ stands further on.
    further_on = [parts.path, parts.fragment, *(name for name, _, _ in pairs)]
    further_on += [value for name, _, value in pairs if name in _LEADS_THERE - {"user"}]
    return any("@" in piece for piece in further_on) or (not parts.netloc and ":" in parts.path)


async def call(
    dsn: str,
    settings: Mapping[str, str],
    *,
    command_timeout: float | None,
    kept_statements: int = 0,
    patience: float = PATIENCE,
) -> Connection:
    """One connection; without kept statements, each is planned when it is sent, and nothing of it stays.

    Raises:
        ConfigurationError: the DSN cannot be read.
    """
    if _read(dsn) is None:
        raise ConfigurationError(_UNREADABLE)
    connect: Any = asyncpg.connect  # its annotation of timeout is narrower than what it takes
    try:
        connection: Connection = await connect(
            dsn,
            timeout=patience,
            command_timeout=command_timeout,
            server_settings=dict(settings),
            statement_cache_size=kept_statements,
            max_cacheable_statement_size=0,  # no limit: commit.sql is longer than asyncpg would keep
        )
    except asyncpg.ClientConfigurationError:
        raise  # which is a ValueError, too, and says what is wrong without a piece of the password
    except ValueError:
        # What it says has a piece of the DSN in it, and that may be one of the password.
        raise ConfigurationError(_UNREADABLE) from None
    return connection


async def look(dsn: str, connect_timeout: float) -> Seen:
    """See what is there. A server that does not answer is asked again for ``connect_timeout`` seconds.

    Raises:
        ConfigurationError: the DSN cannot be read.
        StorageUnavailable: nobody answers there, or whoever does lets us not in.
        SchemaError: the server cannot carry our tables.
    """
    connection, takes_settings = await _first(dsn, connect_timeout)
    try:
        with translating():
            [row] = await connection.fetch(_LOOK, list(STEADY_PLANS))
    finally:
        await connection.close()
    version = int(row["version"])
    if version < _OLDEST_SERVER:
        raise SchemaError(f"runnerq needs PostgreSQL 15 or newer; this server is {version // 10000}")
    if row["encoding"] != "UTF8":
        raise SchemaError(f"runnerq needs a database with encoding UTF8; this one has {row['encoding']}")
    held = set(row["held"]) == {f"{name}={setting}" for name, setting in STEADY_PLANS.items()}
    # A pooler refuses settings or ignores them; and it greets with a number of its own, not with a backend's.
    pooled = not takes_settings or not held or row["pid"] != connection.get_server_pid()
    return Seen(started=row["started"], database=row["database"], pooled=pooled)


async def _first(dsn: str, connect_timeout: float) -> tuple[Connection, bool]:
    """The first connection, and whether it takes settings."""
    started = time.monotonic()
    pause = 0.05
    while True:
        left = started + connect_timeout - time.monotonic()
        try:
            return await _with_settings_if_it_can(dsn, max(left, 1.0))
        except asyncpg.ClientConfigurationError as error:
            raise ConfigurationError(f"the DSN for {place_of(dsn)} cannot be used: {error}") from error
        except _NO_ANSWER as error:
            waited = time.monotonic() - started
            if waited + pause > connect_timeout:
                raise StorageUnavailable(
                    f"Postgres at {place_of(dsn)} has not answered for {waited:.1f} s: "
                    f"{str(error) or type(error).__name__}. Is it running, and is the address right?"
                ) from error
        except asyncpg.PostgresError as error:
            raise StorageUnavailable(f"Postgres at {place_of(dsn)} refuses the connection: {error}") from error
        await asyncio.sleep(pause)
        pause = min(pause * 2, 1.0)


async def _with_settings_if_it_can(dsn: str, patience: float) -> tuple[Connection, bool]:
    try:
        return await call(dsn, STEADY_PLANS, command_timeout=PATIENCE, patience=patience), True
    except asyncpg.ProtocolViolationError:
        return await call(dsn, {}, command_timeout=PATIENCE, patience=patience), False
