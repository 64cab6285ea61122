"""What a parked run waits for: channels, children and how many of them, and the next time that something is due."""

from __future__ import annotations

from datetime import datetime
from math import inf
from typing import TypeGuard, assert_never

import msgspec

from runnerq.workflow.commands import AllSpec
from runnerq.workflow.interpreter import Interpreter
from runnerq.workflow.tree import Branch, Composite, Leaf, Node


class Wants(msgspec.Struct, frozen=True):
    """``needs`` is the fewest ends of ``children`` that can move anything; 0 where no child is waited for."""

    signals: tuple[str, ...]
    children: tuple[str, ...]
    needs: int
    due_at: datetime | None


def wants(run: Interpreter) -> Wants:
    """Read it off the open leaves of an interpreter that has nothing left to feed."""
    signals = dict.fromkeys(leaf.command.name for leaf in run.leaves.values() if leaf.command.kind == "signal")
    children = dict.fromkeys(
        leaf.asked.child for leaf in run.leaves.values() if leaf.command.kind == "child" and leaf.asked.child
    )
    due = [leaf.asked.deadline for leaf in run.leaves.values() if leaf.asked.deadline is not None]
    fewest = inf if run.root is None else _fewest(run.root.waiting)
    needs = 0 if fewest == inf else int(fewest)
    return Wants(tuple(signals), tuple(children), needs, min(due, default=None))


def _fewest(node: Node | None) -> float:
    """How many children must end before this node can move, if children alone move it."""
    match node:
        case Leaf():
            return 1 if node.command.kind == "child" else inf
        case Branch():
            return _fewest(node.waiting)
        case Composite() if isinstance(node.command.spec, AllSpec) and node.next == len(node.members):
            # All of it is started, so that plain children move it only together; all else there moves by itself.
            children = {leaf.asked.child for leaf in node.members if _is_child(leaf)}
            others = [_fewest(member) for member in node.members if not _is_child(member)]
            return min([len(children) or inf, *others])
        case Composite():
            return min(map(_fewest, node.members), default=inf)
        case None:
            return inf
        case _:
            assert_never(node)


def _is_child(node: Node | None) -> TypeGuard[Leaf]:
    return isinstance(node, Leaf) and node.command.kind == "child"
