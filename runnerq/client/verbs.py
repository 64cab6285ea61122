"""The part of the client that asks about, and changes, one run by its id."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from runnerq.client.base import Base
from runnerq.client.changing import delete, reschedule, run_now, set_priority
from runnerq.client.export import export
from runnerq.client.filters import checked_filter
from runnerq.client.forking import fork_of
from runnerq.client.handle import Handle
from runnerq.client.history import Entry
from runnerq.client.info import RunInfo
from runnerq.client.reopening import (
    Accept,
    check_accept,
    count_redriven,
    redrive_all,
    redrive_one,
    retry_all,
    retry_one,
)
from runnerq.client.starting import target_of
from runnerq.ids import check_run_id
from runnerq.persistence.records import Priority, RunFilter
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.given import checked_key, checked_priority, checked_time

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Verbs(Base):
    """Looks at one run, and changes it."""

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
    async def send(self, run_id: str, channel: Signal[T], value: T, *, dedup: str | None = None) -> bool: ...
    @overload
    async def send(self, run_id: str, channel: str, value: Any, *, dedup: str | None = None) -> bool: ...
    async def send(self, run_id: str, channel: Signal[Any] | str, value: Any, *, dedup: str | None = None) -> bool:
        """Send a signal to a run: before it starts, while it runs, while it waits. It is kept until a wait takes it.

        One ``dedup`` id counts once a run and channel: False if it has counted before. Raises RunNotFound, or
        RunFinished if the run has ended.
        """
        return await self._core.send(check_run_id(run_id), channel, value, dedup)

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
            return await retry_all(self._core, checked_filter(which), accept)
        return await retry_one(self._core, check_run_id(which), accept)

    async def redrive(self, which: str | RunFilter, *, dry_run: bool = False) -> int:
        """Let a dead letter go on, from the entry that failed, or all that fit; how many do, or would on a dry run.

        As ``retry``, for dead letters alone. Raises RunNotFound and WrongState for one id; of many, those that cannot
        go on are passed over.
        """
        checked = checked_filter(which) if isinstance(which, RunFilter) else check_run_id(which)
        if dry_run:
            return await count_redriven(self._core, checked)
        if isinstance(checked, RunFilter):
            return await redrive_all(self._core, checked)
        return await redrive_one(self._core, checked)

    async def run_now(self, run_id: str) -> bool:
        """Have a delayed run, or the next attempt of one that failed, begin now; False if it is ready or running.

        Raises RunNotFound, and WrongState for a run that waits for anything else: a sleep of its code is not cut short.
        """
        return await run_now(self._core, check_run_id(run_id))

    async def reschedule(self, run_id: str, at: datetime) -> bool:
        """Have a pending run become due at another time, before its first attempt or the next; False if it is then.

        A time in the past counts for its rank among those that are ready. Raises RunNotFound, WrongState.
        """
        return await reschedule(self._core, check_run_id(run_id), checked_time(at, "the new time "))

    async def set_priority(self, run_id: str, priority: Priority | int) -> bool:
        """Change the priority of a run that has not ended. False if it has it.

        What it starts inherits it from the next time on that a worker takes the run up. Raises RunNotFound, WrongState.
        """
        return await set_priority(self._core, check_run_id(run_id), checked_priority(priority))

    async def delete(self, run_id: str) -> bool:
        """Delete a run that has ended, with all below it, for good; its key is free at once.

        Raises RunNotFound, and WrongState for a run that has a parent, is open, or has an open run below it.
        """
        return await delete(self._core, check_run_id(run_id))

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

    async def history(self, run_id: str, generation: int | None = None) -> list[Entry]:
        """The entries of the run's journal, oldest first: of the present generation, or of a given one."""
        return await self._core.history(check_run_id(run_id), generation)

    async def export(self, run_id: str) -> dict[str, Any]:
        """The run as JSON builtins: all that is on record of it. ``runnerq.testing.check_replay`` follows it."""
        return await export(self._core.storage, check_run_id(run_id))
