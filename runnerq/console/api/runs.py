"""What the API tells of runs."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from runnerq.console.api.operations import reads
from runnerq.console.api.shapes import (
    BlockedRuns,
    GenerationQuery,
    HistoryParams,
    PageQuery,
    PayloadQuery,
    Result,
    Runs,
    RunsQuery,
    WaitQuery,
)
from runnerq.console.models import runs as models
from runnerq.console.models.attempts import AttemptsView, attempts
from runnerq.console.models.blocked import blocked
from runnerq.console.models.context import Context
from runnerq.console.models.exports import exported
from runnerq.console.models.history import HistoryPage, HistoryQuery, Span, history, spans
from runnerq.console.models.payloads import Payload
from runnerq.console.models.run import RunDetail, run_detail, whole_payload
from runnerq.console.models.signals import SignalsView, signals
from runnerq.console.models.tree import TreeView, children, tree
from runnerq.errors import ResultTimeout
from runnerq.persistence.records import Status

ENDED = tuple(status for status in Status if status.ended)


@reads("/runs")
async def list_runs(context: Context, query: RunsQuery) -> Runs:
    """Runs, the newest first unless `sort` says otherwise.

    A page may have fewer runs than `limit`, even none, and a `next_cursor` all the same: `searched_to` says how far the
    search has come.
    """
    wanted = query.parsed()
    found = runs_of(await models.list_runs(context, wanted))
    if not query.count:
        return found
    return msgspec.structs.replace(found, count=await models.count(context, wanted))


@reads("/runs/{run_id}")
async def get_run(context: Context, run_id: str) -> RunDetail:
    """A run as it stands, what it waits for, and what may be done about it.

    Of a payload of more than 64 kB only the size is said here.
    """
    return await run_detail(context, run_id)


@reads("/runs/{run_id}/history")
async def get_history(context: Context, run_id: str, query: HistoryParams) -> HistoryPage:
    """A run's journal: entries, one a command with its answer, or the rows that are stored.

    Of a payload of more than 2 kB only the size is said here.
    """
    wanted = HistoryQuery(
        generation=query.generation,
        view=query.view,
        kind=query.kind,
        state=query.state,
        text=query.text,
        newest_first=query.newest_first,
        page=query.page,
    )
    return await history(context, run_id, wanted)


@reads("/runs/{run_id}/steps")
async def list_steps(context: Context, run_id: str, query: GenerationQuery) -> tuple[Span, ...]:
    """A run's commands over time, without their payloads, in the order in which they were asked for."""
    return tuple(await spans(context, run_id, query.generation))


@reads("/runs/{run_id}/children")
async def list_children(context: Context, run_id: str, query: PageQuery) -> Runs:
    """The runs that a run has started, the oldest first."""
    return runs_of(await children(context, run_id, query.cursor, query.limit))


@reads("/runs/{run_id}/tree")
async def get_tree(context: Context, run_id: str) -> TreeView:
    """The tree that a run lies in, each run followed by those below it.

    Whole up to two hundred runs; else the path from the root to the run, and the first of its children.
    """
    return await tree(context, run_id)


@reads("/runs/{run_id}/signals")
async def list_signals(context: Context, run_id: str) -> SignalsView:
    """A run's signals: those that it waits for, those that wait for it, and those that it has taken."""
    return await signals(context, run_id)


@reads("/runs/{run_id}/attempts")
async def list_attempts(context: Context, run_id: str) -> AttemptsView:
    """A run's attempts, as far as they are on record: those of a step until it is answered."""
    return await attempts(context, run_id)


@reads("/runs/{run_id}/payloads/{which}")
async def get_payload(context: Context, run_id: str, which: str, query: PayloadQuery) -> Payload:
    """One payload of a run, however long: `input`, `result`, `state`, `error`, an `entry` or a `signal` by number."""
    return await whole_payload(context, run_id, which, entry=query.entry)


@reads("/runs/{run_id}/result", waits=True)
async def get_result(context: Context, run_id: str, query: WaitQuery) -> Result:
    """How a run ended, its result however long; with `wait` as soon as it has, within so many seconds.

    `ended` is false if it goes on: ask again.
    """
    found = await run_detail(context, run_id)
    if query.wait and not found.run.status.ended:
        # A wait that ends without its end is no error: the answer says that it goes on.
        with suppress(ResultTimeout):
            await context.client.handle(run_id).reached(*ENDED, timeout=query.wait)
        found = await run_detail(context, run_id)
    cut = found.result is not None and found.result.cut
    result = await whole_payload(context, run_id, "result") if cut else found.result
    return Result(
        run_id=found.run.id,
        status=found.run.status,
        ended=found.run.status.ended,
        result=result,
        error=found.error,
        reason=found.reason,
    )


@reads("/runs/{run_id}/export")
async def export_run(context: Context, run_id: str) -> dict[str, Any]:
    """All that is on record of a run, as a file for `runnerq replay`.

    `redacted` says how many payloads were masked, if any were: such a file may not replay, and
    `runnerq export --reveal` makes one that does.
    """
    return await exported(context, run_id)


@reads("/blocked")
async def list_blocked(context: Context, query: PageQuery) -> BlockedRuns:
    """Runs that this code cannot follow: what is on record, and what was asked for instead."""
    found = await blocked(context, query.cursor, query.limit)
    return BlockedRuns(items=found.rows, next_cursor=found.next, previous_cursor=found.previous)


def runs_of(page: models.RunsPage) -> Runs:
    """A page of a list in the API's form."""
    return Runs(
        items=page.rows,
        next_cursor=page.next,
        previous_cursor=page.previous,
        searched_to=page.searched_to,
        now=page.now,
    )


OPERATIONS = (
    list_runs, get_run, get_history, list_steps, list_children, get_tree, list_signals, list_attempts, get_payload,
    get_result, export_run, list_blocked,
)  # fmt: skip
