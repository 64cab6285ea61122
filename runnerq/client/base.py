"""What every part of the client stands on: its life, and its options."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from runnerq.client.core import Core, Given, Source
from runnerq.client.joined import JoinedCore
from runnerq.client.options import NO_OPTIONS, StartOptions, checked_options
from runnerq.client.starting import Family
from runnerq.errors import UsageError
from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import OnDuplicate, Parent, Priority
from runnerq.retry import RetryPolicy
from runnerq.serialization.chains import Codecs, chain_of
from runnerq.serialization.codec import Codec
from runnerq.telemetry.listeners import Listener, telemetry_of
from runnerq.workflow.commands import Signal
from runnerq.workflow.options import Limit

PAYLOAD_LIMIT = 1 << 20


class Base:
    """A core that clients may share, and options of one's own."""

    _family: Family | None = None

    def __init__(
        self,
        storage: Storage,
        *,
        codec: Codecs | None = None,
        payload_limit: int = PAYLOAD_LIMIT,
        listeners: Iterable[Listener] = (),
    ) -> None:
        chain, telemetry = chain_of(codec, payload_limit), telemetry_of(listeners)
        self._core = Core(Given(storage), storage, Codec(payload_limit), chain, telemetry)
        self._options = NO_OPTIONS

    @classmethod
    def of(
        cls,
        source: Source,
        *,
        codec: Codecs | None = None,
        payload_limit: int = PAYLOAD_LIMIT,
        listeners: Iterable[Listener] = (),
    ) -> Self:
        """A client whose storage is made when it is opened."""
        chain, telemetry = chain_of(codec, payload_limit), telemetry_of(listeners)
        return cls._sharing(Core(source, None, Codec(payload_limit), chain, telemetry), NO_OPTIONS, None)

    @classmethod
    def _sharing(cls, core: Core, options: StartOptions, family: Family | None) -> Self:
        client = cls.__new__(cls)
        client._core = core  # noqa: SLF001 - of this very class
        client._options = options  # noqa: SLF001 - as above
        client._family = family  # noqa: SLF001 - as above
        return client

    # --- life ---------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect. StorageUnavailable if the database does not answer, SchemaError if its schema does not fit."""
        self._check_own()
        await self._core.open()

    async def close(self) -> None:
        """Disconnect; whoever waits for a result gets a StorageUnavailable, and ``events()`` end."""
        self._check_own()
        await self._core.close()

    def _check_own(self) -> None:
        if self._family is not None:
            raise UsageError(
                "rq.current().client is the worker's own, open as long as that works: use it, and leave it open"
            )

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def storage(self) -> Storage:
        """The open storage, with the client's codecs around its payloads. UsageError while the client is not open."""
        return self._core.storage

    @property
    def place(self) -> str:
        """Where it leads, for people: host, port and database, or what storage it was given. Never a password."""
        return self._core.place

    @property
    def opened_on(self) -> asyncio.AbstractEventLoop | None:
        """The event loop on which it is open; None while it is not."""
        return self._core.opened_on

    @property
    def codec(self) -> Codec:
        """How values become what is stored, with this client's payload limit. A worker of this client uses it too."""
        return self._core.codec

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """Who hears of what this client does, and of what its workers do."""
        telemetry = self._core.telemetry
        return () if telemetry is None else telemetry.listeners

    # --- options ------------------------------------------------------------------------------------------------------

    def options(
        self,
        *,
        key: str | None = None,
        on_duplicate: OnDuplicate | None = None,
        priority: Priority | int | None = None,
        queue: str | None = None,
        delay: float | timedelta | None = None,
        at: datetime | None = None,
        timeout: float | timedelta | None = None,
        retry: RetryPolicy | int | None = None,
        metadata: Mapping[str, str] | None = None,
        limit: Limit | tuple[str, str] | str | None = None,
        connection: object | None = None,
        signals: Iterable[tuple[Signal[Any] | str, Any]] | None = None,
    ) -> Self:
        """This client with options for the next start: ``client.options(key="order-42").start(checkout, order)``.

        ``on_duplicate`` says what a taken key means: ``return_existing`` (the default), ``no_reuse``, ``allow_reuse``,
        ``allow_reuse_on_failure``. ``timeout`` is a workflow's deadline from its start, an activity's an attempt.
        ``limit="stripe"``, or ``limit=("customer", "7")`` for a scope per key, is what the run counts against: see
        ``client.limits``. ``signals=[(APPROVAL, value)]`` are sent to the run that is made or found, in the commit that
        makes it.

        ``connection=`` makes the start, or a ``send``, part of the transaction that is open on a connection of yours
        (asyncpg's, psycopg's, or SQLAlchemy's async ones, a session included): it is there when that commits, and its
        handle is RunNotFound before, and after a rollback.
        """
        given = checked_options(
            key=key,
            on_duplicate=on_duplicate,
            priority=priority,
            queue=queue,
            delay=delay,
            at=at,
            timeout=timeout,
            retry=retry,
            metadata=metadata,
            signals=signals,
            limit=limit,
        )
        core = self._core if connection is None else JoinedCore(self._core.outside, connection)
        return self._sharing(core, given.over(self._options), self._family)

    def within(self, parent: Parent) -> Self:
        """This client, whose starts become children of a run: what ``rq.current().client`` is.

        A child has the parent's priority and queue where none is given or declared, and a key made of the parent's,
        where none is given, and of how many were started before: an attempt made again finds what the first started.
        It goes on when the parent ends.
        """
        return self._sharing(self._core, self._options, Family(parent))
