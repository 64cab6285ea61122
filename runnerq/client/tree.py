"""A run with all that is below it, read a page at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from runnerq.client.core import Core
from runnerq.client.info import RunInfo, info_of
from runnerq.client.values import Node
from runnerq.persistence.records import RunFilter

PAGE = 250
"""Runs that are read at once."""


async def tree_of(core: Core, run_id: str) -> Node:
    """The run, and those that it started, and those that they did. Raises RunNotFound.

    The whole tree that it lies in is read for it.
    """
    top = await core.info(run_id)
    where = RunFilter(root=top.root_id)
    children: defaultdict[str, list[RunInfo]] = defaultdict(list)
    cursor: str | None = None
    while True:
        found = await core.storage.list_runs(where, PAGE, cursor)
        for record in found.runs:
            if record.parent_id is not None:
                children[record.parent_id].append(info_of(record))
        cursor = found.next
        if cursor is None:
            break
    for below in children.values():
        below.sort(key=lambda child: (child.created_at, child.id))
    return _node(top, children)


def _node(top: RunInfo, children: Mapping[str, Sequence[RunInfo]]) -> Node:
    # From the leaves up, without recursion: a tree may be deeper than a function may call itself.
    order, at = [top], 0
    while at < len(order):
        order += children.get(order[at].id, ())
        at += 1
    nodes: dict[str, Node] = {}
    for info in reversed(order):
        below = children.get(info.id, ())
        nodes[info.id] = Node(info.id, info, tuple(nodes.pop(child.id) for child in below))
    return nodes[top.id]
