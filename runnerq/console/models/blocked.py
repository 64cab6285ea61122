"""Blocked runs: what is on record, and what the code asks for instead."""

from __future__ import annotations

import msgspec

from runnerq.client.readable import block_of
from runnerq.console.models.context import Context, bounded
from runnerq.console.models.filters import RunQuery
from runnerq.console.models.redaction import Spot
from runnerq.console.models.run import BlockView, block_view
from runnerq.console.models.runs import RunRow, list_runs
from runnerq.persistence.records import Status


class BlockedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A blocked run, and why (None: it was taken up meanwhile)."""

    run: RunRow
    block: BlockView | None


class BlockedPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of them, newest first."""

    rows: tuple[BlockedRow, ...]
    next: str | None
    previous: str | None


@bounded
async def blocked(context: Context, cursor: str | None = None, limit: int = 25) -> BlockedPage:
    """A page of the blocked runs. Raises BadCursor."""
    query = RunQuery(status=(Status.BLOCKED,), limit=limit, cursor=cursor)
    page = await list_runs(context, query)
    rows = []
    for row in page.rows:
        found = await block_of(context.client.storage, row.id)
        spot = Spot("error", row.id, row.workflow)
        rows.append(BlockedRow(run=row, block=None if found is None else block_view(context, spot, found)))
    return BlockedPage(rows=tuple(rows), next=page.next, previous=page.previous)
