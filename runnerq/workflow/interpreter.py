"""The interpreter: feeds a workflow its answers, in the journal's order, and says what it asked next. Pure.

Rules (DESIGN section 5)
- Feed only what is recorded; a live answer is encoded and decoded before it comes here.
- One event is fed at a time. Feeding it advances branches, which ask for commands; these are the event's asks. What an
  event decides (members to close, a composite's own answer) becomes derived events, each a row of its own.
- In replay the same events come from the journal, and each ask is compared as it is made.
- Nothing live starts, and ``replaying`` does not turn false, before every recorded row has been fed.
- A run that is about to end badly undoes first what is to be undone; a cancel adds nothing from then on.
- Divergence and faults of the code leave as ``Blocked``; it is never thrown into user code. The interpreter is then
  good for nothing but ``collect`` and ``close``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Sequence
from datetime import datetime
from typing import Any, assert_never

import msgspec

from runnerq.errors import DecodingError, UsageError
from runnerq.serialization.codec import Codec
from runnerq.workflow.advance import Advance
from runnerq.workflow.answers import decoded, failed
from runnerq.workflow.commands import Command
from runnerq.workflow.context import Context
from runnerq.workflow.deciding import Answer, Close, Derived, Refuse, row_of
from runnerq.workflow.ending import Blocked, End
from runnerq.workflow.identity import Identity
from runnerq.workflow.journal import RULES, Row, RowKind, Started
from runnerq.workflow.recorder import diverged, other_row, takes_up
from runnerq.workflow.reopening import accepted_before, effective
from runnerq.workflow.tree import Branch, Leaf, Thrown, Undoing, closed, line_of, parked_frames, take_apart

__all__ = ["LONG", "Identity", "Interpreter", "Progress"]

LONG = 10_000
"""Rows after which a generation is long enough to say so: ``ctx.continue_as_new`` would begin a new one."""


class Progress(msgspec.Struct, frozen=True, gc=False):
    """What has come of the events fed since the last collect.

    ``rows`` and ``children`` are to be written. Once they are: ``starts`` are commands to carry out, ``cancels`` are
    children to cancel. ``published`` is the whole visible state, if it changed. ``grown_long`` says, once, that the
    journal has come to LONG rows.
    """

    rows: tuple[Row, ...]
    starts: tuple[Leaf, ...]
    children: tuple[Leaf, ...]
    cancels: tuple[str, ...]
    published: dict[str, Any] | None
    end: End | None
    grown_long: bool


class Interpreter(Advance):
    """One run's workflow, from its start or its journal to where it waits or ends."""

    def __init__(self, identity: Identity, codec: Codec) -> None:
        super().__init__(identity, codec)
        self.started: Started | None = None
        self.cancel_requested = False
        self.cancel_reason: str | None = None
        self.began_at = self.recorder.at
        self.late = 0
        self._published: dict[str, Any] | None = None

    @property
    def undoing(self) -> bool:
        """Whether the run is about to end badly, and its undos have begun."""
        return self._undoing is not None

    @property
    def heeds_cancel(self) -> bool:
        """Whether a cancel, or the run's own deadline, still changes anything."""
        return self.root is not None and self.end is None and not self.cancel_requested and self._undoing is None

    # --- live events --------------------------------------------------------------------------------------------------

    def begin(self, started: Started, at: datetime) -> None:
        """Start the workflow: row 0. Raises Blocked; nothing is on record then."""
        self.recorder.open_event(at)
        self._begin(started)
        self.recorder.close_event("started", "", msgspec.json.encode(started).decode())
        self._pump()

    def answer(self, position: str, text: str | None, value: Any, at: datetime) -> bool:
        """Feed a command's recorded answer; ``value`` is ``text`` decoded. False if it is not waited for any more."""
        leaf = self.leaves.get(position)
        if leaf is None:
            self.late += 1
            return False
        deadline = leaf.asked.deadline
        if deadline is not None and leaf.command.kind == "sleep":
            at = max(at, deadline)
        self._feed("answered", position, text, at, self._settle, leaf, value)
        return True

    def follow(self, position: str, value: Any, at: datetime) -> None:
        """Feed a command's answer that is on record already, at the next place: its transaction's commit has put it
        there.

        Nothing else may have been fed since. What is asked on it is a ``mark`` behind it. Raises Blocked; the answer
        alone is on record then.
        """
        self.recorder.open_recorded_now(at)
        self._settle(self.leaves[position], value)
        self.recorder.close_abandoned()
        self._pump()

    def fail(self, position: str, text: str, at: datetime) -> bool:
        """Feed a command's recorded failure. False if it is not waited for any more."""
        leaf = self.leaves.get(position)
        if leaf is None:
            self.late += 1
            return False
        self._feed("failed", position, text, at, self._fail, leaf, text)
        return True

    def interrupt(self, position: str, at: datetime) -> bool:
        """Feed that a step was cut off by a cancel, so that what became of it is unknown. False as for ``answer``."""
        leaf = self.leaves.get(position)
        if leaf is None:
            self.late += 1
            return False
        self._feed("interrupted", position, None, at, self._interrupt, leaf)
        return True

    def cancel(self, reason: str | None, at: datetime) -> None:
        """Feed a cancel. A second one adds nothing, nor does one of a run that has ended or whose undos have begun."""
        if self.root is not None and self.heeds_cancel:
            text = None if reason is None else msgspec.json.encode(reason).decode()
            self._feed("cancel", "", text, at, self._cancel_run, self.root, reason)

    def collect(self) -> Progress:
        """What has come of the events since the last collect. Call it when nothing more can be fed now."""
        starts, self.asked_now = tuple(self.asked_now.values()), {}
        children, self.new_children = tuple(self.new_children), []
        cancels, self.cancels = tuple(self.cancels), []
        published, self._published = self._published, None
        rows, place = self.recorder.take_rows(), self.recorder.place
        return Progress(rows, starts, children, cancels, published, self.end, LONG <= place < LONG + len(rows))

    # --- replay -------------------------------------------------------------------------------------------------------

    def replay(self, rows: Sequence[Row], at: datetime) -> None:
        """Feed a journal from its row 0. ``at`` is the time of what is asked now for the first time, if anything is.

        Raises Blocked where the code does not follow the journal, or cannot read it.
        """
        recorder = self.recorder
        recorder.replaying = True
        # Publishing merges again from the start: with what came later, the state could be larger than it ever was.
        self.state = {}
        fed = iter(self._effective(rows))
        for row in fed:
            asked, place, fed_at = row.asked, row.place, row.at
            mark = next(fed, None) if asked is None else None
            if mark is not None:
                if not takes_up(mark):
                    raise other_row(mark, "the workflow failed on the row before it", line_of(self.root))
                asked, place, fed_at = mark.asked, mark.place, mark.at
            try:
                if asked is None:
                    self._take_up(row, rows[-1].place + 1, max(at, rows[-1].at))
                else:
                    self._follow(row, asked, place, fed_at)
            except (msgspec.DecodeError, DecodingError) as error:
                raise Blocked(f"row {row.place} of the journal cannot be read: {error}", error=error) from error
        # Whoever opened the run again gave it its time anew.
        self.began_at = max([self.began_at, *(row.at for row in rows if row.kind == "reopened")])
        recorder.place = max(recorder.place, rows[-1].place + 1)
        recorder.replaying = False
        self._pump()

    def _effective(self, rows: Sequence[Row]) -> list[Row]:
        try:
            rules = RULES if rows[0].kind != "started" else msgspec.json.decode(rows[0].value or "", type=_Rules).rules
            if rules > RULES:
                raise Blocked(
                    f"its journal was written by rules {rules} of runnerq, and this worker knows rules {RULES}: "
                    "a newer worker takes it up"
                )
            self.recorder.accept_before = accepted_before(rows)
            return effective(rows)
        except (msgspec.DecodeError, DecodingError) as error:
            raise Blocked(f"the journal cannot be read: {error}", error=error) from error

    def _follow(self, row: Row, asked: str, place: int, at: datetime) -> None:
        """Feed a recorded row, on which this was asked."""
        self.recorder.open_recorded(place, at, asked)
        self._feed_row(row)
        missing = self.recorder.close_recorded(self._undoing or self.root)
        if missing is not None:
            raise diverged(missing.position, missing, None, self._line_left(missing.position))

    def _take_up(self, row: Row, place: int, at: datetime) -> None:
        """Feed the last row to code that may do better with it than the code that failed on it."""
        self.recorder.open_abandoned(place, at)
        self._feed_row(row)
        self.recorder.close_abandoned()

    def _line_left(self, position: str) -> str | None:
        """Where the code stands that was to ask for this, or where it ended instead."""
        if self._undoing is None and self._left is not None and position.startswith(self._left[0]):
            return self._left[1]
        return line_of(self._undoing or self.root)

    def _feed_row(self, row: Row) -> None:
        if self.end is not None:
            raise other_row(row, "the workflow has ended", self._line_left(""))
        derived = self._next_derived()
        if derived is not None:
            if isinstance(derived, Refuse) and row.value is not None:
                derived = Refuse(derived.leaf, row.value)
            kind, position, value = row_of(derived)
            if (row.kind, row.position, row.value) != (kind, position, value):
                raise other_row(row, f"the workflow goes on with '{kind} {position}'", line_of(self.root))
            self._feed_derived(derived)
        elif row.kind == "started" and self.root is None:
            self._begin(msgspec.json.decode(row.value or "{}", type=Started))
        elif row.kind == "cancel" and self.root is not None and self.heeds_cancel:
            self._cancel_run(self.root, None if row.value is None else msgspec.json.decode(row.value, type=str))
        else:
            self._feed_answer(row)

    def _feed_answer(self, row: Row) -> None:
        leaf = self.leaves.get(row.position)
        if leaf is None:
            raise other_row(row, "the workflow does not wait for that", line_of(self.root))
        match row.kind:
            case "answered":
                self._settle(leaf, self.decoded(leaf, row.value))
            case "failed":
                self._fail(leaf, row.value or "")
            case "interrupted":
                self._interrupt(leaf)
            case "reopened" if isinstance(leaf.parent, Undoing):
                # It failed, and was taken back: it stays open, and the next one is asked for as it was.
                self._undo_next(leaf.parent)
            case _:
                raise other_row(row, f"the workflow waits for {leaf.command!r} there", line_of(self.root))

    # --- events -------------------------------------------------------------------------------------------------------

    def _feed(
        self, kind: RowKind, position: str, text: str | None, at: datetime, feed: Callable[..., None], *args: Any
    ) -> None:
        """One live event, and those that follow from it. Where the code fails on it, the answer alone is kept."""
        recorder = self.recorder
        recorder.open_event(at)
        try:
            feed(*args)
        except Blocked:
            recorder.abandon_event(kind, position, text)
            raise
        recorder.close_event(kind, position, text)
        if self.derived:
            self._pump()

    def _pump(self) -> None:
        while (event := self._next_derived()) is not None:
            recorder = self.recorder
            recorder.open_event(recorder.at)
            try:
                self._feed_derived(event)
            except Blocked:
                recorder.abandon_event(*row_of(event))
                raise
            recorder.close_event(*row_of(event))

    def _feed_derived(self, event: Derived) -> None:
        match event:
            case Close(member=member):
                self._close(member)
            case Answer(composite, decision):
                self._answer(composite, decision.answer)
            case Refuse(leaf, text):
                self._fail(leaf, text)
            case _:
                assert_never(event)

    def _begin(self, started: Started) -> None:
        self.started = started
        self.began_at = started.began_at or self.recorder.at
        self.driver.seed = started.seed
        self.state = started.state
        root = self.root = Branch("", None, 0)
        made = self._call_body(root, started.own_arguments)
        if isinstance(made, Thrown):
            self._branch_ended(root, made)
        else:
            root.generator = made
            self._live[root] = None
            self._advance(root, None)

    def _call_body(self, root: Branch, arguments: str | None) -> Generator[Any, Any, Any] | Thrown:
        # The root draws already, so that what the function itself draws is not drawn again by its first lines.
        self.driver.branch = root
        try:
            made: Any = self._context.copy().run(self.identity.body, Context(self.driver), arguments)
        except (KeyboardInterrupt, Blocked):
            raise
        except BaseException as error:  # noqa: BLE001 - calling the function is a part of the workflow
            return Thrown(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
        finally:
            self.driver.branch = None
        if isinstance(made, Generator):
            return made
        if inspect.iscoroutine(made):
            made.close()
        kind = type(made).__name__
        return Thrown(
            UsageError(f"the workflow's function gave {kind} and not a generator: it must yield its commands")
        )

    def _fail(self, leaf: Leaf, text: str) -> None:
        self._settle(leaf, failed(leaf, text, self.identity.modules))

    def _cancel_run(self, root: Branch, reason: str | None) -> None:
        self.cancel_requested = True
        self.cancel_reason = reason
        self._cancel(root, reason)

    def decoded(self, leaf: Leaf, text: str | None) -> Any:
        """A recorded answer as its command's type. Raises Blocked if it does not fit any more."""
        return decoded(leaf, text, self.codec)

    def publish(self, command: Command[Any]) -> None:
        values = self.codec.decode(command.payload or "{}", dict[str, Any], command)
        self.state = {**self.state, **values}
        if self.recorder.recording:
            self._published = self.state

    # --- the end ------------------------------------------------------------------------------------------------------

    def never_yielded(self) -> tuple[Command[Any], ...]:
        """Commands that were made and not asked for: each probably a forgotten ``yield``."""
        return self.driver.never_yielded()

    def stack(self) -> list[str]:
        """Where the workflow is parked, outermost first: ``file:line in function``."""
        if self._undoing is not None:
            return [place] if (place := self._undoing.last.place) is not None else []
        return [] if self.root is None else parked_frames(self.root.generator)

    def close(self) -> list[Generator[Any, Any, Any]]:
        """Close every generator, innermost first, on this thread. Returns those that refuse, to be kept alive for good.

        Nothing can be asked of the interpreter afterwards.
        """
        self.driver.close()
        interrupted = None
        leaked = []
        for branch in reversed(self._live):
            try:
                if not self._context.copy().run(closed, branch.generator):
                    leaked.append(branch.generator)
            except KeyboardInterrupt as interrupt:
                interrupted = interrupt
            take_apart(branch.waiting)
            branch.waiting = None
        self._live.clear()
        self._unstarted.clear()
        for kept in (
            self.leaves,
            self.asked_now,
            self.children,
            self.derived,
            self.opened,
            self.new_children,
            self._timed,
        ):
            kept.clear()
        self.root = self.end = self._undoing = None
        if interrupted is not None:
            raise interrupted
        return leaked


class _Rules(msgspec.Struct, frozen=True):
    """What every version of the rules writes into row 0."""

    rules: int
