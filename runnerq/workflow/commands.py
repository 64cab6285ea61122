"""What a workflow yields. ``yield from command`` is typed with its answer; ``yield command`` answers the same, as Any.

Rules
- A command is a value: making one starts nothing, yielding it asks for it, and it can be asked for once.
- A command belongs to the context that made it.
- Outside the driver a command is not a list, a tuple or a truth value: using it as one says what was forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast, overload

import msgspec

from runnerq.errors import ConfigurationError, UsageError
from runnerq.workflow.options import DEFAULTS, CallOptions

if TYPE_CHECKING:
    from types import CodeType

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")

CommandKind = Literal[
    "step", "transaction", "child", "spawn", "send", "cancel", "sleep", "signal", "all", "race", "publish", "undo"
]  # fmt: skip
"""An ``undo`` is what ``ctx.compensate`` registers: it is never yielded, and asked for when the run ends badly."""

ATTEMPTED: frozenset[CommandKind] = frozenset({"step", "transaction", "undo"})
"""Kinds that call an activity function, in attempts."""


class Owner(Protocol):
    """Who commands belong to: the interpreter of one run. Those of nobody are for unit tests."""

    def made(self, command: Command[Any]) -> None:
        """Note a new command, to tell at the end which were never yielded."""

    def asked_for(self, command: Command[Any]) -> None:
        """Note that it was yielded."""


class SleepSpec(msgspec.Struct, frozen=True):
    """How long: seconds from the ask, or until a time."""

    seconds: float | None
    until: datetime | None


class SignalSpec(msgspec.Struct, frozen=True):
    """What a wait takes; ``type`` is the payload's type form, ``default`` stands for a timeout if there is one."""

    type: Any
    timeout: float | None
    default: Any
    has_default: bool
    latest: bool


class SendSpec(msgspec.Struct, frozen=True):
    """A signal to another run, or a cancel of it. ``type`` is what the channel takes."""

    run_id: str
    value: Any = None
    type: Any = Any


class AllSpec(msgspec.Struct, frozen=True):
    """How the members of an ``all`` or ``gather`` are run and answered."""

    as_list: bool
    limit: int | None
    return_errors: bool


class ChildSpec(msgspec.Struct, frozen=True):
    """A wait for a child that exists already: its id. None where the command starts the child."""

    child_id: str | None


Spec: TypeAlias = "SleepSpec | SignalSpec | SendSpec | AllSpec | ChildSpec | None"


class Command(Generic[T_co]):
    """One thing that a workflow asks for. Made by ``ctx``, yielded once."""

    __slots__ = (
        "args",
        "code",
        "digest",
        "driven",
        "fn",
        "kind",
        "kwargs",
        "lineno",
        "members",
        "name",
        "options",
        "owner",
        "payload",
        "spec",
        "used",
    )

    kind: CommandKind
    name: str
    fn: Callable[..., Any] | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: CallOptions
    members: tuple[Any, ...]
    spec: Spec
    # The rest is the driver's.
    owner: Owner | None
    used: bool
    driven: bool
    code: CodeType | None
    lineno: int
    digest: str
    payload: str | None

    def __init__(
        self,
        owner: Owner | None,
        kind: CommandKind,
        name: str,
        *,
        fn: Callable[..., Any] | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        options: CallOptions = DEFAULTS,
        members: tuple[Any, ...] = (),
        spec: Spec = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.fn = fn
        self.args = args
        self.kwargs = {} if kwargs is None else kwargs
        self.options = options
        self.members = members
        self.spec = spec
        self.owner = owner
        self.used = False
        # Nobody's commands are for unit tests that drive a workflow by hand with next, send and throw.
        self.driven = owner is None
        self.code = None
        self.lineno = 0
        self.digest = ""
        self.payload = None
        if owner is not None:
            owner.made(self)

    def __iter__(self) -> Generator[Command[Any], Any, T_co]:
        answer = yield self
        if not self.driven:
            raise UsageError(
                f"{self!r} was iterated or unpacked outside the workflow's driver: write `yield from` before it"
            )
        return cast("T_co", answer)

    def __bool__(self) -> bool:
        raise UsageError(f"{self!r} has no truth value: write `yield from` before it to get its answer")

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r}>" if self.name else f"<{self.kind}>"

    @property
    def line(self) -> str:
        """Where it was made, ``file:line``, as far as it is known."""
        return f"{self.code.co_filename}:{self.lineno}" if self.code is not None else "an unknown line"

    @property
    def place(self) -> str | None:
        """The line, and the function that it is in; None if it is not known."""
        return None if self.code is None else f"{self.line} in {self.code.co_name}"


Flow: TypeAlias = Generator[Command[Any], Any, R]
"""What a workflow function returns: ``def checkout(ctx: rq.Context, order: Order) -> rq.Flow[Shipment]``."""


class Winner(NamedTuple, Generic[T]):
    """The answer of a race: which member was first, by index, and its value."""

    index: int  # type: ignore[assignment]  # the API's word; it hides tuple.index, which nobody misses here
    value: T


class Signal(Generic[T]):
    """A typed channel. Its type may be any type form; a union needs the annotation on the left:
    ``REPLY: Signal[Yes | No] = Signal("reply", Yes | No)``."""

    __slots__ = ("name", "type")

    @overload
    def __init__(self, name: str, type: type[T]) -> None: ...
    @overload
    def __init__(self, name: str, type: Any = ...) -> None: ...
    def __init__(self, name: object, type: Any = Any) -> None:  # noqa: A002 - the API's word
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"a signal's name is a non-empty str, not {name!r}")
        self.name = name
        self.type = type

    def __repr__(self) -> str:
        return f"Signal({self.name!r}, {getattr(self.type, '__name__', self.type)!s})"


def channel_name(channel: object) -> str:
    """The name of a channel, given as a Signal or a str. Raises UsageError for what is neither."""
    name = channel.name if isinstance(channel, Signal) else channel
    if not isinstance(name, str) or not name:
        raise UsageError(f"a channel is a Signal or a non-empty str, not {channel!r}")
    return name


def channel_type(channel: Signal[Any] | str) -> Any:
    """The type form of a channel's payloads; Any for a plain str."""
    return channel.type if isinstance(channel, Signal) else Any


LONGEST = 1000 * 365 * 86_400.0
"""Seconds: longer waits could lead past the last year that a datetime holds."""


def to_seconds(duration: object) -> float:
    """Seconds of a duration given as seconds or timedelta. Raises UsageError for what is none."""
    value = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST:
        raise UsageError(
            f"a duration is a number of seconds or a timedelta, not negative and at most 1,000 years, not {duration!r}"
        )
    return float(value)
