"""How far a database's schema is, without a client: it may be older than this code, or not be there."""

from __future__ import annotations

from runnerq.cli.addresses import Located, located
from runnerq.cli.shared import Database
from runnerq.persistence.postgres.condition import condition_of
from runnerq.persistence.postgres.schema import Standing

PATIENCE = 10.0
"""Seconds that a server may take to answer."""


async def standing_of(database: Database) -> Standing:
    """How far it is. StorageUnavailable, ConfigurationError, SchemaError."""
    database.check_there()
    async with located(database) as address:
        return await standing_at(address, database.schema)


async def standing_at(address: Located, schema: str) -> Standing:
    """The same, at an address."""
    async with condition_of(address.dsn, schema, patience=PATIENCE) as condition:
        return await condition.schema()


def words_of(found: Standing) -> str:
    """The same for people, with what to do."""
    at = f"schema {found.schema!r} is at version {found.present}"
    if found.fits:
        return f"schema {found.schema!r} fits this version"
    if found.present > found.newest:
        return f"{at}, and this code knows none beyond {found.newest}: upgrade it"
    if not found.present:
        return f"schema {found.schema!r} is missing: run `runnerq migrate`"
    return f"{at}, and this code needs {found.newest}: run `runnerq migrate`"
