"""The schema: what is there, what this code needs, and the way from one to the other.

Rules
- Migrations are numbered files, forward only; ``migration`` says which have been applied.
- They run in one transaction under an advisory lock, so that concurrent first starts are safe and none sees a half.
- Whoever waits for a table's lock makes all others wait behind it, who could go on beside its holder. So a migration
  waits for a second, lets them by, and tries again.
- A schema newer than the code is refused: this code does not know what it would break.
- Looking takes no lock and needs no rights but reading; only what is missing is created.
"""

from __future__ import annotations

import asyncio
import random
import time

import asyncpg

from runnerq.errors import SchemaError, StorageUnavailable
from runnerq.persistence.postgres.faults import told
from runnerq.persistence.postgres.lending import Connection
from runnerq.persistence.postgres.statements import checked_schema, migrations, with_schema

# Any number will do; it is this library's, and the schema's name goes beside it.
_LOCK = 0x72756E71

MIGRATION_TIMEOUT = 3600.0
"""Seconds for a statement of a migration, or for the wait until another process has migrated."""

LOCK_TIMEOUT = "1s"
LOCK_PATIENCE = 60.0
"""Seconds until a migration whose tables are held by somebody's transaction gives up."""

_LOCK_PAUSES = (0.2, 3.0)
_HELD = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)

_VERSION = "select coalesce(max(version), 0) from runnerq.migration"
_MIGRATION = (
    "create table if not exists runnerq.migration ("
    "version integer primary key, name text not null, applied_at timestamptz not null default now())"
)


async def migrate(connection: Connection, schema: str) -> None:
    """Bring the schema up to this code.

    Raises:
        SchemaError: it is newer than this code, or this role may not change it.
        StorageUnavailable: somebody's transaction holds its tables for longer than ``LOCK_PATIENCE``.
    """
    newest = max(migrations())
    present = await _present(connection, schema)
    if present == newest:
        return
    _refuse_newer(present, newest, schema)
    with told():
        try:
            await _apply_between_locks(connection, schema)
        except asyncpg.InsufficientPrivilegeError as error:
            raise SchemaError(
                f"this role may not create or change the tables of schema {schema!r}: {error}. Let a role that may "
                "create in this database run 'runnerq migrate' once, or grant it; then connect with migrate=False"
            ) from error
        except asyncpg.SyntaxOrAccessError as error:
            raise SchemaError(f"schema {schema!r} could not be migrated, and was left as it is: {error}") from error


async def check(connection: Connection, schema: str) -> None:
    """See that the schema is the one this code needs, and change nothing.

    Raises:
        SchemaError: it is missing, older or newer.
    """
    newest = max(migrations())
    present = await _present(connection, schema)
    _refuse_newer(present, newest, schema)
    if present < newest:
        what = "is missing" if present == 0 else f"is at version {present} and this code needs {newest}"
        raise SchemaError(
            f"schema {schema!r} {what}: run `runnerq migrate`, or connect once with migrate=True, "
            "with a role that may create tables"
        )


async def _present(connection: Connection, schema: str) -> int:
    """The version that is there; 0 where there is none."""
    with told():
        if await connection.fetchval("select to_regclass($1)", f'"{schema}".migration') is None:
            return 0
        return int(await connection.fetchval(with_schema(_VERSION, schema)))


def _refuse_newer(present: int, newest: int, schema: str) -> None:
    if present > newest:
        raise SchemaError(
            f"schema {schema!r} is at version {present} and this code knows none beyond {newest}: "
            "it was migrated by a newer runnerq; upgrade this one"
        )


async def _apply_between_locks(connection: Connection, schema: str) -> None:
    """Run what is missing in one transaction, again and again until nobody holds the tables it changes."""
    give_up = time.monotonic() + LOCK_PATIENCE
    while True:
        try:
            async with connection.transaction():
                await _apply(connection, schema)
        except _HELD as error:
            if time.monotonic() > give_up:
                raise StorageUnavailable(
                    f"schema {schema!r} could not be migrated within {LOCK_PATIENCE:.0f} s, and was left as it is: a "
                    f"transaction holds its tables ({error}). pg_stat_activity shows the oldest one's xact_start: end "
                    "it, or try again when it has ended"
                ) from error
            await asyncio.sleep(random.uniform(*_LOCK_PAUSES))  # noqa: S311 - parts those who wait, hides nothing
        else:
            return


async def _apply(connection: Connection, schema: str) -> None:
    """Run what is missing; the caller's transaction holds it together."""
    await connection.execute("select pg_advisory_xact_lock($1, hashtext($2))", _LOCK, schema)
    # From here on: for the other process that migrates one waits as long as it takes.
    await connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
    # Asked for only where it is missing: `if not exists` demands the right to create even then.
    if not await connection.fetchval("select exists(select from pg_namespace where nspname = $1)", schema):
        await connection.execute(f'create schema "{schema}"')
    # What another process did while this one waited for the lock is seen from here on.
    present = await _present(connection, schema)
    if present == 0:
        await connection.execute(with_schema(_MIGRATION, schema))
    for version, file in migrations().items():
        if version > present:
            await connection.execute(with_schema(file.read_text("utf-8"), schema))
            await connection.execute(
                with_schema("insert into runnerq.migration (version, name) values ($1, $2)", schema), version, file.stem
            )


def script(schema: str) -> str:
    """All of it as one transaction of plain SQL, for a person with the rights that the programs have not."""
    parts = [f'create schema if not exists "{checked_schema(schema)}"', _MIGRATION]
    for version, file in migrations().items():
        parts += [
            file.read_text("utf-8").strip().removesuffix(";"),
            f"insert into runnerq.migration (version, name) values ({version}, '{file.stem}')",  # noqa: S608 - our names
        ]
    return with_schema("".join(f"{part};\n\n" for part in ["begin", *parts, "commit"]), schema).rstrip()
