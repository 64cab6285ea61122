"""How branches advance: they are fed an answer, and ask for commands until one is to be waited for.

Rules
- A command is numbered when it is asked for, per branch; a composite's members by index.
- Publishing, spawning and an empty composite answer at once: they are asks without an answer of their own.
- A child that is refused when it is asked for (too deep) is on record as that: without a child's id. Its failure is an
  event of its own, so that replay does not ask again how deep a run may lie.
- When the root ends badly, its undos are asked for one by one, each on the answer of the one before; then the run ends.
- User code is never called while an exception is handled here: it would see that one as the context of its own. Each
  time it runs in a fresh copy of the contextvars that were there when the interpreter was made.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Generator
from datetime import datetime, timedelta
from types import FrameType
from typing import Any

from runnerq.errors import Cancelled, DepthExceeded, EncodingError, UsageError
from runnerq.ids import derived_run_id
from runnerq.serialization.codec import Codec
from runnerq.serialization.failures import record
from runnerq.workflow.child_handle import ChildHandle
from runnerq.workflow.commands import ChildSpec, Command, SignalSpec, SleepSpec
from runnerq.workflow.deciding import Deciding, Refuse, all_values
from runnerq.workflow.driver import ContinueAsNew, Driver
from runnerq.workflow.ending import Blocked, ContinuedAsNew, End, Raised, Returned, UndoFailed, is_code_fault, is_stray
from runnerq.workflow.identity import Identity
from runnerq.workflow.journal import Asked
from runnerq.workflow.prepare import Preparation, published
from runnerq.workflow.recorder import Recorder
from runnerq.workflow.tree import Branch, Composite, Leaf, Thrown, Undoing, line_of, raised_at, stands_at
from runnerq.workflow.yields import claim, discard, hint

MAX_YIELDS = 100_000
"""Commands that a branch may ask for without waiting for one; more looks like a loop that never ends."""


class Advance(Deciding):
    """The moving part of an interpreter."""

    def __init__(self, identity: Identity, codec: Codec) -> None:
        super().__init__()
        self.identity = identity
        self.codec = codec
        self.recorder = Recorder(identity.build, identity.build_seen)
        self._preparation = Preparation(codec, identity, self.recorder)
        self.driver = Driver(identity.info, self.recorder, self._preparation)
        self.run_id = identity.info.id
        self.root: Branch | None = None
        self.new_children: list[Leaf] = []
        self.state: dict[str, Any] = {}
        self.end: End | None = None
        self._undoing: Undoing | None = None
        # In replay: what the branch that ended last begins its positions with, and the line that it left by.
        self._left: tuple[str, str] | None = None
        self._live: dict[Branch, None] = {}
        self._unstarted: set[Any] = set()
        self._context = identity.drive()

    @abstractmethod
    def publish(self, command: Command[Any]) -> None:
        """Merge what it publishes into the run's visible state."""

    # --- branches -----------------------------------------------------------------------------------------------------

    def _advance(self, branch: Branch, answer: Any) -> None:
        branch.waiting = None
        generator = branch.generator
        driver = self.driver
        outer, driver.branch = driver.branch, branch
        frame: FrameType | None = getattr(generator, "gi_frame", None) if self.recorder.replaying else None
        try:
            for _ in range(MAX_YIELDS):
                try:
                    resume = self._context.copy().run
                    thrown = isinstance(answer, Thrown)
                    yielded = resume(generator.throw, answer.take()) if thrown else resume(generator.send, answer)
                except StopIteration as stop:
                    answer = stop.value
                    break
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # noqa: BLE001 - user code; every way to leave it is an end of the branch
                    answer = Thrown(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
                    break
                if branch.pending:
                    branch.pending = False
                    if driver.continued is not None:
                        self._yielded_too_late(yielded, driver.continued)
                        return
                    discard(yielded, driver)
                    answer = Thrown(Cancelled(branch.reason))
                    continue
                try:
                    command = claim(yielded, driver, branch.prefix, self._unstarted)
                    self._preparation.prepare(command, branch)
                    if command.payload is not None or command.members:
                        self._check_published(command)
                except (UsageError, EncodingError) as error:
                    answer = Thrown(error.with_traceback(None))
                    continue
                branch.count += 1
                waiting, answer = self._ask(command, f"{branch.prefix}{branch.count}", branch, 0)
                if waiting is not None:
                    branch.waiting = waiting
                    return
            else:
                raise _endless(branch)
            self._left = frame and (branch.prefix, stands_at(frame))
        finally:
            driver.branch = outer
            frame = None
        try:
            self._branch_ended(branch, answer)
        finally:
            answer = None  # The error's frames may keep this one alive: see Thrown.

    def _yielded_too_late(self, yielded: Any, arguments: str) -> None:
        """The workflow has continued as new: that ends it, and its generator is closed with the others."""
        # Not asked for, and so told as any command that was never yielded.
        if inspect.iscoroutine(yielded):
            yielded.close()
        self.end = ContinuedAsNew(arguments)

    def _check_published(self, command: Command[Any]) -> None:
        """Raise EncodingError if a command makes the visible state too large, which is one payload."""
        values: dict[str, Any] = {}
        for each in published(command):
            values |= each.kwargs
        if values:
            self.codec.encode({**self.state, **values}, f"the published state of run {self.run_id}")

    def _branch_ended(self, branch: Branch, answer: Any) -> None:
        self._live.pop(branch, None)
        if branch.parent is None and self.driver.continued is not None:
            lost = answer.take() if isinstance(answer, Thrown) else None
            self.end = ContinuedAsNew(self.driver.continued, None if isinstance(lost, ContinueAsNew) else lost)
            return
        if isinstance(answer, Command | Generator) or inspect.iscoroutine(answer):
            whose = "the workflow" if branch.parent is None else f"the branch at {branch.position}"
            answer = Thrown(UsageError(f"{whose} returned {hint(answer)}"))
        if isinstance(answer, Thrown) and is_code_fault(answer.error):
            raise _fault(branch, answer.take())
        if branch.parent is not None:
            self._member_ended(branch.parent, branch.index, answer)
        elif isinstance(answer, Thrown):
            self._failed(answer.take())
        else:
            self._returned(answer)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _returned(self, value: Any) -> None:
        try:
            self.end = Returned(value, self._preparation.result(value))
        except EncodingError as error:
            thrown = Thrown(error.with_traceback(None))
        else:
            return
        self._failed(thrown.take())

    def _failed(self, error: BaseException) -> None:
        """End the run with this, once all that is to be undone is."""
        if self.driver.undos and not is_stray(error):
            self._undoing = Undoing(error, self.driver.undos)
            self._undo_next(self._undoing)
        else:
            self.end = Raised(error)

    def _undo_next(self, undoing: Undoing) -> None:
        if undoing.left:
            command = undoing.last = undoing.left.pop()
            undoing.count += 1
            undoing.open += 1
            asked = Asked(f"u{undoing.count}", "undo", command.name, command.digest)
            self._open(Leaf(command, self.recorder.ask(asked, undoing, command.options), undoing, 0))
        elif not undoing.open:
            error, failed = undoing.error, undoing.failed
            self.end = Raised(error) if failed is None else UndoFailed(error, failed)

    def _undo_ended(self, undoing: Undoing, answer: Any) -> None:
        undoing.open -= 1
        if isinstance(answer, Thrown):
            undoing.failed = answer.take()
        self._undo_next(undoing)

    # --- asking -------------------------------------------------------------------------------------------------------

    def _ask(
        self, command: Command[Any], position: str, parent: Branch | Composite, index: int
    ) -> tuple[Leaf | Composite | None, Any]:
        """Ask for a command: what is waited for now, or None and its answer, if it answers at once."""
        kind, spec = command.kind, command.spec
        if kind in ("all", "race"):
            return self._ask_composite(command, position, parent, index)
        deadline, child = (None, None) if spec is None else self._terms(command, position)
        asked = self.recorder.ask(
            Asked(position, kind, command.name, command.digest, deadline, child), parent, command.options
        )
        if kind == "publish":
            self.publish(command)
            return None, None
        leaf = Leaf(command, asked, parent, index)
        if isinstance(spec, ChildSpec) and spec.child_id is None:
            return self._ask_child(leaf)
        self._open(leaf)
        return leaf, None

    def _ask_child(self, leaf: Leaf) -> tuple[Leaf | None, Any]:
        """Have a child started, or refused."""
        command, child = leaf.command, leaf.asked.child
        if child is None:
            text = record(DepthExceeded(self.run_id, command.name), self.identity.modules, retryable=False)
            self.leaves[leaf.position] = leaf
            self.derived.append(Refuse(leaf, text))
            return leaf, None
        detached = bool(command.options.detached)
        if not detached:
            self.children[child] = leaf
        if self.recorder.recording:
            self.new_children.append(leaf)
        if command.kind == "spawn":
            return None, ChildHandle(self.driver, child, command.name, command.fn, detached=detached)
        self._open(leaf)
        return leaf, None

    def _terms(self, command: Command[Any], position: str) -> tuple[datetime | None, str | None]:
        """The deadline and the child's id that are put on record with an ask."""
        spec, at = command.spec, self.recorder.at
        if isinstance(spec, SleepSpec):
            return spec.until or at + timedelta(seconds=spec.seconds or 0), None
        if isinstance(spec, SignalSpec):
            return None if spec.timeout is None else at + timedelta(seconds=spec.timeout), None
        if not isinstance(spec, ChildSpec):
            return None, None
        if spec.child_id is not None or not (self.identity.may_have_children or command.options.detached):
            return None, spec.child_id
        return None, derived_run_id(at, self.run_id, str(self.identity.info.generation), position)

    def _ask_composite(
        self, command: Command[Any], position: str, parent: Branch | Composite, index: int
    ) -> tuple[Composite | None, Any]:
        asked = Asked(position, command.kind, command.name, command.digest)
        self.recorder.ask(asked, parent, command.options)
        composite = Composite(command, position, parent, index)
        if not command.members:
            return None, all_values(composite)
        # Known to its parent before its members start, so that closing finds them if one of them blocks the run.
        if isinstance(parent, Branch):
            parent.waiting = composite
        else:
            parent.members[index] = composite
        self._start_members(composite)
        return composite, None

    def _start_members(self, composite: Composite) -> None:
        """Start members in index order, as many as the limit lets run, until one decides."""
        if composite.starting:  # by a call further up, which goes on with what has become free
            return
        composite.starting = True
        members = composite.command.members
        while composite.next < len(members) and composite.open < composite.limit and not composite.over:
            index = composite.next
            composite.next += 1
            composite.open += 1
            self._start_member(composite, index, members[index])
        composite.starting = False

    def _start_member(self, composite: Composite, index: int, member: Any) -> None:
        position = f"{composite.position}.{index}"
        if isinstance(member, Command):
            waiting, value = self._ask(member, position, composite, index)
            composite.members[index] = waiting
            if waiting is None:
                self._member_ended(composite, index, value)
        else:
            self._unstarted.discard(member)
            branch = Branch(f"{position}.", composite, index)
            branch.generator = member
            composite.members[index] = branch
            self._live[branch] = None
            self._advance(branch, None)


def _fault(branch: Branch, error: BaseException) -> Blocked:
    blocked = Blocked(f"{type(error).__name__}: {error}", position=branch.place, line=raised_at(error), error=error)
    blocked.__cause__ = error
    return blocked


def _endless(branch: Branch) -> Blocked:
    message = (
        f"the branch that has asked for {branch.place} has yielded {MAX_YIELDS:,} times without waiting for an answer: "
        "it looks like a loop that never ends"
    )
    return Blocked(message, position=branch.place, line=line_of(branch), error=UsageError(message))
