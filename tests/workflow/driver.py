"""A small driver for the interpreter: it feeds a workflow what a test says, and keeps the journal.

After every event, every prefix of the journal is replayed into a fresh interpreter, which must stand at the same place:
the same commands open, the same local variables in every branch, the same rows written for what follows by itself. And
none of these interpreters may leave a cycle behind: it is gone as soon as it is dropped.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable, Generator, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from types import FrameType
from typing import Any

import msgspec

from runnerq.serialization.codec import Codec
from runnerq.serialization.failures import modules_snapshot, record
from runnerq.workflow.commands import Command
from runnerq.workflow.context import ChildHandle, Context
from runnerq.workflow.ending import Blocked, ContinuedAsNew, End, Raised, Returned, UndoFailed
from runnerq.workflow.identity import Identity, Info
from runnerq.workflow.interpreter import Interpreter, Progress
from runnerq.workflow.journal import Asked, Reopened, Row, Started
from runnerq.workflow.tree import Leaf
from runnerq.workflow.types import answer_type

RUN_ID = "018f3d5e-7a0c-7c2b-8b7e-0a1b2c3d4e5f"
START = datetime(2026, 1, 1, tzinfo=UTC)
CODEC = Codec()
MODULES = modules_snapshot() | {"tests.workflow.steps"}

Body = Callable[..., Generator[Any, Any, Any]]


class Fails(msgspec.Struct, frozen=True):
    """An answer that is a failure; ``exhausted`` says that its attempts were used up."""

    error: BaseException
    exhausted: bool = False


class CutOff(msgspec.Struct, frozen=True):
    """The answer of a step that was cut off."""


class Stand(msgspec.Struct, frozen=True):
    """Where an interpreter stands, in what can be compared."""

    open: dict[str, tuple[Any, ...]]
    timed: list[str]
    cutting: set[str]
    children: list[str]
    frames: list[Any]
    state: dict[str, Any]
    cancel: tuple[bool, str | None]
    end: Any
    place: int
    now: datetime


def an_info(**changes: Any) -> Info:
    info = Info(
        id=RUN_ID, workflow="wf", version=1, key=None, queue="default", parent_id=None, root_id=RUN_ID, generation=1,
        metadata={}, created_at=START, entries=0,
    )  # fmt: skip
    return msgspec.structs.replace(info, **changes)


def an_interpreter(fn: Body, *args: Any, codec: Codec = CODEC, info: Info | None = None, **known: Any) -> Interpreter:
    """One that has not begun; ``known`` are parts of its identity."""

    def body(ctx: Context, arguments: str | None) -> Generator[Any, Any, Any]:
        given = list(args) if arguments is None else msgspec.json.decode(arguments)
        return fn(ctx, *given) if isinstance(given, list) else fn(ctx, *given["args"], **given["kwargs"])

    return Interpreter(Identity(info or an_info(), body, MODULES, **known), codec)


class Drive:
    """One run: of ``fn``, until ``code`` is replaced."""

    def __init__(
        self,
        fn: Body,
        *args: Any,
        may_have_children: bool = True,
        codec: Codec = CODEC,
        build: str = "b",
        build_seen: datetime = START,
    ) -> None:
        self.code = fn
        self.args = args
        self.codec = codec
        self.info = an_info()
        self.may_have_children = may_have_children
        self.build = build
        self.build_seen = build_seen
        self.at = START
        self.rows: list[Row] = []
        self.stands: dict[int, Stand] = {}
        self.since = 1
        self.cancels: list[str] = []
        self.children: list[str] = []
        self.starts: list[str] = []
        self.published: dict[str, Any] | None = None
        self.end: End | None = None
        self.blocked: Blocked | None = None
        self.run = self._fresh()
        self._event(lambda: self.run.begin(Started(seed="seed", build="b"), self.at))

    # --- feeding ------------------------------------------------------------------------------------------------------

    def feed(self, answers: Mapping[str, Any]) -> Drive:
        """Feed answers by position, in the order given."""
        for position, answer in answers.items():
            self.answer(position, answer)
        return self

    def answer(self, position: str, answer: Any = None) -> Drive:
        leaf = self.leaf(position)
        self.at += timedelta(seconds=1)
        match answer:
            case Fails(error, exhausted):
                text = record(error, MODULES, retryable=exhausted)
                self._event(lambda: self.run.fail(leaf.position, text, self.at))
            case CutOff():
                self._event(lambda: self.run.interrupt(leaf.position, self.at))
            case _:
                text = None if leaf.command.kind == "sleep" else self.codec.encode(answer, "it")
                value = None if text is None else self.codec.decode(text, answer_type(leaf.command), "it")
                if leaf.command.kind == "transaction":
                    # Its own commit has put it on record.
                    at = max(self.at, self.run.recorder.at)
                    self.rows.append(Row(len(self.rows), "answered", leaf.position, at, text))
                    self._event(lambda: self.run.follow(leaf.position, value, at))
                else:
                    self._event(lambda: self.run.answer(leaf.position, text, value, self.at))
        return self

    def cancel(self, reason: str | None = None) -> Drive:
        self.at += timedelta(seconds=1)
        self._event(lambda: self.run.cancel(reason, self.at))
        return self

    def leaf(self, position: str) -> Leaf:
        """The open command at this position."""
        assert position in self.run.leaves, f"{position} is not open: {self.open}"
        return self.run.leaves[position]

    def retake(self, fn: Body | None = None) -> Drive:
        """Take the run up from its journal, with other code if it is given."""
        self.run.close()
        self.code = fn or self.code
        self.blocked = None
        # What other code saw before cannot be compared.
        self.since, self.stands = max(1, len(self.rows)), {}
        self.at += timedelta(seconds=1)
        self.run = self._fresh()
        if self.rows:
            self._event(lambda: self.run.replay(self.rows, self.at))
        else:
            self._event(lambda: self.run.begin(Started(seed="seed", build="b"), self.at))
        return self

    def deploy(self, fn: Body, build: str, seen: timedelta) -> Drive:
        """Take the run up with the code of another build, first seen so long after the first one."""
        self.build, self.build_seen = build, START + seen
        return self.retake(fn)

    def renew(self) -> Drive:
        """Begin the next generation of a run that continues as new."""
        assert isinstance(self.end, ContinuedAsNew), self.end or self.open
        self.info = msgspec.structs.replace(self.info, generation=self.info.generation + 1)
        arguments = msgspec.Raw(self.end.arguments.encode())
        started = Started(
            seed="next", build=self.build, arguments=arguments, began_at=self.run.began_at, state=self.run.state
        )
        self.at += timedelta(seconds=1)
        self.rows = [Row(0, "started", "", self.at, msgspec.json.encode(started).decode())]
        return self.retake()

    def reopen(self, reopened: Reopened, fn: Body | None = None) -> Drive:
        """Take the run up again behind this."""
        self.at = max(self.at, self.rows[-1].at) + timedelta(seconds=1)
        value = msgspec.json.encode(reopened).decode()
        self.rows.append(Row(len(self.rows), "reopened", "", self.at, value))
        return self.retake(fn)

    # --- what is seen -------------------------------------------------------------------------------------------------

    @property
    def open(self) -> dict[str, str]:
        return {position: str(leaf.asked) for position, leaf in self.run.leaves.items()}

    @property
    def result(self) -> Any:
        assert self.blocked is None, self.blocked
        assert isinstance(self.end, Returned), self.end or self.open
        return self.end.value

    @property
    def error(self) -> BaseException:
        assert self.blocked is None, self.blocked
        assert isinstance(self.end, Raised), self.end or self.open
        return self.end.error

    @property
    def block(self) -> Blocked:
        assert self.blocked is not None, self.end or self.open
        return self.blocked

    @property
    def written(self) -> list[str]:
        """The journal, each row as ``kind position value [asked positions]``."""
        return [shown(row) for row in self.rows]

    def asks(self) -> dict[str, Asked]:
        return {asked.position: asked for row in self.rows for asked in asked_in(row)}

    # --- checks -------------------------------------------------------------------------------------------------------

    def _fresh(self) -> Interpreter:
        return an_interpreter(
            self.code, *self.args, codec=self.codec, info=self.info, may_have_children=self.may_have_children,
            build=self.build, build_seen=self.build_seen,
        )  # fmt: skip

    def _event(self, feed: Callable[[], Any]) -> None:
        try:
            feed()
        except Blocked as blocked:
            self.rows += self.run.recorder.take_rows()
            self.blocked = blocked
            return
        assert not self.run.recorder.replaying
        progress = self.run.collect()
        self._take(progress)
        self.stands[len(self.rows)] = stand_of(self.run)
        self._replay_prefixes()

    def _take(self, progress: Progress) -> None:
        self.rows += progress.rows
        self.cancels += progress.cancels
        self.children += [leaf.asked.child or "" for leaf in progress.children]
        self.starts += [leaf.position for leaf in progress.starts]
        self.end = progress.end
        if progress.published is not None:
            self.published = progress.published
        assert [row.place for row in self.rows] == list(range(len(self.rows)))
        assert all(one.at <= next_one.at for one, next_one in zip(self.rows, self.rows[1:], strict=False))

    def _replay_prefixes(self) -> None:
        for length in range(self.since, len(self.rows) + 1):
            self._replay_prefix(length)

    def _replay_prefix(self, length: int) -> None:
        """A prefix stands where the run stood when its last event, and all that followed of it, had been fed."""
        reached = min(event for event in self.stands if event >= length)
        run = self._fresh()
        taken_up_at = self.rows[length].at if length < len(self.rows) else self.at
        run.replay(self.rows[:length], taken_up_at)
        assert not run.recorder.replaying
        progress = run.collect()
        following = [msgspec.structs.replace(row, at=START) for row in self.rows[length:reached]]
        assert [msgspec.structs.replace(row, at=START) for row in progress.rows] == following
        stand, before = stand_of(run), self.stands[reached]
        assert stand == before, f"replay of {length} rows stands elsewhere:\n{stand}\n{before}"
        assert {leaf.position for leaf in progress.starts} == set(run.leaves)
        assert run.close() == []
        self._leaves_nothing(length, taken_up_at)

    def _leaves_nothing(self, length: int, at: datetime) -> None:
        # By itself: who looks at a frame's locals may put a copy of them into it, and with it a cycle.
        run = self._fresh()
        run.replay(self.rows[:length], at)
        run.collect()
        run.close()
        gone = weakref.ref(run)
        del run
        assert gone() is None, "a replayed interpreter is in a cycle"


def drive(fn: Body, answers: Mapping[str, Any] | None = None, **options: Any) -> Drive:
    """Run a workflow function and feed it these answers."""
    return Drive(fn, **options).feed(answers or {})


def asked_in(row: Row) -> list[Asked]:
    return [] if row.asked is None else msgspec.json.decode(row.asked, type=list[Asked])


def shown(row: Row) -> str:
    value = "" if row.value is None or row.kind == "started" else row.value
    if row.value is not None and row.value.startswith("{") and row.kind == "failed":
        value = msgspec.json.decode(row.value)["type"]
    if row.kind == "reopened":
        return f"reopened {value}"
    asked = " nothing kept" if row.asked is None else "".join(f" +{asked.position}" for asked in asked_in(row))
    return f"{row.kind} {row.position} {value}".replace("  ", " ").strip() + asked


# --- comparing --------------------------------------------------------------------------------------------------------


def stand_of(run: Interpreter) -> Stand:
    return Stand(
        open={
            position: (leaf.asked.kind, leaf.asked.name, leaf.asked.digest, leaf.asked.deadline, leaf.asked.child)
            for position, leaf in sorted(run.leaves.items())
        },
        timed=sorted(leaf.position for leaf in run.timed()),
        cutting=set(run.cutting),
        children=sorted(run.children),
        frames=[(branch.place, _frames(branch.generator)) for branch in run._live],
        state=run.state,
        cancel=(run.cancel_requested, run.cancel_reason),
        end=_end(run.end),
        place=run.recorder.place,
        now=run.recorder.at,
    )


def _end(end: End | None) -> Any:
    match end:
        case ContinuedAsNew(arguments, lost):
            return arguments, repr(lost)
        case Returned(value):
            return described(value)
        case Raised(error):
            return described(error)
        case UndoFailed(error, undo):
            return described(error), described(undo)
        case _:
            return end


def _frames(generator: Any) -> list[Any]:
    found = []
    while (frame := getattr(generator, "gi_frame", None)) is not None:
        if frame.f_globals["__name__"] != Command.__module__:
            found.append(_frame(frame))
        generator = generator.gi_yieldfrom
    return found


def _frame(frame: FrameType) -> tuple[str, int, dict[str, Any]]:
    # What a test collects outside of the workflow is no part of it.
    outside = {*frame.f_code.co_freevars}
    values = {name: described(value) for name, value in frame.f_locals.items() if name not in outside}
    return frame.f_code.co_name, frame.f_lineno, values


def described(value: Any) -> Any:
    """A value as something that is equal for equal ones."""
    match value:
        case BaseException():
            return type(value), described(value.args), described(value.__cause__), getattr(value, "__notes__", None)
        case ChildHandle():
            return "handle", value.id
        case Random():
            return value.getstate()
        case Command():
            return repr(value), value.used
        case Context() | Generator():
            return type(value)
        case list() | tuple():
            return type(value), [described(item) for item in value]
        case dict():
            return {key: described(item) for key, item in value.items()}
        case _:
            return value.__qualname__ if callable(value) else value


def line_in(fn: Callable[..., Any], text: str) -> str:
    """``file:line`` of the line of this function that holds this text."""
    lines, first = inspect.getsourcelines(fn)
    [offset] = [offset for offset, line in enumerate(lines) if text in line]
    return f"{sys.modules[fn.__module__].__file__}:{first + offset}"
