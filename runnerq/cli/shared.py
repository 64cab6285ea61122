"""What the commands share: how they connect, how arguments are read, and what an error becomes.

Rules
- rich, asyncpg and the embedded server are imported where they are used, so that ``runnerq --help`` stays fast.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from runnerq.cli.codecs import CODEC_VARIABLE, codec_named
from runnerq.cli.commands import Refused
from runnerq.client.client import Client
from runnerq.client.connect import address_of, connect
from runnerq.errors import ConfigurationError
from runnerq.serialization.nesting import MAX_DEPTH, too_deep
from runnerq.telemetry.listeners import Listener

T = TypeVar("T")

__all__ = ["Database", "Given", "Refused", "connected", "duration", "json_value", "parsed", "takes_database"]

SCHEMA_VARIABLE = "RUNNERQ_SCHEMA"
LONGEST_SHOWN = 60


# --- options ----------------------------------------------------------------------------------------------------------


class Database(msgspec.Struct, frozen=True):
    """Where a command goes. Without a DSN: where ``connect`` goes by itself, by the environment or in this folder."""

    dsn: str | None
    schema: str
    direct_dsn: str | None = None
    pooled: bool = False
    codec: str | None = None

    def client(self, *, migrate: bool = True, listeners: Iterable[Listener] = ()) -> Client:
        """A client that is not open yet: that of this invocation's ``Given``, if there is one. What does not migrate
        makes no embedded server either."""
        ctx = click.get_current_context(silent=True)
        given = None if ctx is None else ctx.find_object(Given)
        if given is not None:
            return given.client()
        if not migrate:
            self.check_there()
        return connect(
            self.dsn,
            schema=self.schema,
            migrate=migrate,
            codec=None if self.codec is None else codec_named(self.codec),
            pooled=self.pooled,
            direct_dsn=self.direct_dsn or None,
            listeners=listeners,
        )

    def check_there(self) -> None:
        """Raise ConfigurationError where an embedded server would have to be made: whoever only looks is in another
        folder than they think."""
        if address_of(self.dsn).dsn is not None:
            return
        from runnerq.persistence.embedded import default_folder  # noqa: PLC0415 - for those who have no DSN

        if not (default_folder() / "data").exists():
            raise ConfigurationError(
                "there is no --dsn, no $RUNNERQ_DSN, and no embedded Postgres in this folder yet: give one, go to the "
                "folder of your worker, or make one here with `runnerq dev` or `runnerq migrate`"
            )


class Given(msgspec.Struct, frozen=True):
    """What an invocation has as its ``obj`` where somebody else's storage is to be used, such as a test's in memory."""

    client: Callable[[], Client]


def takes_database(command: Callable[..., T]) -> Callable[..., T]:
    """Add ``--dsn``, ``--direct-dsn``, ``--pooled``, ``--schema``, ``--codec``; the command gets them as ``database``.

    The environment is left to ``connect``: what stands there of a pooler belongs to the DSN that stands there.
    """

    @click.option(
        "--dsn",
        allow_from_autoenv=False,
        help="Postgres to use.  [env: RUNNERQ_DSN; default: embedded, in this folder]",
    )
    @click.option(
        "--direct-dsn",
        allow_from_autoenv=False,
        help="The same past a pooler, to hear wake-ups.  [env: RUNNERQ_DIRECT_DSN]",
    )
    @click.option(
        "--pooled",
        is_flag=True,
        allow_from_autoenv=False,
        help="The DSN leads to a pooler in transaction mode; PgBouncer is found out.  [env: RUNNERQ_POOLED]",
    )
    @click.option(
        "--schema", envvar=SCHEMA_VARIABLE, default="runnerq", show_default=True, help="Schema of the tables."
    )
    @click.option(
        "--codec",
        envvar=CODEC_VARIABLE,
        metavar="MODULE:NAME",
        help="What connect(codec=) has in your code.  [env: RUNNERQ_CODEC]",
    )
    @functools.wraps(command)
    def with_database(
        *args: Any,
        dsn: str | None,
        direct_dsn: str | None,
        pooled: bool,
        schema: str,
        codec: str | None,
        **options: Any,
    ) -> T:
        return command(*args, database=Database(dsn, schema, direct_dsn, pooled, codec or None), **options)

    return with_database


def json_value(text: str) -> Any:
    """The type of an argument that is a JSON value, or ``@file`` with one in it."""
    try:
        return parsed(Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text)
    except OSError as error:
        raise click.BadParameter(f"{text[1:]} cannot be read: {error.strerror}") from error
    except ValueError as error:
        shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
        raise click.BadParameter(f"{shown!r} is not JSON ({error}); a text is written '\"text\"'") from error


def parsed(text: str) -> Any:
    """The value that this JSON is, its integers exact. Raises ValueError."""
    if too_deep(text.encode()):
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
    return json.loads(text)


UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)")


def duration(text: str) -> float:
    """The type of an argument that is a duration, in seconds: ``30``, ``30s``, ``500ms``, ``5m``, ``2h``, ``1d``."""
    match = DURATION.fullmatch(text.strip())
    if match is None:
        raise click.BadParameter(f"{text!r} is not a duration such as 30s, 5m or 2h")
    return float(match[1]) * UNITS[match[2]]


# --- running ----------------------------------------------------------------------------------------------------------


def connected(database: Database, work: Callable[[Client], Awaitable[T]], *, migrate: bool = False) -> T:
    """Do the work with an open client. Only what begins something may make the schema, or bring it up to date."""

    async def within() -> T:
        async with database.client(migrate=migrate) as client:
            return await work(client)

    return asyncio.run(within())
