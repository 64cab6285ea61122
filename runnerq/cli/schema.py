"""``migrate`` and ``version``."""

from __future__ import annotations

import asyncio
import importlib.metadata
import platform

import click

from runnerq.cli.shared import Database, say, takes_database


@click.command()
@click.option("--status", "only_status", is_flag=True, help="Only say whether the schema fits (exit code 5 if not).")
@click.option("--sql", is_flag=True, help="Only print it as SQL, for a person with the rights to run it.")
@click.option(
    "--from",
    "since",
    type=click.IntRange(0),
    default=0,
    metavar="VERSION",
    help="With --sql: only what a schema of this version is missing; run it with psql -v ON_ERROR_STOP=1.",
)
@takes_database
def migrate(*, only_status: bool, sql: bool, since: int, database: Database) -> None:
    """Create the schema, or bring it up to this version. Safe while workers run, and when two do it at once."""
    if sql:
        # The Postgres backend brings asyncpg.
        from runnerq.persistence.postgres.schema import script  # noqa: PLC0415

        click.echo(script(database.schema, since))
    else:
        asyncio.run(_open(database, migrates=not only_status))
        say(f"schema {database.schema!r} fits this version")


async def _open(database: Database, *, migrates: bool) -> None:
    async with database.client(migrate=migrates):
        pass


@click.command()
def version() -> None:
    """Print the versions of runnerq and Python."""
    click.echo(f"runnerq {importlib.metadata.version('runnerq')}, Python {platform.python_version()}")
