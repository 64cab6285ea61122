"""The interpreter: feeds a workflow its answers, in the journal's order, and says what it asked next. Pure.

Rules (DESIGN section 5)
- Feed only what is recorded; a live answer is encoded and decoded before it comes here.
- One event is fed at a time. Feeding it advances branches, which ask for commands; these are the event's asks. What an
  event decides (members to close, a composite's own answer) becomes derived events, each a row of its own.
- In replay the same events come from the journal, and each ask is compared as it is made.
- Nothing live starts, and ``replaying`` does not turn false, before every recorded row has been fed.
- Divergence and faults of the code leave as ``Blocked``; it is never thrown into user code.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Generator, Sequence
from datetime import datetime
from random import Random
from typing import Any
from uuid import UUID

import msgspec

from runnerq.errors import Cancelled, DecodingError, UsageError
from runnerq.serialization.codec import Codec
from runnerq.serialization.failures import CannotRebuild, read, rebuild
from runnerq.workflow.advance import Advance
from runnerq.workflow.chance import draw_random, draw_uuid
from runnerq.workflow.commands import Command, SignalSpec
from runnerq.workflow.context import Context, Info
from runnerq.workflow.ending import Blocked, Raised, Returned, is_code_fault
from runnerq.workflow.journal import Row, RowKind, Started
from runnerq.workflow.recorder import TAKEN_UP, Recorder, asked_text, diverged
from runnerq.workflow.tree import Branch, Leaf, branches, parked_line
from runnerq.workflow.types import answer_type

_OURS = frozenset({"runnerq.workflow.commands", "runnerq.workflow.context", "runnerq.workflow.interpreter"})
_ARE_ANSWERS = frozenset({"answered", "failed", "interrupted"})


class Inert(BaseException):
    """Raised by ``ctx`` while its parked generator is being closed."""


class Identity(msgspec.Struct, frozen=True):
    """What the interpreter needs to know of the run."""

    info: Info
    body: Callable[[Context], Generator[Any, Any, Any]]
    modules: frozenset[str]
    may_have_children: bool = True


class Progress(msgspec.Struct, frozen=True):
    """What has come of the events fed since the last collect.

    ``rows`` and ``children`` are to be written. Once they are: ``starts`` are commands to carry out, ``cancels`` children
    to cancel. ``published`` is the whole visible state, if it changed.
    """

    rows: tuple[Row, ...]
    starts: tuple[Leaf, ...]
    children: tuple[Leaf, ...]
    cancels: tuple[str, ...]
    published: dict[str, Any] | None
    end: Returned | Raised | None


class Interpreter(Advance):
    """One run's workflow, from its start or its journal to where it waits or ends."""

    def __init__(self, identity: Identity, codec: Codec) -> None:
        super().__init__(Recorder(), codec, identity.info.id, identity.info.generation, identity.may_have_children)
        self.identity = identity
        self.late = 0
        self.started: Started | None = None
        self._closing = False
        self._refusals = 0
        self._made: dict[int, Command[Any]] = {}
        self._published: dict[str, Any] | None = None
        self.state: dict[str, Any] = {}

    # --- live events --------------------------------------------------------------------------------------------------

    def begin(self, started: Started, at: datetime) -> None:
        """Start the workflow: row 0."""
        self.started = started
        self._live("started", "", msgspec.json.encode(started).decode(), at, self._begin)

    def answer(self, position: str, text: str | None, value: Any, at: datetime) -> bool:
        """Feed a command's recorded answer; ``value`` is ``text`` decoded. False if it is not waited for any more."""
        return self._feed_leaf("answered", position, text, at, True, value)

    def fail(self, position: str, text: str, at: datetime) -> bool:
        """Feed a command's recorded failure."""
        leaf = self.leaves.get(position)
        if leaf is None:
            self.late += 1
            return False
        ok, value = self._failure(leaf, text)
        return self._feed_leaf("failed", position, text, at, ok, value)

    def interrupt(self, position: str, at: datetime) -> bool:
        """Feed that a step was cut off by a cancel: what became of it is unknown."""
        return self._feed_leaf("interrupted", position, None, at, False, Cancelled(self.cancel_reason))

    def cancel(self, reason: str | None, at: datetime) -> None:
        """Feed a cancel. A second one adds nothing."""
        if not self.cancel_requested and self.end is None:
            text = None if reason is None else msgspec.json.encode(reason).decode()
            self._live("cancel", "", text, at, lambda: self._cancel_run(reason))

    def collect(self) -> Progress:
        """What has come of the events since the last collect. Call it when nothing more can be fed now."""
        starts, self.asked_now = tuple(self.asked_now.values()), {}
        children, self.new_children = tuple(self.new_children), []
        cancels, self.cancels = tuple(self.cancels), []
        published, self._published = self._published, None
        return Progress(self.recorder.take_rows(), starts, children, cancels, published, self.end)

    # --- replay -------------------------------------------------------------------------------------------------------

    def replay(self, rows: Sequence[Row], at: datetime) -> None:
        """Feed a journal from its row 0. ``at`` is the time of what is asked now for the first time, if anything is."""
        recorder = self.recorder
        recorder.replaying = True
        pending: deque[Row] = deque(rows)
        while pending:
            row = pending.popleft()
            asked = row.asked
            if asked is None and pending and _takes_up(pending[0]):
                asked = pending.popleft().asked
                recorder.place += 1
            self._replay_row(row, asked)
        recorder.replaying = False
        if recorder.unrecorded:
            self._put_on_record(at)
        self._pump()

    def _replay_row(self, row: Row, asked: str | None) -> None:
        if self.end is not None:
            raise diverged(row.position, None, None, None) if row.kind == "cancel" else self._left_over(row)
        self.recorder.replay_event(row, asked)
        if self.derived:
            derived = self.derived.popleft()
            if (derived.kind, derived.position, derived.value) != (row.kind, row.position, row.value):
                raise self._other_event(row, f"{derived.kind} {derived.position}")
            derived.feed()
        elif row.kind in _ARE_ANSWERS:
            self._replay_answer(row)
        elif row.kind == "started":
            self.started = msgspec.json.decode(row.value or "{}", type=Started)
            self._begin()
        elif row.kind == "cancel":
            reason = None if row.value is None else msgspec.json.decode(row.value)
            self._cancel_run(reason)
        else:
            raise self._other_event(row, "nothing of the kind")
        self.recorder.replayed_event(self._line())

    def _replay_answer(self, row: Row) -> None:
        leaf = self.leaves.get(row.position)
        if leaf is None:
            raise self._other_event(row, "no such command")
        if row.kind == "answered":
            ok, value = True, self.decoded(leaf, row.value)
        elif row.kind == "failed":
            ok, value = self._failure(leaf, row.value or "{}")
        else:
            ok, value = False, Cancelled(self.cancel_reason)
        self._settle_leaf(leaf, ok, value)

    def _put_on_record(self, at: datetime) -> None:
        """What the new code asks where the old one failed goes on record before it starts."""
        recorder = self.recorder
        asks, recorder.unrecorded = recorder.unrecorded, []
        recorder.at = max(recorder.at, at)
        text = msgspec.json.encode({TAKEN_UP: True}).decode()
        recorder.rows.append(Row(recorder.place, "mark", "", recorder.at, text, asked_text(asks)))
        recorder.place += 1

    # --- one event ----------------------------------------------------------------------------------------------------

    def _feed_leaf(self, kind: RowKind, position: str, text: str | None, at: datetime, ok: bool, value: Any) -> bool:
        leaf = self.leaves.get(position)
        if leaf is None:
            self.late += 1
            return False
        deadline = leaf.asked.deadline
        if deadline is not None and leaf.command.kind == "sleep" and at < deadline:
            at = deadline
        recorder = self.recorder
        recorder.open_event(at)
        try:
            self._settle_leaf(leaf, ok, value)
        except Blocked:
            recorder.abandon_event(kind, position, text)
            raise
        recorder.close_event(kind, position, text)
        if self.derived:
            self._pump()
        return True

    def _live(self, kind: RowKind, position: str, text: str | None, at: datetime, feed: Callable[[], None]) -> None:
        self.recorder.open_event(at)
        try:
            feed()
        except Blocked:
            if kind != "started":
                self.recorder.abandon_event(kind, position, text)
            raise
        self.recorder.close_event(kind, position, text)
        self._pump()

    def _pump(self) -> None:
        while self.derived:
            event = self.derived.popleft()
            recorder = self.recorder
            recorder.open_event(recorder.at)
            try:
                event.feed()
            except Blocked:
                recorder.abandon_event(event.kind, event.position, event.value)
                raise
            recorder.close_event(event.kind, event.position, event.value)

    def _begin(self) -> None:
        try:
            generator: Any = self.identity.body(self.context())
            if not isinstance(generator, Generator):
                raise UsageError(f"the workflow function made {type(generator).__name__}, not a generator: it must yield")
        except Blocked:
            raise
        except Exception as error:  # noqa: BLE001 - calling the function is part of the workflow
            if is_code_fault(error):
                raise Blocked(f"{type(error).__name__}: {error}", position="0", error=error) from error
            self.end = Raised(error)
            return
        self.root = Branch(generator, "", None, 0)
        self._advance(self.root, True, None)

    def decoded(self, leaf: Leaf, text: str | None) -> Any:
        """A recorded answer as its command's type. Raises Blocked if it does not fit any more."""
        try:
            return None if text is None else self.codec.decode(text, answer_type(leaf.command), f"the answer of {leaf!r}")
        except DecodingError as error:
            raise Blocked(
                f"position {leaf.position}: the recorded answer of {leaf.command!r} no longer fits: {error}",
                position=leaf.position,
                line=self._line(),
                error=error,
            ) from error

    def _failure(self, leaf: Leaf, text: str) -> tuple[bool, Any]:
        """A failure's exception, made anew; or a wait's default, where that is how it timed out."""
        spec = leaf.command.spec
        failure = read(text)
        if isinstance(spec, SignalSpec) and spec.has_default and failure.type == "SignalTimeout":
            return True, spec.default
        try:
            error = rebuild(text, self.identity.modules)
        except CannotRebuild as cannot:
            raise Blocked(
                f"position {leaf.position}: the recorded failure of {leaf.command!r} cannot be rebuilt here: {cannot}",
                position=leaf.position,
                line=self._line(),
                error=ImportError(str(cannot)),
            ) from cannot
        return False, error

    def context(self) -> Context:
        return Context(self)

    # --- what the context needs ---------------------------------------------------------------------------------------

    @property
    def replaying(self) -> bool:
        return self.recorder.replaying or self._closing

    def now(self) -> datetime:
        return self.recorder.at

    def uuid(self) -> UUID:
        return draw_uuid(self._seed(), self.branch)

    def random(self) -> Random:
        return draw_random(self._seed(), self.branch)

    def info(self) -> Info:
        return msgspec.structs.replace(self.identity.info, entries=self.recorder.place)

    def made(self, command: Command[Any]) -> None:
        """Note a new command and its line; refuse a few times, then ignore, while closing."""
        if self._closing:
            self._refusals += 1
            if self._refusals <= 3:
                raise Inert("this run is being parked: nothing is asked for any more")
            return
        frame = sys._getframe(2)
        while frame.f_back is not None and frame.f_globals.get("__name__") in _OURS:
            frame = frame.f_back
        command.code = frame.f_code
        command.lineno = frame.f_lineno
        self._made[id(command)] = command

    def used(self, command: Command[Any]) -> None:
        self._made.pop(id(command), None)

    def publish(self, values: dict[str, Any]) -> None:
        self.state = {**self.state, **values}
        if self.recorder.recording:
            self._published = self.state

    def never_yielded(self) -> tuple[Command[Any], ...]:
        """Commands that were made and not asked for: each probably a forgotten ``yield``."""
        return tuple(self._made.values())

    # --- the end ------------------------------------------------------------------------------------------------------

    def stack(self) -> str | None:
        """Where the root branch is parked."""
        return None if self.root is None else parked_line(self.root.generator)

    def close(self) -> list[Generator[Any, Any, Any]]:
        """Close every generator, innermost first, on this thread. Returns those that refuse, to be kept alive for good."""
        self._closing = True
        leaked = []
        root, self.root = self.root, None
        if root is not None:
            leaked = [branch.generator for branch in branches(root) if not _closed(branch.generator)]
        self.leaves.clear()
        self._made.clear()
        return leaked

    def _seed(self) -> str:
        return self.started.seed if self.started is not None else self.identity.info.id

    def _left_over(self, row: Row) -> Blocked:
        return Blocked(
            f"position {row.position}: the journal goes on ({row.kind}), but the workflow has ended; "
            "the code changed while this run was open, or is not deterministic",
            position=row.position,
            recorded=row.kind,
        )

    def _other_event(self, row: Row, instead: str) -> Blocked:
        return Blocked(
            f"position {row.position}: the journal holds {row.kind!r} (row {row.place}), but the workflow has {instead}; "
            "the code changed while this run was open, or is not deterministic",
            position=row.position,
            recorded=row.kind,
            asked=instead,
            line=self._line(),
        )

    def _line(self) -> str | None:
        return None if self.branch is None else parked_line(self.branch.generator)


def _takes_up(row: Row) -> bool:
    return row.kind == "mark" and row.value is not None and TAKEN_UP in row.value


def _closed(generator: Generator[Any, Any, Any]) -> bool:
    for _ in range(3):
        try:
            generator.close()
        except BaseException:  # noqa: BLE001, S112 - whatever user code does while it is closed, it is closed
            continue
        break
    return generator.gi_frame is None if hasattr(generator, "gi_frame") else True


