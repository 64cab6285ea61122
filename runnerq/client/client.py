"""The client asks: it starts runs, sends to them, and looks at them. What runs them is a Worker."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, overload

import msgspec

from runnerq.client.core import Core, Given, Source
from runnerq.client.export import export
from runnerq.client.forking import fork_of
from runnerq.client.handle import Handle
from runnerq.client.history import Entry
from runnerq.client.info import Page, RunInfo, info_of
from runnerq.client.options import NO_OPTIONS, StartOptions, checked_options
from runnerq.client.reopening import Accept, check_accept, retry_all, retry_one
from runnerq.client.starting import Target, new_run, target_named, target_of, template
from runnerq.errors import ConfigurationError, KeyTaken
from runnerq.ids import check_run_id
from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import NewRun, OnDuplicate, Priority, RunFilter, Status
from runnerq.retry import RetryPolicy
from runnerq.serialization.codec import Codec
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.given import checked_key

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

PAYLOAD_LIMIT = 1 << 20
BULK = 1000
"""Runs that ``start_many`` creates in one commit."""
MAX_PAGE = 1000


class Client:
    """Starts runs and looks at them. ``Client(storage)`` is for a storage that you made; else use ``connect``."""

    def __init__(self, storage: Storage, *, payload_limit: int = PAYLOAD_LIMIT) -> None:
        self._core = Core(Given(storage), storage, Codec(payload_limit))
        self._options = NO_OPTIONS

    @classmethod
    def of(cls, source: Source, *, payload_limit: int = PAYLOAD_LIMIT) -> Self:
        """A client whose storage is made when it is opened."""
        return cls._sharing(Core(source, None, Codec(payload_limit)), NO_OPTIONS)

    @classmethod
    def _sharing(cls, core: Core, options: StartOptions) -> Self:
        client = cls.__new__(cls)
        client._core = core  # noqa: SLF001 - of this very class
        client._options = options  # noqa: SLF001 - as above
        return client

    # --- life ---------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect. StorageUnavailable if the database does not answer, SchemaError if its schema does not fit."""
        await self._core.open()

    async def close(self) -> None:
        """Disconnect; whoever waits for a result gets a StorageUnavailable."""
        await self._core.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def storage(self) -> Storage:
        """The open storage. UsageError while the client is not open."""
        return self._core.storage

    @property
    def codec(self) -> Codec:
        """How values become what is stored, with this client's payload limit. A worker of this client uses it too."""
        return self._core.codec

    # --- starting -----------------------------------------------------------------------------------------------------

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
    ) -> Self:
        """This client with options for the next start: ``client.options(key="order-42").start(checkout, order)``.

        ``on_duplicate`` says what a taken key means: ``return_existing`` (the default), ``no_reuse``, ``allow_reuse``,
        ``allow_reuse_on_failure``. ``timeout`` is a workflow's deadline from its start, an activity's an attempt.
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
        )
        return self._sharing(self._core, given.over(self._options))

    # A workflow first: its generator is what tells it from an activity. Async before sync: else R is a coroutine.
    @overload
    async def start(
        self, target: Callable[Concatenate[Context, P], Flow[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Handle[R]: ...
    @overload
    async def start(
        self, target: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Handle[R]: ...
    @overload
    async def start(self, target: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...
    @overload
    async def start(self, target: str, /, *args: Any, **kwargs: Any) -> Handle[Any]: ...
    async def start(self, target: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> Handle[Any]:
        """Start a workflow or an activity; by name, the highest version that is registered.

        Raises EncodingError or TypeError for arguments that cannot work, KeyTaken if ``on_duplicate`` refuses the key.
        """
        found = await self._target(target)
        run = new_run(template(found, self._options), self._core.codec, args, kwargs, self._options.key)
        [handle] = await self._started(found, [run])
        return handle

    @overload
    async def start_many(
        self,
        target: Callable[Concatenate[Context, P], Flow[R]],
        args: Iterable[tuple[Any, ...]],
        keys: Iterable[str] | None = None,
    ) -> builtins.list[Handle[R]]: ...
    @overload
    async def start_many(
        self,
        target: Callable[P, Coroutine[Any, Any, R]],
        args: Iterable[tuple[Any, ...]],
        keys: Iterable[str] | None = None,
    ) -> builtins.list[Handle[R]]: ...
    @overload
    async def start_many(
        self, target: Callable[P, R], args: Iterable[tuple[Any, ...]], keys: Iterable[str] | None = None
    ) -> builtins.list[Handle[R]]: ...
    @overload
    async def start_many(
        self, target: str, args: Iterable[tuple[Any, ...]], keys: Iterable[str] | None = None
    ) -> builtins.list[Handle[Any]]: ...
    async def start_many(
        self,
        target: Callable[..., Any] | str,
        args: Iterable[tuple[Any, ...]],
        keys: Iterable[str] | None = None,
    ) -> builtins.list[Handle[Any]]:
        """Start one run for each tuple of arguments, in order, one commit a thousand; ``keys`` has one key for each.

        All arguments are encoded before the first run is created. KeyTaken names the first key that is refused; the
        runs of the same and earlier commits are started all the same.
        """
        if self._options.key is not None:
            raise ConfigurationError("options(key=) names one run: give start_many(keys=[...]), one for each")
        found = await self._target(target)
        of, codec = template(found, self._options), self._core.codec
        every = [tuple(one) for one in args]
        named: Sequence[str | None] = [None] * len(every) if keys is None else list(keys)
        if len(named) != len(every):
            raise ConfigurationError(f"start_many got {len(every)} tuples of arguments and {len(named)} keys")
        runs = [new_run(of, codec, one, {}, key) for one, key in zip(every, named, strict=True)]
        handles: list[Handle[Any]] = []
        for first in range(0, len(runs), BULK):
            handles += await self._started(found, runs[first : first + BULK])
        return handles

    async def _target(self, target: Callable[..., Any] | str) -> Target:
        if isinstance(target, str):
            return await target_named(target, self._core.storage)
        return target_of(target)

    async def _started(self, target: Target, runs: Sequence[NewRun]) -> builtins.list[Handle[Any]]:
        replies = await self._core.start(runs)
        for run, reply in zip(runs, replies, strict=True):
            if reply.refused:
                raise KeyTaken(run.name, run.key or "", reply.id)
        return [Handle(self._core, reply.id, target.returns, created=reply.created, known=True) for reply in replies]

    # --- one run ------------------------------------------------------------------------------------------------------

    @overload
    def handle(self, run_id: str) -> Handle[Any]: ...
    @overload
    def handle(self, run_id: str, returns: type[R]) -> Handle[R]: ...
    def handle(self, run_id: str, returns: Any = Any) -> Handle[Any]:
        """A handle to a run by its id. It touches nothing; without a type, ``result`` is JSON builtins."""
        return Handle(self._core, check_run_id(run_id), returns)

    @overload
    def handle_by_key(self, target: Callable[Concatenate[Context, P], Flow[R]], key: str) -> Handle[R]: ...
    @overload
    def handle_by_key(self, target: Callable[P, Coroutine[Any, Any, R]], key: str) -> Handle[R]: ...
    @overload
    def handle_by_key(self, target: Callable[P, R], key: str) -> Handle[R]: ...
    @overload
    def handle_by_key(self, target: str, key: str) -> Handle[Any]: ...
    def handle_by_key(self, target: Callable[..., Any] | str, key: str) -> Handle[Any]:
        """A handle to the run that holds this key. It touches nothing; the run is looked up by the first verb."""
        if isinstance(target, str):
            return Handle(self._core, None, Any, key=(target, checked_key(key)))
        found = target_of(target)
        return Handle(self._core, None, found.returns, key=(found.name, checked_key(key)))

    @overload
    async def send(self, run_id: str, channel: Signal[T], value: T, *, dedup: str | None = None) -> None: ...
    @overload
    async def send(self, run_id: str, channel: str, value: Any, *, dedup: str | None = None) -> None: ...
    async def send(self, run_id: str, channel: Signal[Any] | str, value: Any, *, dedup: str | None = None) -> None:
        """Send a signal to a run: before it starts, while it runs, while it waits. It is kept until a wait takes it.

        Raises RunNotFound, or RunFinished if the run has ended. One ``dedup`` id counts once a run and channel.
        """
        await self._core.send(check_run_id(run_id), channel, value, dedup)

    signal = send

    async def cancel(self, run_id: str, reason: str | None = None) -> bool:
        """Ask a run to cancel; whether that changed anything (a finished one is not changed). Raises RunNotFound."""
        return await self._core.cancel(check_run_id(run_id), reason)

    async def terminate(self, run_id: str) -> bool:
        """End a run at once as cancelled, with the reason ``terminated``; whether that changed anything.

        No code of it runs any more, no undo either; its steps are cancelled, and its children as after any end. Raises
        RunNotFound.
        """
        return await self._core.terminate(check_run_id(run_id))

    @overload
    async def retry(self, which: str, *, accept: Accept | None = None) -> bool: ...
    @overload
    async def retry(self, which: RunFilter, *, accept: Accept | None = None) -> int: ...
    async def retry(self, which: str | RunFilter, *, accept: Accept | None = None) -> bool | int:
        """Let a failed, dead-lettered or blocked run go on, from the entry that failed; or all that fit, and how many.

        The failed entry and what came after it may run again, with the same idempotency keys; a failed child of it is
        retried with it. ``accept="arguments"`` lets a run that is blocked by changed arguments alone go on. False if
        somebody else was faster. Raises RunNotFound, and WrongState for any other run, and once its undos, or those of
        a child that would have to be retried with it, have begun.
        """
        check_accept(accept)
        if isinstance(which, RunFilter):
            return await retry_all(self._core, _checked(which), accept)
        return await retry_one(self._core, check_run_id(which), accept)

    async def fork(self, run_id: str, *, from_entry: str) -> Handle[Any]:
        """Start a new run with a copy of this workflow run's journal as far as the answer of an entry, and its seed.

        That entry and what follows are done anew, with new idempotency keys; children that had not answered by then are
        started anew. ``from_entry`` is an entry's ``position``. Raises RunNotFound, ValueError for an unknown position,
        and WrongState for an activity and once the run's undos have begun: what it did is undone, so start it anew.
        """
        forked = await fork_of(await self._core.record(check_run_id(run_id)), from_entry, self._core)
        return Handle(self._core, forked, Any, created=True, known=True)

    async def info(self, run_id: str) -> RunInfo:
        """The run as it stands."""
        return await self._core.info(check_run_id(run_id))

    async def state(self, run_id: str) -> dict[str, Any]:
        """What the run has published, as JSON builtins; empty if nothing."""
        return await self._core.state(check_run_id(run_id))

    async def history(self, run_id: str, generation: int | None = None) -> builtins.list[Entry]:
        """The entries of the run's journal, oldest first: of the present generation, or of a given one."""
        return await self._core.history(check_run_id(run_id), generation)

    async def export(self, run_id: str) -> dict[str, Any]:
        """The run as JSON builtins: all that is on record of it. ``runnerq.testing.check_replay`` follows it."""
        return await export(self._core.storage, check_run_id(run_id))

    # --- many runs ----------------------------------------------------------------------------------------------------

    async def list(self, where: RunFilter | None = None, limit: int = 50, cursor: str | None = None) -> Page[RunInfo]:
        """The runs that fit, newest first; ``cursor`` is the ``next`` of the page before."""
        if not 1 <= limit <= MAX_PAGE:
            raise ValueError(f"limit={limit!r}: a page has 1 to {MAX_PAGE} runs")
        before = None if cursor is None else check_run_id(cursor)
        records = await self._core.storage.list_runs(_checked(where or RunFilter()), limit + 1, before)
        more = len(records) > limit
        shown = records[:limit]
        return Page([info_of(record) for record in shown], shown[-1].id if more else None)


def _checked(where: RunFilter) -> RunFilter:
    """The filter with its statuses and ids checked, statuses as a tuple."""
    statuses = where.status
    if statuses is not None:
        several = (statuses,) if isinstance(statuses, str) else statuses
        where = msgspec.structs.replace(where, status=tuple(Status(status) for status in several))
    for related in (where.parent, where.root):
        if related is not None:
            check_run_id(related)
    return where
