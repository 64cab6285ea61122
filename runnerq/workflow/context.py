"""``ctx``: what a workflow asks with. What is no plain call, as ``now`` or ``uuid``, makes a command.

Rules
- A context belongs to one run. Nothing here does I/O; a command asks nothing before it is yielded.
- While a parked generator is closed the context is inert: its commands raise three times, then go nowhere.
- ``Context()`` without a run is for unit tests that drive a workflow by hand: its commands are plain values.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, Concatenate, Literal, NoReturn, ParamSpec, TypeAlias, TypeVar, get_args, overload
from uuid import UUID

from runnerq.errors import UsageError
from runnerq.ids import check_run_id
from runnerq.retry import RetryPolicy
from runnerq.workflow.child_handle import ChildHandle
from runnerq.workflow.commands import (
    AllSpec,
    ChildSpec,
    Command,
    Flow,
    SendSpec,
    Signal,
    SignalSpec,
    SleepSpec,
    Winner,
    channel_name,
    channel_type,
    to_seconds,
)
from runnerq.workflow.declare import callable_name
from runnerq.workflow.driver import ContinueAsNew, Driver, RunLog
from runnerq.workflow.given import asked_limit, checked_key, checked_names
from runnerq.workflow.identity import Info
from runnerq.workflow.options import DEFAULTS, Arguments, CallOptions, Limit, OnDuplicate, ParentClose
from runnerq.workflow.yields import hint

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
D = TypeVar("D")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T5 = TypeVar("T5")
T6 = TypeVar("T6")

Member: TypeAlias = Command[T] | Generator[Command[Any], Any, T]
"""A member of a composite: a command, or a branch (a generator that advances on its own)."""

if TYPE_CHECKING:
    from runnerq.workflow.child_handle import Spawned

_NO_DEFAULT: Any = object()

__all__ = ["ChildHandle", "Context", "Info"]


class Context:
    """What a workflow asks with; the first argument of every workflow function."""

    __slots__ = ("_driver", "_options")

    def __init__(self, driver: Driver | None = None, options: CallOptions = DEFAULTS) -> None:
        self._driver = driver
        self._options = options

    # --- steps, children ----------------------------------------------------------------------------------------------

    @overload
    def step(self, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> Command[R]: ...
    @overload
    def step(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Command[R]: ...
    def step(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Command[Any]:
        """Call ``fn`` once and keep its answer. It runs at least once; a recorded answer never runs again."""
        return self._inline("step", fn, args, kwargs)

    def transaction(
        self, fn: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Command[R]:
        """Call async ``fn`` with an open connection and these arguments, exactly once.

        What it writes through the connection, an asyncpg one in a transaction, and the entry that keeps its answer are
        one commit. It must not end the transaction itself; ``async with connection.transaction():`` makes a savepoint.
        """
        return self._inline("transaction", fn, args, kwargs)

    @overload
    def child(
        self, target: Callable[Concatenate[Context, P], Flow[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Command[R]: ...
    @overload
    def child(
        self, target: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Command[R]: ...
    @overload
    def child(self, target: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Command[R]: ...
    def child(self, target: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Command[Any]:
        """Queue a workflow or activity as a run of its own and wait for it, parked.

        Raises ChildFailed (the child's error is its cause) or ChildCancelled at the yield.
        """
        return self._start("child", target, args, kwargs)

    @overload
    def spawn(
        self, target: Callable[Concatenate[Context, P], Flow[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Command[Spawned[R]]: ...
    @overload
    def spawn(
        self, target: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Command[Spawned[R]]: ...
    @overload
    def spawn(self, target: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Command[Spawned[R]]: ...
    def spawn(self, target: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Command[Any]:
        """Queue a workflow or activity and go on at once with a handle to it."""
        return self._start("spawn", target, args, kwargs)

    # --- time, signals ------------------------------------------------------------------------------------------------

    def sleep(self, duration: float | timedelta) -> Command[None]:
        """Wait, parked, for seconds or a timedelta."""
        return self._command("sleep", "", spec=SleepSpec(to_seconds(duration), None))

    def sleep_until(self, when: datetime) -> Command[None]:
        """Wait, parked, until an aware time; one that has passed answers at once."""
        if when.utcoffset() is None:
            raise UsageError(f"sleep_until takes a datetime with a zone, such as tzinfo=UTC, not {when!r}")
        try:
            return self._command("sleep", "", spec=SleepSpec(None, when.astimezone(UTC)))
        except OverflowError:
            raise UsageError(f"sleep_until takes a time that UTC has, too, not {when!r}") from None

    @overload
    def signal(
        self, channel: Signal[T], *, timeout: float | timedelta | None = None, latest: bool = False
    ) -> Command[T]: ...
    @overload
    def signal(
        self, channel: Signal[T], *, timeout: float | timedelta, default: D, latest: bool = False
    ) -> Command[T | D]: ...
    @overload
    def signal(
        self, channel: str, *, timeout: float | timedelta | None = None, default: Any = ..., latest: bool = False
    ) -> Command[Any]: ...
    def signal(
        self,
        channel: Signal[Any] | str,
        *,
        timeout: float | timedelta | None = None,
        default: Any = _NO_DEFAULT,
        latest: bool = False,
    ) -> Command[Any]:
        """Take the next unconsumed payload of a channel, first in first out, waiting for one, parked.

        On timeout SignalTimeout, or ``default`` if one is given; ``timeout=0`` polls and parks nothing. ``latest=True``
        takes the newest and drops older ones. A payload that does not fit is consumed and raises SignalPayloadError.
        """
        if self._options.formerly:
            raise UsageError("formerly= is for steps and children: wait for the old channel as well, with ctx.race")
        has_default = default is not _NO_DEFAULT
        seconds = None if timeout is None else to_seconds(timeout)
        spec = SignalSpec(channel_type(channel), seconds, default if has_default else None, has_default, latest)
        return self._command("signal", channel_name(channel), spec=spec)

    def send(self, run_id: str, channel: Signal[T] | str, value: T) -> Command[None]:
        """Send a signal to any run, exactly once. RunNotFound and RunFinished are raised at the yield, and UsageError
        for a value that the channel does not take."""
        spec = SendSpec(check_run_id(run_id), value, channel_type(channel))
        return self._command("send", channel_name(channel), spec=spec)

    # --- composites ---------------------------------------------------------------------------------------------------

    @overload
    def all(self) -> Command[tuple[()]]: ...
    @overload
    def all(self, a: Member[T1], /) -> Command[tuple[T1]]: ...
    @overload
    def all(self, a: Member[T1], b: Member[T2], /) -> Command[tuple[T1, T2]]: ...
    @overload
    def all(self, a: Member[T1], b: Member[T2], c: Member[T3], /) -> Command[tuple[T1, T2, T3]]: ...
    @overload
    def all(self, a: Member[T1], b: Member[T2], c: Member[T3], d: Member[T4], /) -> Command[tuple[T1, T2, T3, T4]]: ...
    @overload
    def all(
        self, a: Member[T1], b: Member[T2], c: Member[T3], d: Member[T4], e: Member[T5], /
    ) -> Command[tuple[T1, T2, T3, T4, T5]]: ...
    @overload
    def all(
        self, a: Member[T], b: Member[T], c: Member[T], d: Member[T], e: Member[T], f: Member[T], /, *more: Member[T]
    ) -> Command[tuple[T, ...]]: ...
    def all(self, *members: Any) -> Command[Any]:
        """Run the members side by side and answer their values as a tuple, in order. The first error decides it."""
        return self._command("all", "", members=_checked(members, "all"), spec=AllSpec(False, None, False))

    @overload
    def gather(self, members: Iterable[Member[T]], *, limit: int | None = None) -> Command[list[T]]: ...
    @overload
    def gather(
        self, members: Iterable[Member[T]], *, limit: int | None = None, return_errors: Literal[True]
    ) -> Command[list[T | Exception]]: ...
    def gather(self, members: Iterable[Any], *, limit: int | None = None, return_errors: bool = False) -> Command[Any]:
        """``all`` over an iterable, answered as a list; at most ``limit`` members run at once.

        With ``return_errors`` a member's failure is its value, and nothing decides early.
        """
        if limit is not None and limit < 1:
            raise UsageError(f"gather(limit={limit!r}) would never run anything: give at least 1, or None")
        spec = AllSpec(True, limit, return_errors)
        return self._command("all", "", members=_checked(tuple(members), "gather"), spec=spec)

    @overload
    def race(self, a: Member[T1], /) -> Command[Winner[T1]]: ...
    @overload
    def race(self, a: Member[T1], b: Member[T2], /) -> Command[Winner[T1 | T2]]: ...
    @overload
    def race(self, a: Member[T1], b: Member[T2], c: Member[T3], /) -> Command[Winner[T1 | T2 | T3]]: ...
    @overload
    def race(
        self, a: Member[T1], b: Member[T2], c: Member[T3], d: Member[T4], /
    ) -> Command[Winner[T1 | T2 | T3 | T4]]: ...
    @overload
    def race(
        self, a: Member[T], b: Member[T], c: Member[T], d: Member[T], e: Member[T], /, *more: Member[T]
    ) -> Command[Winner[T]]: ...
    def race(self, *members: Any) -> Command[Any]:
        """Run the members side by side and answer with the first one; its error, if it was one, is raised.

        Losing waits are dropped, losing branches get Cancelled, losing async steps are cancelled.
        """
        if not members:
            raise UsageError("a race of nothing is never won: give it at least one command")
        return self._command("race", "", members=_checked(members, "race"))

    # --- state, options -----------------------------------------------------------------------------------------------

    def publish(self, **values: Any) -> Command[None]:
        """Merge these into the run's visible state, kept after its end."""
        return self._command("publish", "", kwargs=values)

    def options(
        self,
        *,
        name: str | None = None,
        key: str | None = None,
        retry: RetryPolicy | int | None = None,
        timeout: float | timedelta | None = None,
        queue: str | None = None,
        priority: int | None = None,
        delay: float | timedelta | None = None,
        at: datetime | None = None,
        metadata: Mapping[str, str] | None = None,
        limit: Limit | tuple[str, str] | str | None = None,
        on_duplicate: OnDuplicate | None = None,
        parent_close: ParentClose | None = None,
        detached: bool | None = None,
        formerly: str | Iterable[str] | None = None,
        arguments: Arguments | None = None,
    ) -> Context:
        """A context with these options for the next call, on top of those that this one has.

        ``formerly``: the name, or names, that the call had in runs that are still open. ``arguments="any"``: it may be
        on record there with other arguments. ``detached=True``: what is spawned is a run of its own and no child; it
        outlives this run, and its handle has no ``result()``.

        ``limit="stripe"`` or ``limit=("customer", "7")`` is what a child or spawned run counts against while a worker
        holds it; a step counts for nothing, as its run holds the place.

        A child has its id before it is written, so it never becomes the run that holds its ``key`` already: it fails
        with KeyTaken, under ``return_existing`` as under ``no_reuse``. A detached one fails the same way, and tells
        nobody.
        """
        if on_duplicate is not None and on_duplicate not in get_args(OnDuplicate):
            raise UsageError(f"on_duplicate={on_duplicate!r} is not one of {', '.join(get_args(OnDuplicate))}")
        if arguments not in (None, "any"):
            raise UsageError(f"arguments={arguments!r} is not 'any': leave it out to have the arguments compared")
        given = CallOptions(
            name=name,
            key=None if key is None else checked_key(key),
            retry=None if retry is None else RetryPolicy.of(retry),
            timeout=None if timeout is None else to_seconds(timeout),
            queue=queue,
            priority=priority,
            delay=None if delay is None else to_seconds(delay),
            at=at,
            metadata=metadata,
            on_duplicate=on_duplicate,
            parent_close=parent_close,
            detached=detached,
            formerly=None if formerly is None else checked_names(formerly),
            arguments=arguments,
            limit=None if limit is None else asked_limit(limit),
        )
        return Context(self._driver, self._options.under(given))

    # --- plain calls --------------------------------------------------------------------------------------------------

    def compensate(self, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Register an undo: a step that runs if the run fails or is cancelled, last registered first.

        Register it before the step that it undoes, if it must also cover one whose outcome is unknown.
        """
        undo: Command[Any] = Command(
            self._driver, "undo", self._options.name or _name_of(fn),
            fn=fn, args=args, kwargs=kwargs, options=self._options,
        )  # fmt: skip
        if self._driver is not None:
            self._driver.compensate(undo)

    def continue_as_new(self, *args: Any, **kwargs: Any) -> NoReturn:
        """End this generation: the same run begins anew with these arguments and an empty journal.

        It raises; write ``return ctx.continue_as_new(...)`` for the reader (in a ``Flow[None]`` without ``return``,
        which mypy forbids there). Id, key, children and mailbox stay.
        """
        if self._driver is None:
            raise ContinueAsNew(args, kwargs)
        self._driver.continue_as_new(args, kwargs)

    def patched(self, change: str) -> bool:
        """Whether to go the new way of a change of code: False in a run that went past this point by the old way."""
        return self._driver is None or self._driver.patched(change)

    def now(self) -> datetime:
        """The time of the last answer: the same in every replay."""
        return self._driven("now").now()

    def uuid(self) -> UUID:
        """A random-looking UUID, the same in every replay."""
        return self._driven("uuid").uuid()

    @property
    def random(self) -> Random:
        """A generator of random numbers, the same in every replay, seeded anew after each command."""
        return self._driven("random").random()

    @property
    def log(self) -> RunLog:
        """A logger with the run's id, silent in replay."""
        return RunLog(self._driver)

    @property
    def info(self) -> Info:
        """What the run knows of itself."""
        return self._driven("info").info()

    @property
    def replaying(self) -> bool:
        """Whether recorded answers are being fed."""
        return self._driver is not None and self._driver.replaying

    def handle(self, child_id: str) -> ChildHandle:
        """A handle to a child of this run by its id. A detached run is none: nobody would tell of its result."""
        return ChildHandle(self._driver, check_run_id(child_id), options=self._options)

    def _start(self, kind: Literal["child", "spawn"], target: Any, args: Any, kwargs: Any) -> Command[Any]:
        name = self._options.name or _name_of(target)
        if kind == "child" and self._options.detached:
            raise UsageError(f"a detached run cannot be waited for: spawn {name!r}, or leave detached=True out")
        return self._command(kind, name, fn=target, args=args, kwargs=kwargs, spec=ChildSpec(None))

    def _inline(self, kind: Literal["step", "transaction"], fn: Any, args: Any, kwargs: Any) -> Command[Any]:
        name = self._options.name or _name_of(fn)
        if self._options.limit is not None:
            raise UsageError(f"a limit counts runs, and {name!r} is to run within this one: make it a child")
        return self._command(kind, name, fn=fn, args=args, kwargs=kwargs)

    def _command(self, kind: Any, name: str, **parts: Any) -> Command[Any]:
        return Command(self._driver, kind, name, options=self._options, **parts)

    def _driven(self, what: str) -> Driver:
        if self._driver is None:
            raise UsageError(f"ctx.{what} needs a run: this context was made by hand")
        return self._driver


def _name_of(fn: Any) -> str:
    try:
        return callable_name(fn)
    except UsageError:
        if inspect.iscoroutine(fn):
            raise UsageError(hint(fn)) from None
        raise


def _checked(members: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    for index, member in enumerate(members):
        if not isinstance(member, Command | Generator):
            raise UsageError(f"member {index} of {what} is {hint(member)}")
    return members
