"""The part of the blocking client that starts runs, and finds them: what answers with handles."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from runnerq.client.client import Client
from runnerq.client.handle import Handle
from runnerq.client.sync.delegation import Blocking, told_as
from runnerq.client.sync.handle import SyncHandle
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context

P = ParamSpec("P")
R = TypeVar("R")


class SyncStarts(Blocking[Client]):
    """Starts runs, and finds them."""

    __slots__ = ()

    @overload
    def start(
        self, target: Callable[Concatenate[Context, P], Flow[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> SyncHandle[R]: ...
    @overload
    def start(
        self, target: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> SyncHandle[R]: ...
    @overload
    def start(self, target: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> SyncHandle[R]: ...
    @overload
    def start(self, target: str, /, *args: Any, **kwargs: Any) -> SyncHandle[Any]: ...
    @told_as(Client.start)
    def start(self, target: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> SyncHandle[Any]:
        return self._handle(self._loop.call(lambda: self._asked.start(target, *args, **kwargs)))

    @overload
    def start_many(
        self,
        target: Callable[Concatenate[Context, P], Flow[R]],
        args: Iterable[tuple[Any, ...]],
        keys: Iterable[str] | None = None,
    ) -> list[SyncHandle[R]]: ...
    @overload
    def start_many(
        self,
        target: Callable[P, Coroutine[Any, Any, R]],
        args: Iterable[tuple[Any, ...]],
        keys: Iterable[str] | None = None,
    ) -> list[SyncHandle[R]]: ...
    @overload
    def start_many(
        self, target: Callable[P, R], args: Iterable[tuple[Any, ...]], keys: Iterable[str] | None = None
    ) -> list[SyncHandle[R]]: ...
    @overload
    def start_many(
        self, target: str, args: Iterable[tuple[Any, ...]], keys: Iterable[str] | None = None
    ) -> list[SyncHandle[Any]]: ...
    @told_as(Client.start_many)
    def start_many(
        self,
        target: Callable[..., Any] | str,
        args: Iterable[tuple[Any, ...]],
        keys: Iterable[str] | None = None,
    ) -> list[SyncHandle[Any]]:
        # Gone through here: what they come from, such as an ORM's query, may belong to the caller's thread.
        given, named = list(args), None if keys is None else list(keys)
        return [self._handle(each) for each in self._loop.call(lambda: self._asked.start_many(target, given, named))]

    @told_as(Client.fork)
    def fork(self, run_id: str, *, from_entry: str) -> SyncHandle[Any]:
        return self._handle(self._loop.call(lambda: self._asked.fork(run_id, from_entry=from_entry)))

    @overload
    def handle(self, run_id: str) -> SyncHandle[Any]: ...
    @overload
    def handle(self, run_id: str, returns: type[R]) -> SyncHandle[R]: ...
    @told_as(Client.handle)
    def handle(self, run_id: str, returns: Any = Any) -> SyncHandle[Any]:
        return self._handle(self._asked.handle(run_id, returns))

    @overload
    def handle_by_key(self, target: Callable[Concatenate[Context, P], Flow[R]], key: str) -> SyncHandle[R]: ...
    @overload
    def handle_by_key(self, target: Callable[P, Coroutine[Any, Any, R]], key: str) -> SyncHandle[R]: ...
    @overload
    def handle_by_key(self, target: Callable[P, R], key: str) -> SyncHandle[R]: ...
    @overload
    def handle_by_key(self, target: str, key: str) -> SyncHandle[Any]: ...
    @told_as(Client.handle_by_key)
    def handle_by_key(self, target: Callable[..., Any] | str, key: str) -> SyncHandle[Any]:
        return self._handle(self._asked.handle_by_key(target, key))

    def _handle(self, handle: Handle[Any]) -> SyncHandle[Any]:
        return SyncHandle(handle, self._loop)
