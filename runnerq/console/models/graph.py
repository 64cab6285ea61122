"""A tree of runs laid out for a drawing, from left to right: pure numbers, no markup.

Rules
- A column a depth, a line a leaf, in the order of the tree; who has runs below it stands in the middle of them.
- Sizes are in pixels: a drawing of many runs is larger than a page, and is scrolled.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from runnerq.console.models.tree import TreeNode

COLUMN = 264
LINE = 28
EDGE = 8
"""Pixels: between columns and lines, and left free around it all."""


class Spot(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run stands: its left end, and the middle of its line."""

    node: TreeNode
    x: float
    y: float


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A line from a run to one that it has started."""

    x1: float
    y1: float
    x2: float
    y2: float


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """The drawing."""

    spots: tuple[Spot, ...]
    links: tuple[Link, ...]
    width: float
    height: float


def graph(nodes: Sequence[TreeNode]) -> Graph:
    """The drawing of a tree whose runs are each followed by those below them."""
    above = _parents(nodes)
    below: list[list[int]] = [[] for _ in nodes]
    for index, parent in enumerate(above):
        if parent is not None:
            below[parent].append(index)
    heights: list[float] = [0.0] * len(nodes)
    leaves = 0
    # Leaves get their lines in order; those above them are settled from the end, when all below them are.
    for index in range(len(nodes)):
        if not below[index]:
            heights[index] = EDGE + (leaves + 0.5) * LINE
            leaves += 1
    for index in reversed(range(len(nodes))):
        if below[index]:
            heights[index] = (heights[below[index][0]] + heights[below[index][-1]]) / 2
    spots = [
        Spot(node=node, x=EDGE + node.depth * COLUMN, y=height) for node, height in zip(nodes, heights, strict=True)
    ]
    return Graph(
        spots=tuple(spots),
        links=tuple(
            Link(x1=spots[parent].x, y1=spots[parent].y, x2=spots[index].x, y2=spots[index].y)
            for index, parent in enumerate(above)
            if parent is not None
        ),
        width=2 * EDGE + COLUMN * (1 + max((node.depth for node in nodes), default=0)),
        height=2 * EDGE + LINE * leaves,
    )


def _parents(nodes: Sequence[TreeNode]) -> list[int | None]:
    """For each run the index of the one above it: the nearest before it that is one less deep."""
    last: dict[int, int] = {}
    above: list[int | None] = []
    for index, node in enumerate(nodes):
        above.append(last.get(node.depth - 1))
        last[node.depth] = index
    return above
