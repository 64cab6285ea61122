"""The database of a command by its address, for what has to look at it before its tables can be used."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from runnerq.cli.shared import Database
from runnerq.client.connect import address_of
from runnerq.persistence.embedded import EmbeddedPostgres


class Located(msgspec.Struct, frozen=True):
    """An address that has a DSN: a given one, or that of an embedded server which runs."""

    dsn: str
    direct_dsn: str | None
    pooled: bool

    def database(self, given: Database) -> Database:
        """The same for a command: so that an embedded server is opened once."""
        return msgspec.structs.replace(given, dsn=self.dsn, direct_dsn=self.direct_dsn, pooled=self.pooled)


@asynccontextmanager
async def located(given: Database) -> AsyncIterator[Located]:
    """Where the database is. An embedded one runs meanwhile, and is made where there is none yet."""
    address = address_of(given.dsn, given.direct_dsn, pooled=given.pooled)
    if address.dsn is not None:
        yield Located(address.dsn, address.direct_dsn, address.pooled)
        return
    async with EmbeddedPostgres() as dsn:
        yield Located(dsn, address.direct_dsn, address.pooled)
