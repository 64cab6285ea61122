"""``SyncClient``: the client for Flask, Django, scripts and threads. Each verb is the client's own, waited for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast, overload

from runnerq.client.client import PAYLOAD_LIMIT, Client
from runnerq.client.connect import connect, load
from runnerq.client.reopening import Accept
from runnerq.client.sync.delegation import Blocking, blocking, told_as
from runnerq.client.sync.loops import Closed, LentLoop, Loop, OwnLoop
from runnerq.client.sync.namespaces import SyncAudit, SyncLimits, SyncQueues, SyncSchedules
from runnerq.client.sync.starts import SyncStarts
from runnerq.client.values import Event
from runnerq.errors import UsageError
from runnerq.persistence.records import RunFilter
from runnerq.serialization.chains import Codecs
from runnerq.telemetry.listeners import Listener
from runnerq.workflow.commands import Signal

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=Blocking[Client])


def _around(verb: Callable[Concatenate[Any, P], Client]) -> Callable[Concatenate[S, P], S]:
    """This verb, which answers with another client of the same core."""

    @functools.wraps(verb)
    def wrap(self: S, /, *args: P.args, **kwargs: P.kwargs) -> S:
        if kwargs.get("connection") is not None:
            raise UsageError(
                "a SyncClient cannot join a transaction: its calls are made on another thread's event loop. Start the "
                "run with a key= once the transaction is committed, or use the async client with an async connection"
            )
        return cast("S", SyncClient._sharing(verb(self._asked, *args, **kwargs), self._loop))  # noqa: SLF001 - ours

    return wrap


class SyncClient(SyncStarts):
    """The client for code without an event loop: ``with SyncClient(dsn) as client: client.start(checkout, order)``.

    It takes what ``connect`` takes, has the same verbs, and may be shared by threads. It connects at its first call, or
    when it is opened, in each process anew: a process made by fork uses its copy as if it had not been used before. It
    is closed by ``with``, by ``close``, and when the process exits.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        schema: str = "runnerq",
        migrate: bool = True,
        codec: Codecs | None = None,
        payload_limit: int = PAYLOAD_LIMIT,
        pooled: bool = False,
        direct_dsn: str | None = None,
        listeners: Iterable[Listener] = (),
    ) -> None:
        client = connect(
            dsn,
            schema=schema,
            migrate=migrate,
            codec=codec,
            payload_limit=payload_limit,
            pooled=pooled,
            direct_dsn=direct_dsn,
            listeners=listeners,
        )
        # Not by the first call, in the loop's thread: a process made by fork meanwhile would have a copy of the lock
        # of that import, which nobody gives back there.
        load()
        super().__init__(client, OwnLoop(client))

    @classmethod
    def of(cls, client: Client) -> Self:
        """The verbs of a client that is open on an event loop, for other threads of its process.

        For sync steps, ``SyncClient.of(rq.current().client)``, for a web framework's sync views beside its async ones,
        and for tests with an ``Environment``. Called on the client's own event loop it is a UsageError.
        """
        return cls._sharing(client, LentLoop(client))

    @classmethod
    def _sharing(cls, client: Client, loop: Loop) -> Self:
        shared = cls.__new__(cls)
        Blocking.__init__(shared, client, loop)
        return shared

    # --- life ---------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Connect now, and not at the first call; nothing if it is open. Raises StorageUnavailable, SchemaError."""
        self._loop.open()

    def close(self) -> None:
        """Disconnect. Calls under way in other threads get a StorageUnavailable, and ``events()`` end."""
        self._loop.close()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- verbs --------------------------------------------------------------------------------------------------------

    options = _around(Client.options)
    within = _around(Client.within)

    @overload
    def send(self, run_id: str, channel: Signal[T], value: T, *, dedup: str | None = None) -> bool: ...
    @overload
    def send(self, run_id: str, channel: str, value: Any, *, dedup: str | None = None) -> bool: ...
    @told_as(Client.send)
    def send(self, run_id: str, channel: Signal[Any] | str, value: Any, *, dedup: str | None = None) -> bool:
        return self._loop.call(lambda: self._asked.send(run_id, channel, value, dedup=dedup))

    signal = send

    @overload
    def retry(self, which: str, *, accept: Accept | None = None) -> bool: ...
    @overload
    def retry(self, which: RunFilter, *, accept: Accept | None = None) -> int: ...
    @told_as(Client.retry)
    def retry(self, which: str | RunFilter, *, accept: Accept | None = None) -> bool | int:
        return self._loop.call(lambda: self._asked.retry(which, accept=accept))

    cancel = blocking(Client.cancel)
    terminate = blocking(Client.terminate)
    redrive = blocking(Client.redrive)
    run_now = blocking(Client.run_now)
    reschedule = blocking(Client.reschedule)
    set_priority = blocking(Client.set_priority)
    delete = blocking(Client.delete)
    info = blocking(Client.info)
    state = blocking(Client.state)
    history = blocking(Client.history)
    export = blocking(Client.export)
    list = blocking(Client.list)
    count = blocking(Client.count)
    aggregate = blocking(Client.aggregate)
    failures = blocking(Client.failures)
    activity = blocking(Client.activity)
    activity_by_workflow = blocking(Client.activity_by_workflow)
    tree = blocking(Client.tree)
    stats = blocking(Client.stats)

    @told_as(Client.events)
    def events(self, after: str | None = None) -> Iterator[Event]:
        events = self._asked.events(after)

        async def upcoming() -> Event | None:
            return await anext(events, None)

        event = self._loop.call(upcoming)
        while event is not None:
            yield event
            try:
                event = self._loop.call(upcoming)
            except Closed:
                return

    @property
    def queues(self) -> SyncQueues:
        """The queues: ``list``, ``pause``, ``resume``."""
        return SyncQueues(self._asked.queues, self._loop)

    @property
    def schedules(self) -> SyncSchedules:
        """The schedules: ``put``, ``list``, ``get``, ``pause``, ``resume``, ``trigger``, ``backfill``, ``delete``."""
        return SyncSchedules(self._asked.schedules, self._loop)

    @property
    def limits(self) -> SyncLimits:
        """How many runs are held at once, and admitted in a span of time: ``set``, ``list``, ``get``, ``delete``."""
        return SyncLimits(self._asked.limits, self._loop)

    @property
    def audit(self) -> SyncAudit:
        """What people did through a console, an API or a command line: ``record``, ``list``."""
        return SyncAudit(self._asked.audit, self._loop)
