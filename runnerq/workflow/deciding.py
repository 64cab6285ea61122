"""How composites are decided and closed, and how a cancel goes down the tree.

Rules (DESIGN section 5, rules 11 and 13)
- A composite is decided by its first error, a race also by its first value, an ``all`` by its last one. What is then
  still open is closed, each member by an event of its own, in index order; its answer is one more event, when all have
  ended.
- A closed command is dropped; a closed branch gets Cancelled and finishes its cleanup; a closed composite closes its
  members.
- A branch gets Cancelled at most once. One that waits for an effect gets that answer first, and Cancelled at its next
  yield; one that waits for anything else gets it at once.
- A cancelled composite raises Cancelled in its parent when all its members have ended, whatever they were.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection
from typing import Any, TypeAlias, assert_never

import msgspec

from runnerq.errors import Cancelled
from runnerq.workflow.commands import AllSpec, ChildSpec, Winner
from runnerq.workflow.journal import RowKind
from runnerq.workflow.tree import Branch, Composite, Decision, Leaf, Node, Thrown, Undoing

EFFECTS = frozenset({"step", "transaction", "send", "cancel", "undo"})
"""What is answered before a cancel is delivered: it may be half done."""
CUT_OFF = frozenset({"step", "transaction"})
"""What is broken off by a cancel, if it has no answer then."""
_LOST = "its race or group was decided"


class Close(msgspec.Struct, frozen=True):
    """An event to come: a member that its composite lost is closed."""

    composite: Composite
    index: int
    member: Node


class Answer(msgspec.Struct, frozen=True):
    """An event to come: a composite answers."""

    composite: Composite
    decision: Decision


class Refuse(msgspec.Struct, frozen=True):
    """An event to come: a command fails as soon as it is asked. ``text`` is the failure."""

    leaf: Leaf
    text: str


Derived: TypeAlias = Close | Answer | Refuse
"""An event that follows from the ones before it."""


class Deciding(ABC):
    """The commands that are open, and the events that follow from their answers."""

    def __init__(self) -> None:
        self.leaves: dict[str, Leaf] = {}
        self.opened: list[Leaf] = []
        self.cutting: set[str] = set()
        self.children: dict[str, Leaf] = {}
        self.asked_now: dict[str, Leaf] = {}
        self.cancels: list[str] = []
        self.derived: deque[Derived] = deque()
        self._timed: dict[str, Leaf] = {}

    @abstractmethod
    def _advance(self, branch: Branch, answer: Any) -> None:
        """Feed a branch one answer, a value or Thrown, and go on until it waits or ends."""

    @abstractmethod
    def _start_members(self, composite: Composite) -> None:
        """Start what may be started of a composite."""

    @abstractmethod
    def _undo_ended(self, undoing: Undoing, answer: Any) -> None:
        """Go on behind an undo: with the next one, or the end."""

    # --- open commands ------------------------------------------------------------------------------------------------

    def timed(self) -> Collection[Leaf]:
        """What is open and has a deadline."""
        return self._timed.values()

    def _open(self, leaf: Leaf) -> None:
        position = leaf.asked.position
        self.leaves[position] = leaf
        self.asked_now[position] = leaf
        if leaf.command.kind not in EFFECTS:
            self.opened.append(leaf)
            if leaf.asked.deadline is not None:
                self._timed[position] = leaf

    def _forget(self, leaf: Leaf) -> None:
        position = leaf.asked.position
        del self.leaves[position]
        self.asked_now.pop(position, None)
        if self._timed:
            self._timed.pop(position, None)
        if self.cutting:
            self.cutting.discard(position)

    def _drop(self, leaf: Leaf) -> None:
        """Stop waiting for a command; a child that it started is to be cancelled."""
        self._forget(leaf)
        child = leaf.asked.child
        if child is not None and leaf.command.spec == ChildSpec(None):
            self.cancels.append(child)
            self.children.pop(child, None)

    def _settle(self, leaf: Leaf, answer: Any) -> None:
        """Deliver a command's answer to the branch or composite that waits for it."""
        self._forget(leaf)
        if leaf.asked.child is not None:
            self.children.pop(leaf.asked.child, None)
        self._deliver(leaf, answer)

    def _interrupt(self, leaf: Leaf) -> None:
        """Deliver that a step was cut off: this is the Cancelled that its branch was to get behind the answer."""
        parent = leaf.parent
        if isinstance(parent, Branch):
            parent.cancelled, parent.pending = True, False
        reason = None if isinstance(parent, Undoing) else parent.reason
        self._settle(leaf, Thrown(Cancelled(reason)))

    def _deliver(self, node: Leaf | Composite, answer: Any) -> None:
        parent = node.parent
        if isinstance(parent, Branch):
            self._advance(parent, answer)
        elif isinstance(parent, Composite):
            self._member_ended(parent, node.index, answer)
        else:
            self._undo_ended(parent, answer)

    # --- composites ---------------------------------------------------------------------------------------------------

    def _member_ended(self, composite: Composite, index: int, answer: Any) -> None:
        composite.members[index] = None
        composite.open -= 1
        if composite.over:
            if composite.open == 0:
                self._finish(composite)
            return
        spec, thrown = composite.command.spec, isinstance(answer, Thrown)
        if not isinstance(spec, AllSpec):
            self._decide(composite, Decision(answer if thrown else Winner(index, answer), index))
        elif not thrown or (spec.return_errors and isinstance(answer.error, Exception)):
            composite.values[index] = answer.take() if thrown else answer
            if composite.next < len(composite.members):
                self._start_members(composite)
            elif composite.open == 0:
                self._decide(composite, Decision(all_values(composite), None))
        else:
            self._decide(composite, Decision(answer, index))

    def _decide(self, composite: Composite, decision: Decision) -> None:
        composite.decision = decision
        self._close_members(composite)
        if composite.open == 0:
            self._finish(composite)

    def _close_members(self, composite: Composite) -> None:
        for index, member in enumerate(composite.members):
            if member is not None:
                self.derived.append(Close(composite, index, member))

    def _finish(self, composite: Composite) -> None:
        """All members of a composite that is over have ended."""
        decision = composite.decision
        if composite.cancelled or composite.closed or decision is None:
            self._answer(composite, Thrown(Cancelled(composite.reason)))
        else:
            self.derived.append(Answer(composite, decision))

    def _close(self, member: Node) -> None:
        match member:
            case Leaf():
                self._drop(member)
                self._deliver(member, None)
            case Branch():
                self._cancel(member, _LOST)
            case Composite():
                member.closed = True
                if member.decision is None:
                    self._close_members(member)
                if member.open == 0:
                    self._finish(member)
            case _:
                assert_never(member)

    def _answer(self, composite: Composite, answer: Any) -> None:
        # Forgotten, as an error in there may have come through frames that know the composite: see Thrown.
        composite.decision, composite.values = None, []
        self._deliver(composite, answer)

    # --- derived events -----------------------------------------------------------------------------------------------

    def _next_derived(self) -> Derived | None:
        """The next event that still has something to do."""
        while self.derived:
            event = self.derived.popleft()
            match event:
                case Close(composite, index, member):
                    moot = composite.members[index] is not member
                case Answer(composite):
                    moot = composite.cancelled or composite.closed
                case Refuse(leaf):
                    moot = self.leaves.get(leaf.position) is not leaf
                case _:
                    assert_never(event)
            if not moot:
                return event
        return None

    # --- cancel -------------------------------------------------------------------------------------------------------

    def _cancel(self, node: Branch | Composite, reason: str | None) -> None:
        if node.cancelled:
            return
        node.cancelled, node.reason = True, reason
        if isinstance(node, Branch):
            self._cancel_branch(node)
        else:
            self._cancel_members(node)

    def _cancel_branch(self, branch: Branch) -> None:
        waiting = branch.waiting
        if isinstance(waiting, Composite):
            self._cancel(waiting, branch.reason)
        elif isinstance(waiting, Leaf) and waiting.command.kind not in EFFECTS:
            self._drop(waiting)
            self._advance(branch, Thrown(Cancelled(branch.reason)))
        else:
            branch.pending = True
            if isinstance(waiting, Leaf) and waiting.command.kind in CUT_OFF:
                self.cutting.add(waiting.position)

    def _cancel_members(self, composite: Composite) -> None:
        # One more is open until all have been told, so that the last of them to end does not end it twice.
        composite.open += 1
        for index, member in enumerate(composite.members):
            if isinstance(member, Leaf):
                if member.command.kind in CUT_OFF:
                    self.cutting.add(member.position)
                elif member.command.kind not in EFFECTS:
                    self._drop(member)
                    composite.members[index] = None
                    composite.open -= 1
            elif member is not None:
                self._cancel(member, composite.reason)
        composite.open -= 1
        if composite.open == 0:
            self._finish(composite)


def row_of(event: Derived) -> tuple[RowKind, str, str | None]:
    """The kind, position and value of the row that holds this event."""
    match event:
        case Close(member=member):
            return "closed", member.position, None
        case Answer(composite, decision):
            index = None if decision.index is None else str(decision.index)
            kind: RowKind = "failed" if isinstance(decision.answer, Thrown) else "answered"
            return kind, composite.position, index
        case Refuse(leaf, text):
            return "failed", leaf.position, text
        case _:
            assert_never(event)


def all_values(composite: Composite) -> Any:
    """The values of an ``all`` as it answers them."""
    spec = composite.command.spec
    return composite.values if isinstance(spec, AllSpec) and spec.as_list else tuple(composite.values)
