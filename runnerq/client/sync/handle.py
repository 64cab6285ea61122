"""A handle for code without an event loop."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Generic, TypeVar, overload

from runnerq.client.handle import Handle
from runnerq.client.sync.delegation import Blocking, blocking, told_as
from runnerq.workflow.commands import Signal

R = TypeVar("R")
T = TypeVar("T")


class SyncHandle(Blocking[Handle[Any]], Generic[R]):
    """One run, seen from outside, by code without an event loop. Threads may share it."""

    __slots__ = ()

    @property
    def id(self) -> str:
        """The run's id. UsageError if the handle is by key and no verb has looked the run up yet."""
        return self._asked.id

    @property
    def created(self) -> bool:
        """Whether the start that gave this handle made the run."""
        return self._asked.created

    @told_as(Handle.result)
    def result(self, timeout: float | timedelta | None = None) -> R:
        answer: R = self._loop.call(lambda: self._asked.result(timeout))
        return answer

    @overload
    def send(self, channel: Signal[T], value: T, *, dedup: str | None = None) -> bool: ...
    @overload
    def send(self, channel: str, value: Any, *, dedup: str | None = None) -> bool: ...
    @told_as(Handle.send)
    def send(self, channel: Signal[Any] | str, value: Any, *, dedup: str | None = None) -> bool:
        return self._loop.call(lambda: self._asked.send(channel, value, dedup=dedup))

    status = blocking(Handle.status)
    state = blocking(Handle.state)
    info = blocking(Handle.info)
    history = blocking(Handle.history)
    cancel = blocking(Handle.cancel)
    reached = blocking(Handle.reached)
    wait = blocking(Handle.wait)

    def __repr__(self) -> str:
        return f"Sync{self._asked!r}"
