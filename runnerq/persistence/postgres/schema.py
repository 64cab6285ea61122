"""The schema: what is there, what this code needs, and the way from one to the other.

Rules
- Migrations are numbered files, forward only; ``migration`` says which have been applied.
- They run in one transaction under an advisory lock, so that concurrent first starts are safe and none sees a half.
- Indexes of tables that may be large are migrations of their own, built ``concurrently``: outside of a transaction, so
  that nobody waits for them. Who builds is the only one to; an index whose building was broken off is dropped and built
  anew. In a schema that nobody has used yet they are made in the one transaction, like all else.
- Whoever waits for a table's lock makes all others wait behind it, who could go on beside its holder. So a migration
  waits for a second, lets them by, and tries again.
- An index that another one stands in for is dropped in the migration that builds that, likewise beside others.
- A schema newer than the code is refused: this code does not know what it would break.
- Looking takes no lock and needs no rights but reading; only what is missing is created.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg
import msgspec

from runnerq.errors import SchemaError, StorageUnavailable
from runnerq.persistence.postgres.faults import translating
from runnerq.persistence.postgres.lending import Connection, Lent
from runnerq.persistence.postgres.statements import checked_schema, migrations, with_schema

# Any number will do; it is this library's, and the schema's name goes beside it.
_LOCK = 0x72756E71
_BUILDING = _LOCK + 1
"""Of who builds indexes. Others look for it and do not wait: who waits has a snapshot, which a build waits for."""

MIGRATION_TIMEOUT = 3600.0
"""Seconds for a statement of a migration, or for the wait until another process has migrated."""

LOCK_TIMEOUT = "1s"
LOCK_PATIENCE = 60.0
"""Seconds until a migration whose tables are held by somebody's transaction gives up."""

_LOCK_PAUSES = (0.2, 3.0)
_HELD = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError, asyncpg.QueryCanceledError)

_IS_THERE = """
    select from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = $1 and c.relname = 'migration' and c.relkind = 'r'
    """
_VERSION = "select coalesce(max(version), 0) as version from runnerq.migration"
_MIGRATION = (
    "create table if not exists runnerq.migration ("
    "version integer primary key, name text not null, applied_at timestamptz not null default now())"
)


_APPLIED = "insert into runnerq.migration (version, name) values ($1, $2)"
_BUILD = re.compile(r"^create index concurrently if not exists (\w+) on [^;]+;", re.MULTILINE)
_DROP = re.compile(r"^drop index concurrently if exists [^;]+;", re.MULTILINE)
_BROKEN = "select exists(select from pg_index where indexrelid = to_regclass($1) and not indisvalid)"


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How far a schema is: at version ``present`` (0: it is not there), where this code's is ``newest``. ``missing``
    are the migrations in between, by name."""

    schema: str
    present: int
    newest: int
    missing: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether it is the one that this code needs."""
        return self.present == self.newest


async def migrate(connection: Connection, schema: str, another: Callable[[], Awaitable[Connection]]) -> None:
    """Bring the schema up to this code. ``another`` makes a connection to hold a lock with, where indexes are built.

    Raises:
        SchemaError: it is newer than this code, or this role may not change it.
        StorageUnavailable: somebody's transaction holds its tables for longer than ``LOCK_PATIENCE``.
    """
    newest = max(migrations())
    present = await _present(connection, schema)
    if present == newest:
        return
    _refuse_newer(present, newest, schema)
    with translating():
        try:
            while await _present(connection, schema) < newest:
                await _between_locks(lambda: _apply_together(connection, schema), schema)
                await _between_locks(lambda: _build_next(connection, schema, another), schema)
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


async def standing(connection: Lent, schema: str) -> Standing:
    """How far the schema is, whatever is between it and this code. SchemaError where this role may not look."""
    found = await _present(connection, schema)
    missing = tuple(file.stem for version, file in migrations().items() if version > found)
    return Standing(schema=schema, present=found, newest=max(migrations()), missing=missing)


async def _present(connection: Lent, schema: str) -> int:
    """The version that is there; 0 where there is none."""
    with translating():
        # Asked of the catalog: to_regclass is refused to a role that may not use the schema.
        if not await connection.fetch(_IS_THERE, schema):
            return 0
        [row] = await connection.fetch(with_schema(_VERSION, schema))
        return int(row["version"])


def _refuse_newer(present: int, newest: int, schema: str) -> None:
    if present > newest:
        raise SchemaError(
            f"schema {schema!r} is at version {present} and this code knows none beyond {newest}: "
            "it was migrated by a newer runnerq; upgrade this one"
        )


async def _between_locks(step: Callable[[], Awaitable[None]], schema: str) -> None:
    """Do the step, again and again until nobody holds the tables it changes."""
    give_up = time.monotonic() + LOCK_PATIENCE
    while True:
        try:
            await step()
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


async def _apply_together(connection: Connection, schema: str) -> None:
    """Run what is missing in one transaction, up to where indexes are to be built beside others."""
    async with connection.transaction():
        await _apply(connection, schema)


async def _apply(connection: Connection, schema: str) -> None:
    # Whatever is set for the database: what others did while this one waited must be seen.
    await connection.execute("set transaction isolation level read committed")
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
        if version <= present:
            continue
        text = file.read_text("utf-8")
        if present and _BUILD.search(text):
            return
        await connection.execute(with_schema(_at_once(text), schema))
        await connection.execute(with_schema(_APPLIED, schema), version, file.stem)


async def _build_next(connection: Connection, schema: str, another: Callable[[], Awaitable[Connection]]) -> None:
    """Build the indexes of the next migration, if it is one of indexes; its last statement says that they are there."""
    if not _builds_of(await _present(connection, schema) + 1):
        return
    async with _building(schema, another):
        version = await _present(connection, schema) + 1
        builds = _builds_of(version)
        if not builds:
            return
        for build in builds:
            index = f'"{schema}".{build[1]}'
            if await connection.fetchval(_BROKEN, index):
                await connection.execute(f"drop index concurrently {index}")
            await connection.execute(with_schema(build[0], schema))
        for drop in _drops_of(version):
            await connection.execute(with_schema(drop, schema))
        await connection.execute(with_schema(_APPLIED, schema), version, migrations()[version].stem)


def _builds_of(version: int) -> list[re.Match[str]]:
    """The indexes that a migration builds beside others; none, if it is of another kind or there is none."""
    file = migrations().get(version)
    return [] if file is None else list(_BUILD.finditer(file.read_text("utf-8")))


def _drops_of(version: int) -> list[str]:
    """The statements by which a migration drops indexes, once those that stand in for them are there."""
    return _DROP.findall(migrations()[version].read_text("utf-8"))


@asynccontextmanager
async def _building(schema: str, another: Callable[[], Awaitable[Connection]]) -> AsyncIterator[None]:
    """Be the only one who builds indexes of this schema, by a transaction that is open as long: sessions are not ours
    through a pooler."""
    guard = await another()
    try:
        while True:
            async with guard.transaction():
                if await guard.fetchval("select pg_try_advisory_xact_lock($1, hashtext($2))", _BUILDING, schema):
                    # Nobody but us is to end it; and after this it has no snapshot, which the build would wait for.
                    await guard.execute("set local idle_in_transaction_session_timeout = 0")
                    yield
                    return
            # Out of the transaction, for the same reason.
            await asyncio.sleep(random.uniform(*_LOCK_PAUSES))  # noqa: S311 - parts those who wait, hides nothing
    finally:
        guard.terminate()


def _at_once(text: str) -> str:
    """The migration for tables that nobody has used yet."""
    text = text.replace("create index concurrently if not exists", "create index")
    return text.replace("drop index concurrently if exists", "drop index")


def script(schema: str, since: int = 0) -> str:
    """What a schema of version ``since`` is missing (0: all of it) as plain SQL, for a person with the rights that the
    programs have not. It is one transaction up to where indexes are to be built beside others, which may be run again
    after it was broken off."""
    schema = checked_schema(schema)
    parts: list[str] = []
    together = [f'create schema if not exists "{schema}"', _MIGRATION] if since == 0 else []
    for version, file in migrations().items():
        if version <= since:
            continue
        text = file.read_text("utf-8").strip()
        applied = f"insert into runnerq.migration (version, name) values ({version}, '{file.stem}')"  # noqa: S608 - our names
        if since and _BUILD.search(text):
            parts += [*_together(together, schema), *_beside(text, schema), applied]
            together = []
        else:
            together += [_at_once(text).removesuffix(";"), applied]
    parts += _together(together, schema)
    return with_schema("".join(f"{part};\n\n" for part in parts), schema).rstrip()


def _together(parts: list[str], schema: str) -> list[str]:
    """These as one transaction."""
    lock = f"select pg_advisory_xact_lock({_LOCK}, hashtext('{schema}'))"
    return ["begin", lock, f"set local lock_timeout = '{LOCK_TIMEOUT}'", *parts, "commit"] if parts else []


def _beside(text: str, schema: str) -> list[str]:
    """The building of indexes, each statement by itself, in one session."""
    key = f"{_BUILDING}, hashtext('{schema}')"
    refused = "raise exception 'somebody builds these indexes already, try again when they are there'"
    parts = [f"do $$ begin if not pg_try_advisory_lock({key}) then {refused}; end if; end $$"]
    for build in _BUILD.finditer(text):
        index = f'"{schema}".{build[1]}'
        broken = _BROKEN.replace("$1", f"'{index}'")
        parts += [
            f"do $$ begin if ({broken}) then drop index {index}; end if; end $$",
            build[0].removesuffix(";"),
        ]
    parts += [drop.removesuffix(";") for drop in _DROP.findall(text)]
    return [*parts, f"select pg_advisory_unlock({key})"]
