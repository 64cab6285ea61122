"""What a parked run waits for: channels, children and how many of them, and the next time that something is due."""

from __future__ import annotations

from datetime import datetime
from math import inf

import msgspec

from runnerq.workflow.commands import AllSpec
from runnerq.workflow.interpreter import Interpreter
from runnerq.workflow.tree import Branch, Composite, Leaf


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
    fewest = inf if run.root is None or run.end is not None else _fewest(run.root.waiting)
    needs = 0 if fewest == inf else int(fewest)
    return Wants(tuple(signals), tuple(children), needs, min(due, default=None))


def _fewest(node: Leaf | Composite | Branch | None) -> float:
    """How many children must end before this node can move, if children alone move it."""
    if isinstance(node, Leaf):
        return 1 if node.command.kind == "child" else inf
    if isinstance(node, Branch):
        return _fewest(node.waiting)
    if node is None:
        return inf
    members = [member for member in node.members if member is not None]
    if isinstance(node.command.spec, AllSpec) and node.next == len(node.command.members):
        # Every member is started, so plain children move it only together; whatever else there is moves by itself.
        children = sum(map(_is_child, members)) or inf
        return min([children, *(_fewest(member) for member in members if not _is_child(member))])
    return min(map(_fewest, members), default=inf)


def _is_child(node: Leaf | Composite | Branch) -> bool:
    return isinstance(node, Leaf) and node.command.kind == "child"
