"""The part of the client that starts runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from runnerq.client.base import Base
from runnerq.client.bulk import in_order
from runnerq.client.handle import Handle
from runnerq.client.reported import reported_start
from runnerq.client.starting import (
    Target,
    Template,
    inputs_of,
    keys_of,
    new_run,
    new_runs,
    target_named,
    target_of,
    template,
)
from runnerq.errors import ConfigurationError, KeyTaken, WrongState
from runnerq.persistence.records import NewRun, Parent, StartReply
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context

P = ParamSpec("P")
R = TypeVar("R")

BULK = 1000
"""Runs that ``start_many`` creates in one commit."""
SIDE_BY_SIDE = 2
"""Commits of ``start_many`` that are under way at once: the next is made ready while the database writes one."""


class Starts(Base):
    """Starts runs."""

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
        """Start a workflow or an activity.

        By name it is the highest version that a living worker serves, else the highest known; a name that nobody knows
        waits until a worker that does takes it up. Raises EncodingError or TypeError for arguments that cannot work,
        KeyTaken if ``on_duplicate`` refuses the key, RunFinished if ``signals`` find a run that has ended.
        """
        drawn = self._drawn(1)
        found = await self._target(target)
        of = template(found, self._options, self._parent)
        key = self._options.key or (drawn[0] if drawn else None)
        [handle] = await self._reported(of, lambda of: self._start(of, args, kwargs, key))
        return handle

    async def _start(
        self, of: Template, args: tuple[Any, ...], kwargs: dict[str, Any], key: str | None
    ) -> list[Handle[Any]]:
        run = new_run(of, self._core.codec, args, kwargs, key)
        signals = self._options.signals
        if signals is None:
            return await self._started(of.target, [run])
        reply = await self._core.start_or_send(run, signals)
        if reply.refused:
            raise await self._refused(run, reply)
        return [self._handle(of.target, reply)]

    @overload
    async def start_many(
        self,
        target: Callable[Concatenate[Context, P], Flow[R]],
        args: Iterable[tuple[Any, ...]],
        keys: Iterable[str] | None = None,
    ) -> list[Handle[R]]: ...
    @overload
    async def start_many(
        self,
        target: Callable[P, Coroutine[Any, Any, R]],
        args: Iterable[tuple[Any, ...]],
        keys: Iterable[str] | None = None,
    ) -> list[Handle[R]]: ...
    @overload
    async def start_many(
        self, target: Callable[P, R], args: Iterable[tuple[Any, ...]], keys: Iterable[str] | None = None
    ) -> list[Handle[R]]: ...
    @overload
    async def start_many(
        self, target: str, args: Iterable[tuple[Any, ...]], keys: Iterable[str] | None = None
    ) -> list[Handle[Any]]: ...
    async def start_many(
        self,
        target: Callable[..., Any] | str,
        args: Iterable[tuple[Any, ...]],
        keys: Iterable[str] | None = None,
    ) -> list[Handle[Any]]:
        """Start one run for each tuple of arguments, in order, one commit a thousand; ``keys`` has one key for each.

        All arguments are encoded before the first run is created: EncodingError and TypeError name the tuple.
        KeyTaken names the first key that is refused; the runs of the same and earlier commits are started all the same.
        """
        if self._options.key is not None:
            raise ConfigurationError("options(key=) names one run: give start_many(keys=[...]), one for each")
        if self._options.signals is not None:
            raise ConfigurationError("options(signals=) go with one run: start_many sends none")
        given = list(args)
        drawn = self._drawn(len(given))
        found = await self._target(target)
        of = template(found, self._options, self._parent)
        inputs = inputs_of(of, self._core.codec, given)
        named = None if keys is None else keys_of(keys, len(inputs))
        # With keys one commit after the other: of a key that is given twice, the first run is to have it. And on a
        # connection of the caller's one statement after the other.
        at_once = SIDE_BY_SIDE if named is None and self._core.lasting else 1
        return await self._reported(
            of,
            lambda of: in_order(
                new_runs(of, inputs, named or drawn, BULK), lambda runs: self._started(found, runs), at_once=at_once
            ),
        )

    async def _reported(
        self, of: Template, send: Callable[[Template], Awaitable[list[Handle[Any]]]]
    ) -> list[Handle[Any]]:
        telemetry = self._core.telemetry
        return await (send(of) if telemetry is None else reported_start(telemetry, of, send))

    @property
    def _parent(self) -> Parent | None:
        return None if self._family is None else self._family.parent

    def _drawn(self, count: int) -> list[str] | None:
        """Keys of so many children that are about to be started; None where they are nobody's children."""
        return None if self._family is None else self._family.keys(count)

    async def _target(self, target: Callable[..., Any] | str) -> Target:
        if isinstance(target, str):
            return await target_named(target, self._core.outside.storage)
        return target_of(target)

    async def _started(self, target: Target, runs: Sequence[NewRun]) -> list[Handle[Any]]:
        replies = await self._core.start(runs)
        for run, reply in zip(runs, replies, strict=True):
            if reply.refused:
                raise await self._refused(run, reply)
        return [self._handle(target, reply) for reply in replies]

    def _handle(self, target: Target, reply: StartReply) -> Handle[Any]:
        core = self._core
        return Handle(core.outside, reply.id, target.returns, created=reply.created, known=core.lasting)

    async def _refused(self, run: NewRun, reply: StartReply) -> KeyTaken | WrongState:
        if reply.id != run.id or run.parent_id is None:
            return KeyTaken(run.name, run.key or "", reply.id)
        parent = await self._core.outside.record(run.parent_id)
        instead = "it has ended, or is being deleted, and nothing is started below it: start a run of its own"
        return WrongState(parent.id, parent.status, "starting a child", instead)
