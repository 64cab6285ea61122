"""A run's family: the whole tree while it is small, else a run's children by pages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from runnerq.console.models.context import Context, bounded
from runnerq.console.models.filters import RunQuery
from runnerq.console.models.records import record_of
from runnerq.console.models.runs import Count, RunRow, RunsPage, counted, page_of, row_of
from runnerq.persistence.records import RunFilter, RunRecord, Status

WHOLE = 200
"""Runs of a tree that is shown whole."""
FIRST = 50
"""Children of a page."""
MOST_COUNTED = 1_000
MOST_OF_TREE = 10_000


class TreeNode(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a tree, ``depth`` below its root. ``children`` is how many it started (``capped``: so many, or more).
    With ``open`` those that are shown follow in the list, else they are to be asked for, if there are any."""

    run: RunRow
    depth: int
    children: Count
    open: bool


class TreePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of a run's children, oldest first, with how many each of them has. ``next`` is the cursor of the rest."""

    nodes: tuple[TreeNode, ...]
    next: str | None


class TreeView(msgspec.Struct, frozen=True, kw_only=True):
    """A tree, each run followed by those below it, oldest first. ``whole`` says that all of it is here; else it is the
    path from the root to the run that was asked for, with the first of that run's children, and ``more`` is the cursor
    of the rest of those. ``counts`` says how many of all of them there are of each status;
    with ``capped``, of the newest ten thousand."""

    run_id: str
    root_id: str
    nodes: tuple[TreeNode, ...]
    whole: bool
    more: str | None
    counts: tuple[tuple[Status, int], ...]
    capped: bool


@bounded
async def tree(context: Context, run_id: str) -> TreeView:
    """The tree that this run lies in. Raises RunNotFound."""
    record = await record_of(context, run_id)
    now = await context.now()
    storage = context.client.storage
    found = await storage.list_runs(RunFilter(root=record.root_id), WHOLE + 1, None, oldest=True)
    if len(found.runs) <= WHOLE and found.next is None:
        return _whole(context, record, found.runs, now)
    path = await _path(context, record)
    page = await _children(context, record, None, FIRST, now)
    above = [await _node(context, row_of(context, each, now), depth, open_=True) for depth, each in enumerate(path)]
    below = [await _node(context, row, len(path)) for row in page.rows]
    by_status = await storage.aggregate(RunFilter(root=record.root_id), "status", MOST_OF_TREE)
    return TreeView(
        run_id=record.id,
        root_id=record.root_id,
        nodes=(*above, *below),
        whole=False,
        more=page.next,
        counts=_by_status({group.value: group.count for group in by_status.groups}),
        capped=by_status.capped,
    )


@bounded
async def children(context: Context, run_id: str, cursor: str | None = None, limit: int = FIRST) -> RunsPage:
    """The runs that this one started, oldest first. Raises RunNotFound, BadCursor."""
    record = await record_of(context, run_id)
    return await _children(context, record, cursor, limit, await context.now())


@bounded
async def children_of(
    context: Context, run_id: str, cursor: str | None = None, *, depth: int = 1, limit: int = FIRST
) -> TreePage:
    """The same as nodes of a tree that lie so deep below its root. Raises RunNotFound, BadCursor."""
    page = await children(context, run_id, cursor, limit)
    nodes = [await _node(context, row, depth) for row in page.rows]
    return TreePage(nodes=tuple(nodes), next=page.next)


async def _node(context: Context, row: RunRow, depth: int, *, open_: bool = False) -> TreeNode:
    count = await counted(context, RunFilter(parent=row.id, root=row.root_id), MOST_COUNTED)
    return TreeNode(run=row, depth=depth, children=count, open=open_)


async def _children(context: Context, record: RunRecord, cursor: str | None, limit: int, now: datetime) -> RunsPage:
    query = RunQuery(parent=record.id, sort="oldest", limit=limit)
    place = None if cursor is None else context.cursors.read(query.listing, cursor)
    # All of a tree begin after its root and have it: what is looked at is the tree's, however many others there are.
    return await page_of(context, query, RunFilter(parent=record.id, root=record.root_id), place, now)


async def _path(context: Context, record: RunRecord) -> list[RunRecord]:
    """From the root to this run."""
    path = [record]
    while path[0].parent_id is not None:
        above = await context.client.storage.run(path[0].parent_id)
        if above is None:
            break
        path.insert(0, above)
    return path


def _whole(context: Context, record: RunRecord, runs: Sequence[RunRecord], now: datetime) -> TreeView:
    ids = {each.id for each in runs}
    below: defaultdict[str | None, list[RunRecord]] = defaultdict(list)
    for each in sorted(runs, key=lambda each: (each.created_at, each.id)):
        # One whose parent is not there, as while the tree is being deleted, stands at the top.
        below[each.parent_id if each.parent_id in ids else None].append(each)
    nodes: list[TreeNode] = []
    left = [(0, each) for each in reversed(below[None])]
    while left:
        depth, each = left.pop()
        inside = below[each.id]
        nodes.append(TreeNode(run=row_of(context, each, now), depth=depth, children=Count(len(inside)), open=True))
        left += [(depth + 1, child) for child in reversed(inside)]
    return TreeView(
        run_id=record.id,
        root_id=record.root_id,
        nodes=tuple(nodes),
        whole=True,
        more=None,
        counts=_by_status(Counter(node.run.status for node in nodes)),
        capped=False,
    )


def _by_status(counts: Mapping[str, int]) -> tuple[tuple[Status, int], ...]:
    return tuple((status, counts[status]) for status in Status if status in counts)
