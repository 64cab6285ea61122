"""What the commands share: how they connect, how they answer, and what an error becomes.

Rules
- Results go to stdout and nothing else does; messages go to stderr.
- An error is one line that says what to do, and an exit code; never a stack trace.
- rich, asyncpg and the embedded server are imported where they are used, so that ``runnerq --help`` stays fast.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from runnerq.cli.codecs import CODEC_VARIABLE, codec_named
from runnerq.client.client import Client
from runnerq.client.connect import connect
from runnerq.errors import (
    ConfigurationError,
    EncodingError,
    KeyTaken,
    ResultTimeout,
    RunFinished,
    RunnerQError,
    RunNotFound,
    ScheduleNotFound,
    SchemaError,
    UsageError,
    WrongState,
)
from runnerq.ids import check_run_id

T = TypeVar("T")

SCHEMA_VARIABLE = "RUNNERQ_SCHEMA"
INTERRUPTED = 130

EXIT_CODES: tuple[tuple[type[RunnerQError], int], ...] = (
    (RunNotFound, 3),
    (ScheduleNotFound, 3),
    (RunFinished, 4),
    (KeyTaken, 4),
    (WrongState, 4),
    (SchemaError, 5),
    (ResultTimeout, 124),
    (ConfigurationError, 2),
    (UsageError, 2),
    (EncodingError, 2),
    (RunnerQError, 1),
)
"""The first class that fits decides."""


class Refused(RunnerQError):
    """An error of the command line itself, with its exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Commands(click.Group):
    """A group whose commands turn the library's errors into a line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RunnerQError as error:
            say(f"Error: {' '.join(str(error).split())}")
            ctx.exit(exit_code(error))
        except KeyboardInterrupt:
            say("interrupted")
            ctx.exit(INTERRUPTED)


def exit_code(error: RunnerQError) -> int:
    """What the process ends with."""
    if isinstance(error, Refused):
        return error.exit_code
    return next(code for kind, code in EXIT_CODES if isinstance(error, kind))


# --- options ----------------------------------------------------------------------------------------------------------


class Database(msgspec.Struct, frozen=True):
    """Where a command goes. Without a DSN: where ``connect`` goes by itself, by the environment or in this folder."""

    dsn: str | None
    schema: str
    direct_dsn: str | None = None
    pooled: bool = False
    codec: str | None = None

    def client(self, *, migrate: bool = True) -> Client:
        return connect(
            self.dsn,
            schema=self.schema,
            migrate=migrate,
            codec=None if self.codec is None else codec_named(self.codec),
            pooled=self.pooled,
            direct_dsn=self.direct_dsn or None,
        )


def takes_database(command: Callable[..., T]) -> Callable[..., T]:
    """Add ``--dsn``, ``--direct-dsn``, ``--pooled``, ``--schema``, ``--codec``; the command gets them as ``database``.

    The environment is left to ``connect``: what stands there of a pooler belongs to the DSN that stands there.
    """

    @click.option("--dsn", help="Postgres to use.  [env: RUNNERQ_DSN; default: embedded, in this folder]")
    @click.option("--direct-dsn", help="The same past a pooler, to hear wake-ups.  [env: RUNNERQ_DIRECT_DSN]")
    @click.option(
        "--pooled",
        is_flag=True,
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


output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    envvar="RUNNERQ_OUTPUT",
    default="table",
    show_default=True,
    help="What to print.",
)


def run_id(text: str) -> str:
    """The type of an argument that is a run's id: checked for its form."""
    try:
        return check_run_id(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def json_value(text: str) -> Any:
    """The type of an argument that is a JSON value, or ``@file`` with one in it."""
    try:
        return json.loads(Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text)
    except OSError as error:
        raise click.BadParameter(f"{text[1:]} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not JSON ({error}); a text is written '\"text\"'") from error


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


def say(message: str) -> None:
    """A message to the person, beside the result."""
    click.echo(message, err=True)


def say_changed(output: str, said: str, *, changed: bool) -> None:
    """What a verb has done: whether it changed anything, as JSON on stdout, or a message to the person."""
    if output == "json":
        print_json({"changed": changed})
    else:
        say(said)


def print_json(value: Any) -> None:
    """A value as JSON, indented, on stdout."""
    text = msgspec.json.encode(value)
    click.echo(msgspec.json.format(text, indent=2).decode())
