"""``connect``: a client for Postgres, given, named by the environment, or embedded in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from runnerq.client.client import PAYLOAD_LIMIT, Client
from runnerq.errors import ConfigurationError
from runnerq.persistence.protocol import Storage
from runnerq.serialization.chains import Codecs
from runnerq.telemetry.listeners import Listener

if TYPE_CHECKING:
    from runnerq.persistence.embedded import EmbeddedPostgres

DSN_VARIABLE = "RUNNERQ_DSN"
DIRECT_DSN_VARIABLE = "RUNNERQ_DIRECT_DSN"
POOLED_VARIABLE = "RUNNERQ_POOLED"
NO = frozenset({"", "0", "no", "false", "off"})


def connect(
    dsn: str | None = None,
    *,
    schema: str = "runnerq",
    migrate: bool = True,
    codec: Codecs | None = None,
    payload_limit: int = PAYLOAD_LIMIT,
    pooled: bool = False,
    direct_dsn: str | None = None,
    listeners: Iterable[Listener] = (),
) -> Client:
    """A client for Postgres; it connects when it is opened: ``async with connect(dsn) as client``.

    Without a DSN it is $RUNNERQ_DSN, else an embedded Postgres that the processes of this folder share; it keeps its
    data in ./.runnerq, as root under /var/lib/runnerq. An empty DSN is refused when it is opened.
    ``migrate=False`` only checks the schema. A payload over ``payload_limit`` bytes of JSON is refused.

    ``codec`` wraps every payload that is stored: ``Compression()``, ``Encryption(...)``, one of your own, or a list
    of them, the innermost first. Workers of this client have the same. The limit is of what is inside.

    ``pooled=True`` says that the DSN leads to a pooler in transaction mode, such as PgBouncer; most are found out.
    Wake-ups of other processes are then heard over ``direct_dsn``, the way to the server itself; without one everything
    moves by polling. With the DSN of $RUNNERQ_DSN, $RUNNERQ_POOLED=1 and $RUNNERQ_DIRECT_DSN say the same.

    ``listeners`` hear of what this client starts and sends, and of what its workers do: see ``runnerq.telemetry``.
    """
    source = _Postgres(dsn, schema, migrate, pooled, direct_dsn)
    return Client.of(source, codec=codec, payload_limit=payload_limit, listeners=listeners)


class Address(msgspec.Struct, frozen=True):
    """Where ``connect`` goes: a DSN, the way past a pooler to the server itself, and whether it is said that there is a
    pooler. Without a DSN it is the embedded Postgres of this folder."""

    dsn: str | None
    direct_dsn: str | None
    pooled: bool


def address_of(dsn: str | None, direct_dsn: str | None = None, *, pooled: bool = False) -> Address:
    """What was given, or else what the environment says; of a pooler it says something of its own DSN alone.

    Raises:
        ConfigurationError: the DSN is empty, as by a variable that was not filled in: who forgot to name a database
            does not want a new one.
    """
    if dsn:
        return Address(dsn, direct_dsn or None, pooled)
    named = os.environ.get(DSN_VARIABLE)
    if dsn is not None or named == "":
        raise ConfigurationError(
            f"{'the DSN' if dsn is not None else f'${DSN_VARIABLE}'} is empty: name the database, or leave it out "
            "for an embedded Postgres in this folder"
        )
    if named is None:
        return Address(None, direct_dsn or None, pooled)
    said = os.environ.get(POOLED_VARIABLE, "").lower() not in NO
    return Address(named, direct_dsn or os.environ.get(DIRECT_DSN_VARIABLE) or None, pooled or said)


def load() -> None:
    """Import what a client is opened with, which else is done as it is opened."""
    from runnerq.persistence import postgres  # noqa: F401, PLC0415 - as for ``open``


class _Postgres:
    """The storage of one client, made when it is opened."""

    def __init__(self, dsn: str | None, schema: str, migrate: bool, pooled: bool, direct_dsn: str | None) -> None:
        self._dsn = dsn
        self._schema = schema
        self._migrate = migrate
        self._pooled = pooled
        self._direct_dsn = direct_dsn
        self._server: EmbeddedPostgres | None = None
        self._storage: Storage | None = None

    @property
    def place(self) -> str:
        from runnerq.persistence.postgres.greeting import place_of  # noqa: PLC0415 - as below

        dsn = address_of(self._dsn).dsn
        return place_of(dsn) if dsn else "an embedded Postgres in this folder"

    async def open(self) -> Storage:
        # Imported here and not above: asyncpg is most of the time that `import runnerq` would take.
        from runnerq.persistence.postgres import PostgresStorage  # noqa: PLC0415

        address = address_of(self._dsn, self._direct_dsn, pooled=self._pooled)
        dsn = address.dsn or await self._embedded()
        try:
            storage = PostgresStorage(
                dsn,
                schema=self._schema,
                migrate=self._migrate,
                pooled=address.pooled,
                direct_dsn=address.direct_dsn,
            )
            await storage.open()
        except BaseException:
            await self._stop_server()
            raise
        self._storage = storage
        return storage

    async def close(self) -> None:
        storage, self._storage = self._storage, None
        try:
            if storage is not None:
                await storage.close()
        finally:
            await self._stop_server()

    async def _embedded(self) -> str:
        # The same, and the embedded server is an extra.
        from runnerq.persistence.embedded import EmbeddedPostgres  # noqa: PLC0415

        server = EmbeddedPostgres()
        dsn = await server.open()
        self._server = server
        return dsn

    async def _stop_server(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.close()
