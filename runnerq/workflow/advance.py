"""How branches and composites advance: pure control flow over the tree of what a run waits for.

Rules
- A command is numbered when it is asked for, per branch; a composite's members by index.
- Publishing, spawning and an empty composite answer at once: they are asks without an answer of their own.
- A composite is decided by its first error, a race also by its first value. Open members are then closed, each by a derived
  event; when its losing branches have finished their cleanup, its own answer is a derived event too.
- A branch gets Cancelled at most once. One that waits for a step gets that step's answer first, and Cancelled at its next
  yield; one that waits for anything else gets it at once.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Generator
from datetime import timedelta
from typing import Any

from runnerq.errors import Cancelled, DepthExceeded, EncodingError, UsageError
from runnerq.ids import derived_run_id
from runnerq.serialization.codec import Codec
from runnerq.workflow.commands import AllSpec, ChildSpec, Command, SignalSpec, SleepSpec, Winner
from runnerq.workflow.context import ChildHandle, Context
from runnerq.workflow.ending import Blocked, Raised, Returned, is_code_fault
from runnerq.workflow.journal import Asked, RowKind
from runnerq.workflow.prepare import prepare
from runnerq.workflow.recorder import Recorder
from runnerq.workflow.tree import Branch, Composite, Decision, Leaf, parked_line

_EFFECTS = frozenset({"step", "send", "cancel"})
"""What is answered before a cancel is delivered: it may be half done."""


class Derived:
    """An event that follows from the ones before it."""

    __slots__ = ("feed", "kind", "position", "value")

    def __init__(self, kind: RowKind, position: str, value: str | None, feed: Callable[[], None]) -> None:
        self.kind = kind
        self.position = position
        self.value = value
        self.feed = feed


class Advance(ABC):
    """The moving part of an interpreter."""

    def __init__(
        self, recorder: Recorder, codec: Codec, run_id: str, generation: int, may_have_children: bool
    ) -> None:
        self.recorder = recorder
        self.codec = codec
        self.run_id = run_id
        self.generation = generation
        self.may_have_children = may_have_children
        self.opened: list[Leaf] = []
        self.cutting: set[str] = set()
        self._timed: dict[str, Leaf] = {}
        self.key = run_id.replace("-", "").encode()
        self.root: Branch | None = None
        self.branch: Branch | None = None
        self.leaves: dict[str, Leaf] = {}
        self.asked_now: dict[str, Leaf] = {}
        self.new_children: list[Leaf] = []
        self.children: dict[str, Leaf] = {}
        self.cancels: list[str] = []
        self.derived: deque[Derived] = deque()
        self.cancel_requested = False
        self.cancel_reason: str | None = None
        self.end: Returned | Raised | None = None

    # --- what the interpreter adds ------------------------------------------------------------------------------------

    @abstractmethod
    def used(self, command: Command[Any]) -> None:
        """Note that a command was asked for."""

    @abstractmethod
    def publish(self, values: dict[str, Any]) -> None:
        """Merge into the run's visible state."""

    @abstractmethod
    def context(self) -> Context:
        """A context of this run."""

    # --- branches -----------------------------------------------------------------------------------------------------

    def _advance(self, branch: Branch, ok: bool, value: Any) -> None:
        """Feed a branch one answer, and go on until it waits or ends."""
        branch.waiting = None
        generator = branch.generator
        outer, self.branch = self.branch, branch
        try:
            while True:
                try:
                    yielded = generator.send(value) if ok else generator.throw(value)
                except StopIteration as stop:
                    self._branch_returned(branch, stop.value)
                    return
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # noqa: BLE001 - user code; every way to leave it is an end of the branch
                    self._branch_raised(branch, error)
                    return
                if branch.pending_cancel is not None:
                    reason, branch.pending_cancel = branch.pending_cancel, None
                    self._drop_yielded(yielded)
                    ok, value = False, Cancelled(reason)
                    continue
                try:
                    command = self._checked(yielded)
                    prepare(command, self.codec, self.key, self.run_id, self.may_have_children)
                except (UsageError, EncodingError, DepthExceeded) as error:
                    ok, value = False, error
                    continue
                branch.count += 1
                branch.draws = 0
                branch.rng = None
                ok = True
                waiting, value = self._ask(command, f"{branch.prefix}{branch.count}", branch, 0)
                if waiting is not None:
                    branch.waiting = waiting
                    return
        finally:
            self.branch = outer

    def _checked(self, yielded: Any) -> Command[Any]:
        """The command that was yielded, marked as asked for; or UsageError with a hint."""
        if not isinstance(yielded, Command):
            raise UsageError(_hint(yielded))
        if yielded.owner is not self:
            raise UsageError(f"{yielded!r} belongs to another run's context: yield only what this run's ctx made")
        if yielded.used:
            raise UsageError(
                f"{yielded!r} was used already, and a command is used once: make a new one. For one deadline over several "
                "races, keep the time: deadline = ctx.now() + d, then ctx.race(ctx.signal(c), ctx.sleep_until(deadline))"
            )
        yielded.used = True
        yielded.driven = True
        self.used(yielded)
        for member in yielded.members:
            if isinstance(member, Command):
                self._checked(member)
            elif inspect.getgeneratorstate(member) != inspect.GEN_CREATED:
                raise UsageError(f"a branch of {yielded!r} has been advanced already: give a fresh generator")
        return yielded

    def _drop_yielded(self, yielded: Any) -> None:
        if isinstance(yielded, Command):
            yielded.used = yielded.driven = True
            self.used(yielded)

    def _branch_returned(self, branch: Branch, value: Any) -> None:
        if isinstance(value, (Command, Generator)) or inspect.iscoroutine(value):
            self._branch_raised(branch, UsageError(f"{_where(branch)} returned {_hint(value)}"))
        elif branch.parent is None:
            self.end = Returned(value)
        else:
            self._member_ended(branch.parent, branch.index, True, value)

    def _branch_raised(self, branch: Branch, error: BaseException) -> None:
        if is_code_fault(error):
            raise Blocked(
                f"{type(error).__name__}: {error}", position=branch.position or None, line=_raised_at(error), error=error
            )
        if branch.parent is None:
            self.end = Raised(error)
        else:
            self._member_ended(branch.parent, branch.index, False, error)

    # --- asking -------------------------------------------------------------------------------------------------------

    def _ask(
        self, command: Command[Any], position: str, parent: Branch | Composite, index: int
    ) -> tuple[Leaf | Composite | None, Any]:
        """Ask for a command: what is waited for now, or None and its answer, if it answers at once."""
        kind = command.kind
        if kind in ("all", "race"):
            return self._ask_composite(command, position, parent, index)
        at = self.recorder.at
        deadline = None
        child = None
        spec = command.spec
        if kind == "step":
            pass
        elif isinstance(spec, SleepSpec):
            deadline = spec.until if spec.until is not None else at + timedelta(seconds=spec.seconds or 0)
        elif isinstance(spec, SignalSpec):
            deadline = None if spec.timeout is None else at + timedelta(seconds=spec.timeout)
        elif isinstance(spec, ChildSpec):
            child = spec.child_id or derived_run_id(at, self.run_id, str(self.generation), position)
        asked = Asked(position, kind, command.name, command.digest, deadline, child)
        asked = self.recorder.ask(asked, self._line_of(parent))
        leaf = Leaf(command, asked, parent, index)
        if isinstance(spec, ChildSpec) and spec.child_id is None and asked.child is not None:
            self.children[asked.child] = leaf
            if self.recorder.recording:
                self.new_children.append(leaf)
        if kind == "spawn":
            return None, ChildHandle(self.context(), asked.child or "", command.name, command.fn)
        if kind == "publish":
            self.publish(command.kwargs)
            return None, None
        self.leaves[position] = leaf
        self.asked_now[position] = leaf
        if kind not in _EFFECTS:
            self.opened.append(leaf)
            if deadline is not None:
                self._timed[position] = leaf
        return leaf, None

    def _ask_composite(
        self, command: Command[Any], position: str, parent: Branch | Composite, index: int
    ) -> tuple[Composite | None, Any]:
        self.recorder.ask(Asked(position, command.kind, command.name, command.digest), self._line_of(parent))
        composite = Composite(command, position, parent, index)
        if not command.members:
            return None, _value(composite)
        self._start_members(composite)
        return composite, None

    def _start_members(self, composite: Composite) -> None:
        """Start members in index order, as many as the limit lets run, until one decides."""
        members = composite.command.members
        while composite.next < len(members) and not composite.cancelled and composite.decision is None:
            if composite.limit is not None and composite.open >= composite.limit:
                return
            index = composite.next
            composite.next += 1
            composite.open += 1
            position = f"{composite.position}.{index}"
            member = members[index]
            if isinstance(member, Command):
                waiting, value = self._ask(member, position, composite, index)
                composite.members[index] = waiting
                if waiting is None:
                    self._member_ended(composite, index, True, value)
            else:
                branch = Branch(member, f"{position}.", composite, index)
                composite.members[index] = branch
                self._advance(branch, True, None)

    # --- answers ------------------------------------------------------------------------------------------------------

    def _settle_leaf(self, leaf: Leaf, ok: bool, value: Any) -> None:
        """Deliver a command's answer to the branch or composite that waits for it."""
        self._forget(leaf)
        if leaf.asked.child is not None:
            self.children.pop(leaf.asked.child, None)
        parent = leaf.parent
        if isinstance(parent, Branch):
            self._advance(parent, ok, value)
        else:
            self._member_ended(parent, leaf.index, ok, value)

    def _forget(self, leaf: Leaf) -> None:
        position = leaf.asked.position
        del self.leaves[position]
        self.asked_now.pop(position, None)
        if self._timed:
            self._timed.pop(position, None)
        if self.cutting:
            self.cutting.discard(position)

    def timed(self) -> Collection[Leaf]:
        """What is open and has a deadline."""
        return self._timed.values()

    def _member_ended(self, composite: Composite, index: int, ok: bool, value: Any) -> None:
        composite.members[index] = None
        composite.open -= 1
        if composite.decision is not None or composite.cancelled:
            if composite.open == 0:
                self._finish(composite)
            return
        spec = composite.command.spec
        if not isinstance(spec, AllSpec):
            self._decide(composite, Decision(ok, Winner(index, value) if ok else value, index))
        elif ok or (spec.return_errors and isinstance(value, Exception)):
            composite.values[index] = value
            composite.done += 1
            if composite.done == len(composite.values):
                self._decide(composite, Decision(True, _value(composite), None))
            elif composite.limit is not None:
                self._start_members(composite)
        else:
            self._decide(composite, Decision(False, value, index))

    def _decide(self, composite: Composite, decision: Decision) -> None:
        composite.decision = decision
        for index, member in enumerate(composite.members):
            if member is not None:
                feed = _bound(self._close_member, composite, index)
                self.derived.append(Derived("closed", member.position, None, feed))
        if composite.open == 0:
            self._finish(composite)

    def _close_member(self, composite: Composite, index: int) -> None:
        member = composite.members[index]
        if isinstance(member, Leaf):
            self._drop(member)
            self._member_ended(composite, index, False, None)
        elif member is not None:
            self._cancel_node(member, "its race or group was decided")

    def _finish(self, composite: Composite) -> None:
        """All members have ended: answer, by an event of its own; a cancelled composite raises in its parent at once."""
        decision = composite.decision
        if composite.cancelled and decision is None:
            self._deliver(composite, False, Cancelled(self.cancel_reason))
            return
        if decision is None:
            raise AssertionError(f"composite {composite.position} ended undecided")
        kind: RowKind = "answered" if decision.ok else "failed"
        value = None if decision.index is None else str(decision.index)
        feed = _bound(self._answer_composite, composite, decision)
        self.derived.append(Derived(kind, composite.position, value, feed))

    def _answer_composite(self, composite: Composite, decision: Decision) -> None:
        if composite.cancelled:
            self._deliver(composite, False, Cancelled(self.cancel_reason))
        else:
            self._deliver(composite, decision.ok, decision.value)

    def _deliver(self, composite: Composite, ok: bool, value: Any) -> None:
        parent = composite.parent
        if isinstance(parent, Branch):
            self._advance(parent, ok, value)
        else:
            self._member_ended(parent, composite.index, ok, value)

    # --- cancel -------------------------------------------------------------------------------------------------------

    def _cancel_run(self, reason: str | None) -> None:
        self.cancel_requested = True
        self.cancel_reason = reason
        if self.root is not None:
            self._cancel_node(self.root, reason)

    def _cancel_node(self, node: Branch | Composite, reason: str | None) -> None:
        if node.cancelled:
            return
        node.cancelled = True
        if isinstance(node, Branch):
            waiting = node.waiting
            if isinstance(waiting, Composite):
                self._cancel_node(waiting, reason)
            elif waiting is None or waiting.command.kind in _EFFECTS:
                node.pending_cancel = reason or ""
                if waiting is not None and waiting.command.kind == "step":
                    self.cutting.add(waiting.position)
            else:
                self._drop(waiting)
                self._advance(node, False, Cancelled(reason))
            return
        for index, member in enumerate(list(node.members)):
            if isinstance(member, Leaf):
                if member.command.kind == "step":
                    self.cutting.add(member.position)
                elif member.command.kind not in _EFFECTS:
                    self._drop(member)
                    node.members[index] = None
                    node.open -= 1
            elif member is not None:
                self._cancel_node(member, reason)
        if node.open == 0 and node.decision is None and any(m is None for m in node.members):
            self._finish(node)

    def _drop(self, leaf: Leaf) -> None:
        """Stop waiting for a command; a child that it started is to be cancelled."""
        self._forget(leaf)
        child = leaf.asked.child
        if child is not None and isinstance(leaf.command.spec, ChildSpec) and leaf.command.spec.child_id is None:
            self.cancels.append(child)
            self.children.pop(child, None)

    def _line_of(self, parent: Branch | Composite) -> str | None:
        """The source line of an ask; only replay compares, so only replay needs it."""
        if not self.recorder.replaying:
            return None
        node: Branch | Composite | None = parent
        while isinstance(node, Composite):
            node = node.parent
        return None if node is None else parked_line(node.generator)


def _value(composite: Composite) -> Any:
    spec = composite.command.spec
    return list(composite.values) if isinstance(spec, AllSpec) and spec.as_list else tuple(composite.values)


def _bound(fn: Callable[[Composite, Any], None], composite: Composite, argument: Any) -> Callable[[], None]:
    return lambda: fn(composite, argument)


def _where(branch: Branch) -> str:
    return "the workflow" if branch.parent is None else f"the branch at {branch.position}"


def _raised_at(error: BaseException) -> str | None:
    at = error.__traceback__
    if at is None:
        return None
    while at.tb_next is not None and at.tb_next.tb_frame.f_globals.get("__name__") != Command.__module__:
        at = at.tb_next
    return f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno} in {at.tb_frame.f_code.co_name}"


def _hint(value: Any) -> str:
    if value is None:
        return "None where a command is expected: did the call forget to return its command?"
    if isinstance(value, Command):
        return f"{value!r}, a command that was not asked for: write `yield from` before it"
    if isinstance(value, Generator):
        return "a generator where a command is expected: write `yield from` before it, or give it to ctx.all as a branch"
    if inspect.iscoroutine(value):
        value.close()
        return "a coroutine where a command is expected: give the function to ctx.step, without calling it"
    if isinstance(value, (list, tuple, set, dict)):
        return f"a {type(value).__name__} where a command is expected: use ctx.all(...) or ctx.gather([...])"
    return f"{type(value).__name__} where a command is expected: a workflow yields what ctx makes"
