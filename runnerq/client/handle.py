"""A handle: one run seen from outside. Making one touches nothing; its verbs ask the storage."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Generic, TypeVar, cast, overload

from runnerq.client.core import Core
from runnerq.client.history import Entry
from runnerq.client.info import RunInfo
from runnerq.errors import RunNotFound, UsageError
from runnerq.persistence.records import Status
from runnerq.retry import seconds
from runnerq.workflow.commands import Signal

R = TypeVar("R")
T = TypeVar("T")


class Handle(Generic[R]):
    """One run, seen from outside. ``created`` says whether the start that gave this handle made the run."""

    __slots__ = ("_core", "_id", "_key", "_known", "_returns", "created")

    def __init__(
        self,
        core: Core,
        run_id: str | None,
        returns: Any,
        *,
        key: tuple[str, str] = ("", ""),
        created: bool = False,
        known: bool = False,
    ) -> None:
        self._core = core
        self._id = run_id
        # The name and the idempotency key by which the run is looked up, where there is no id.
        self._key = key
        # Whether the run is certain to exist, and need not be looked up before it is waited for.
        self._known = known
        self._returns = returns
        self.created = created

    @property
    def id(self) -> str:
        """The run's id. UsageError if the handle is by key and no verb has looked the run up yet."""
        if self._id is None:
            raise UsageError(f"the run of {self!r} is not looked up yet: use one of the handle's verbs first")
        return self._id

    async def _find(self) -> str:
        """The run's id, looked up by its key the first time."""
        if self._id is None:
            self._id = await self._core.storage.by_key(*self._key)
            self._known = self._id is not None
        if self._id is None:
            raise RunNotFound(None, key=self._key[1], workflow=self._key[0])
        return self._id

    async def result(self, timeout: float | timedelta | None = None) -> R:
        """The run's result, once it has ended, decoded into the workflow's return type.

        It waits on while the run is blocked. Raises RunFailed (``__cause__`` is the recorded error, rebuilt),
        RunCancelled, RunNotFound, or ResultTimeout (the run goes on) after ``timeout``; a timeout of 0 looks once.
        """
        run_id = await self._find()
        answer = await self._core.result(run_id, self._returns, _within(timeout), self._known)
        self._known = True
        return cast("R", answer)

    async def status(self) -> Status:
        """What the run is doing."""
        return (await self.info()).status

    async def state(self) -> dict[str, Any]:
        """What the run has published, as JSON builtins; empty if nothing."""
        return await self._core.state(await self._find())

    async def info(self) -> RunInfo:
        """The run as it stands."""
        return await self._core.info(await self._find())

    async def history(self, generation: int | None = None) -> list[Entry]:
        """The entries of the run's journal, oldest first: of the present generation, or of a given one."""
        return await self._core.history(await self._find(), generation)

    @overload
    async def send(self, channel: Signal[T], value: T, *, dedup: str | None = None) -> bool: ...
    @overload
    async def send(self, channel: str, value: Any, *, dedup: str | None = None) -> bool: ...
    async def send(self, channel: Signal[Any] | str, value: Any, *, dedup: str | None = None) -> bool:
        """Send a signal; False if its ``dedup`` id, which counts once a run and channel, has counted before.

        Raises RunNotFound or RunFinished.
        """
        return await self._core.send(await self._find(), channel, value, dedup)

    async def cancel(self, reason: str | None = None) -> bool:
        """Ask the run to cancel; whether that changed anything (a finished run is not changed)."""
        return await self._core.cancel(await self._find(), reason)

    async def reached(self, *statuses: Status | str, timeout: float | timedelta | None = None) -> Status:
        """Wait until the run's status is one of these, and answer it. A status that comes and goes may be missed.

        Raises WrongState if the run ends as something else, ResultTimeout after ``timeout``.
        """
        if not statuses:
            raise ValueError("reached() needs a status to wait for, such as Status.WAITING")
        wanted = frozenset(Status(status) for status in statuses)
        return await self._core.reached(await self._find(), wanted, _within(timeout))

    async def wait(
        self, holds: Callable[[dict[str, Any]], object], *, timeout: float | timedelta | None = None
    ) -> dict[str, Any]:
        """Wait until ``holds(state)`` is true of the published state, and answer that state.

        Raises WrongState if the run ends before, ResultTimeout after ``timeout``.
        """
        return await self._core.wait(await self._find(), holds, _within(timeout))

    def __repr__(self) -> str:
        return f"Handle({self._id!r})" if self._id is not None else "Handle(key={1!r} of {0})".format(*self._key)


def _within(timeout: float | timedelta | None) -> float | None:
    return None if timeout is None else seconds(timeout, "timeout=")
