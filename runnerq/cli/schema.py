"""``migrate`` and ``version``."""

from __future__ import annotations

import asyncio
import platform

import click
import msgspec

from runnerq.cli.output import Output, output_option, show_done, show_one
from runnerq.cli.shared import Database, takes_database
from runnerq.runtime import builds

NOT_FITTING = 5


class Migrated(msgspec.Struct, frozen=True, kw_only=True):
    """What ``migrate`` has done: ``applied`` are the migrations that brought the schema to version ``now``, by name."""

    schema: str
    was: int
    now: int
    applied: tuple[str, ...]


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """``runnerq`` is None where it is not installed, but a folder that is looked into; ``schema`` is the version of the
    tables that it needs."""

    runnerq: str | None
    python: str
    schema: int


@click.command()
@click.option("--status", is_flag=True, help="Only say whether the schema fits (exit code 5 if not).")
@click.option("--dry-run", is_flag=True, help="Only say which migrations would be applied.")
@click.option(
    "--sql",
    is_flag=True,
    help="Only print it as SQL, for a person with the rights to run it; with --dry-run what this database is missing.",
)
@click.option(
    "--from-version",
    "--from",
    type=click.IntRange(0),
    metavar="VERSION",
    help="With --sql: only what a schema of this version is missing; run it with psql -v ON_ERROR_STOP=1.",
)
@output_option
@takes_database
def migrate(
    *, status: bool, dry_run: bool, sql: bool, from_version: int | None, output: Output, database: Database
) -> None:
    """Create the schema, or bring it up to this version. Safe while workers run, and when two do it at once."""
    if status and (dry_run or sql):
        raise click.UsageError("--status only says whether the schema fits: leave out --dry-run and --sql")
    if from_version is not None and (dry_run or not sql):
        raise click.UsageError("--from goes with --sql alone: --dry-run looks at the database")
    if sql and not dry_run:
        # The Postgres backend brings asyncpg.
        from runnerq.persistence.postgres.schema import script  # noqa: PLC0415

        click.echo(script(database.schema, from_version or 0))
    elif status:
        _say_status(database, output)
    elif dry_run:
        _say_missing(database, output, sql=sql)
    else:
        done = asyncio.run(_migrated(database))
        how = f"applied {', '.join(done.applied)}" if done.applied else "there was nothing to do"
        show_done(output, done, f"schema {done.schema!r} fits this version: {how}")


def _say_status(database: Database, output: Output) -> None:
    from runnerq.cli.standing import standing_of, words_of  # noqa: PLC0415 - asyncpg

    found = asyncio.run(standing_of(database))
    show_done(output, found, words_of(found))
    click.get_current_context().exit(0 if found.fits else NOT_FITTING)


def _say_missing(database: Database, output: Output, *, sql: bool) -> None:
    from runnerq.cli.standing import standing_of, words_of  # noqa: PLC0415 - asyncpg
    from runnerq.persistence.postgres.schema import script  # noqa: PLC0415 - as above

    found = asyncio.run(standing_of(database))
    if sql:
        click.echo(script(found.schema, found.present) if found.missing else "-- nothing is missing")
    else:
        would = f"`runnerq migrate` would apply {', '.join(found.missing)}" if found.missing else words_of(found)
        show_done(output, found, would)
    if found.present > found.newest:
        click.get_current_context().exit(NOT_FITTING)


async def _migrated(database: Database) -> Migrated:
    from runnerq.cli.addresses import located  # noqa: PLC0415 - the embedded server
    from runnerq.cli.standing import standing_at  # noqa: PLC0415 - asyncpg

    async with located(database) as address:
        before = await standing_at(address, database.schema)
        async with address.database(database).client(migrate=True):
            return Migrated(schema=before.schema, was=before.present, now=before.newest, applied=before.missing)


@click.command()
@output_option
def version(output: Output) -> None:
    """Print the versions of runnerq, its schema and Python."""
    from runnerq.persistence.postgres.statements import migrations  # noqa: PLC0415 - asyncpg

    found = Versions(runnerq=builds.version(), python=platform.python_version(), schema=max(migrations()))
    told = f"runnerq {found.runnerq or 'of a folder'} (schema {found.schema}), Python {found.python}"
    show_one(output, found, name=None, table=lambda: told)
