"""What a program must come to: a plain recursive evaluation that knows no journal, no turn and no worker.

Rules
- Where time decides (who wins a race, whether a wait times out, where a cancel hits), the model takes what the workflow
  saw there, after a check that it was one of the things that could happen; all else it works out for itself.
- ``losing``: a part whose composite was decided without it, or cancelled; it may see Cancelled anywhere, once a branch.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, assert_never

import msgspec

from tests.properties.flows import NO_SIGNAL, REFUSED, STOPPED
from tests.properties.programs import (
    Block,
    Child,
    Compensate,
    Continue,
    Group,
    Node,
    Patch,
    Publish,
    Raise,
    Sleep,
    Spawn,
    Step,
    Tell,
    Try,
    Wait,
)

CANCELLED = ["cancelled"]


class ChildSeen(msgspec.Struct, frozen=True):
    """How a child ended, as its own outcome says."""

    status: str
    result: Any
    cancel_requested: bool


class Facts(msgspec.Struct, frozen=True):
    """What is known of one generation of a run from outside.

    ``seen`` is what its workflow saw of each node, ``sent`` the signals by channel, ``children`` how they ended, by the
    node that started them, ``undos`` what was registered, in order.
    """

    seen: Mapping[int, Any]
    sent: Mapping[str, frozenset[int]]
    children: Mapping[int, ChildSeen]
    cancelled: bool
    undos: tuple[int, ...] = ()


class Failed(Exception):
    """The part ends with this error. ``exhausted``: used-up attempts are behind it."""

    def __init__(self, told: Any, *, exhausted: bool) -> None:
        super().__init__(told)
        self.told = told
        self.exhausted = exhausted


class Stopped(Exception):
    """The part ends with Cancelled."""


class Cut(Exception):
    """The part never got an answer: it was not begun, or dropped."""


class Renewed(Exception):
    """The run goes on in its next generation, with this."""

    def __init__(self, body: Block) -> None:
        super().__init__()
        self.body = body


class Wrong(AssertionError):
    """The workflow saw what it must not see."""


class Model:
    """One generation of one run."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def block(self, block: Block, *, losing: bool = False) -> list[Any]:
        """What these commands answer, one after the other. Raises what they raise."""
        return [self._node(node, losing) for node in block.nodes]

    def _node(self, node: Node, losing: bool) -> Any:
        match node:
            case Raise(n):
                raise Failed(["error", "Oops", n], exhausted=False)
            case Try():
                return self._try(node, losing)
            case Spawn():
                return self._spawn(node, losing)
            case Group():
                return self._group(node, losing)
            case Compensate(n):
                if n not in self._facts.seen:
                    raise Cut
                return n
            case Continue():
                return self._continue(node, losing)
            case Patch(_, body):
                return self.block(body, losing=losing)
            case Step() | Sleep() | Wait() | Tell() | Publish() | Child():
                return self._answered(node, self._seen(node.n, losing), losing)
            case _:
                assert_never(node)

    def _continue(self, node: Continue, losing: bool) -> str:
        """The next generation, unless there is something to undo or the run was cancelled."""
        if node.n not in self._facts.seen:
            raise Renewed(node.body)
        seen = self._seen(node.n, losing)
        if seen != ["error", "UsageError", None] or not (self._facts.cancelled or self._facts.undos):
            raise Wrong(f"continue_as_new {node.n} was refused with {seen!r}")
        return REFUSED

    # --- leaves -------------------------------------------------------------------------------------------------------

    def _seen(self, n: int, losing: bool) -> Any:
        if n not in self._facts.seen:
            raise Cut
        seen = self._facts.seen[n]
        if seen == CANCELLED:
            if not (losing or self._facts.cancelled):
                raise Wrong(f"node {n} saw Cancelled, and nobody cancelled anything")
            raise Stopped
        return seen

    def _answered(self, member: Node | Block, seen: Any, losing: bool) -> Any:
        """What a leaf or member answers, if that is what was seen; raises the error, if it could be that."""
        match member:
            case Block():
                return self.block(member, losing=losing)
            case Group():
                return self._group_answered(member, seen, losing)
        try:
            expected = self._leaf(member, seen)
        except Failed as failed:
            if failed.told != seen:
                raise Wrong(f"{member!r} answered {seen!r}, and it fails with {failed.told!r}") from failed
            raise
        if seen != expected:
            raise Wrong(f"{member!r} answered {seen!r}, and {expected!r} is what it answers")
        return expected

    def _leaf(self, node: Node, seen: Any) -> Any:
        match node:
            case Step(n, fails, attempts, fatal):
                return self._step(n, fails, attempts, fatal)
            case Wait():
                return self._wait(node, seen)
            case Publish() | Sleep() | Tell():
                return None
            case Child(n):
                return self._child(n)
            case _:
                raise Wrong(f"{node!r} is no member")

    def _step(self, n: int, fails: int, attempts: int, fatal: bool) -> int:
        if fatal:
            raise Failed(["error", "Fatal", n], exhausted=False)
        if fails >= attempts:
            raise Failed(["error", "Flaky", n], exhausted=True)
        return n

    def _wait(self, node: Wait, seen: Any) -> Any:
        timed_out = ["error", "SignalTimeout", node.channel]
        if node.timeout is not None:
            if node.default and seen == NO_SIGNAL:
                return NO_SIGNAL
            if not node.default and seen == timed_out:
                raise Failed(timed_out, exhausted=False)
        if not isinstance(seen, int) or seen not in self._facts.sent.get(node.channel, frozenset()):
            raise Wrong(f"{node!r} saw {seen!r}, which nobody sent")
        return seen

    def _child(self, n: int) -> Any:
        child = self._facts.children.get(n)
        if child is None:
            raise Wrong(f"child {n} was answered and has not ended")
        if child.status == "completed":
            return child.result
        if child.status == "cancelled":
            raise Failed(["error", "ChildCancelled", None], exhausted=False)
        raise Failed(["error", "ChildFailed", child.status], exhausted=child.status == "dead_letter")

    def _spawn(self, node: Spawn, losing: bool) -> Any:
        try:
            between = self.block(node.between, losing=losing)
        except Cut:
            # Cancelled where it was to be started, perhaps.
            self._seen(node.n, losing)
            raise
        match node.then:
            case "leave":
                answer = None if node.n not in self._facts.seen else self._seen(node.n, losing)
            case "result":
                answer = self._answered(Child(node.n, node.body), self._seen(node.n, losing), losing)
            case "cancel":
                answer = self._seen(node.n, losing)
                if not isinstance(answer, bool):
                    raise Wrong(f"the cancel of child {node.n} answered {answer!r}")
            case _:
                answer = self._seen(node.n, losing)
                if answer == ["error", "RunFinished", None]:
                    raise Failed(answer, exhausted=False)
                if answer is not None:
                    raise Wrong(f"the signal to child {node.n} answered {answer!r}")
        return [between, answer]

    # --- structure ----------------------------------------------------------------------------------------------------

    def _try(self, node: Try, losing: bool) -> Any:
        pending: Failed | Stopped | None = None
        value: Any = None
        try:
            value = self.block(node.body, losing=losing)
        except Failed as failed:
            value = ["caught", failed.told]
            pending = None if node.catches == "errors" else failed
        except Stopped as stopped:
            value = STOPPED
            pending = None if node.catches == "cancel" else stopped
        self.block(node.cleanup, losing=losing)
        if pending is not None:
            raise pending
        return value

    def _group(self, node: Group, losing: bool) -> Any:
        try:
            seen = self._seen(node.n, losing)
        except (Stopped, Cut):
            for member in node.members:
                self._lost(member)
            raise
        return self._group_answered(node, seen, losing)

    def _group_answered(self, node: Group, seen: Any, losing: bool) -> Any:
        """What it answered must follow from what its members answer."""
        if _is_error(seen):
            errors = [failed for member in node.members if (failed := self._failure(member, seen)) is not None]
            if not errors:
                raise Wrong(f"group {node.n} failed with {seen!r}, and no member fails so")
            raise errors[0]
        if node.kind == "race":
            if not (isinstance(seen, list) and len(seen) == 3 and seen[0] == "winner"):
                raise Wrong(f"race {node.n} answered {seen!r}")
            winner = seen[1]
            for index, member in enumerate(node.members):
                if index != winner:
                    self._lost(member)
            return ["winner", winner, self._value(node.members[winner], seen[2], losing, node.n)]
        if not isinstance(seen, list) or len(seen) != len(node.members):
            raise Wrong(f"group {node.n} answered {seen!r}")
        values = []
        for member, one in zip(node.members, seen, strict=True):
            try:
                values.append(self._value(member, one, losing, node.n))
            except Failed as failed:
                if not node.return_errors or failed.told != one:
                    raise Wrong(f"group {node.n} answered {one!r} for what fails with {failed.told!r}") from failed
                values.append(failed.told)
        return values

    def _value(self, member: Node | Block, seen: Any, losing: bool, n: int) -> Any:
        try:
            value = self._answered(member, seen, losing)
        except (Cut, Stopped) as error:
            raise Wrong(f"group {n} has {seen!r} of a member that never answered") from error
        if value != seen:
            raise Wrong(f"group {n} has {seen!r} of a member that answers {value!r}")
        return value

    def _failure(self, member: Node | Block, told: Any) -> Failed | None:
        """How this member fails, if it can fail so; the others are looked over as losers."""
        try:
            if isinstance(member, Block):
                self.block(member, losing=True)
            else:
                self._answered(member, told, losing=True)
        except Failed as failed:
            return failed if failed.told == told else None
        except (Cut, Stopped, Wrong) as error:
            if isinstance(member, Block) and isinstance(error, Wrong):
                raise
        return None

    def _lost(self, member: Node | Block) -> None:
        """See that what a losing branch saw before it lost could be so."""
        if isinstance(member, Block):
            with suppress(Failed, Stopped, Cut):
                self.block(member, losing=True)
        elif isinstance(member, Group):
            for inner in member.members:
                self._lost(inner)


def _is_error(seen: Any) -> bool:
    return isinstance(seen, list) and len(seen) == 3 and seen[0] == "error"
