"""What may be done to many runs at once: those that are named, or all that fit a query."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from runnerq.client.client import Client
from runnerq.console.actions.doing import MOST_TOLD, Deed, admit, record
from runnerq.console.actions.runs import priority_of
from runnerq.console.models.batches import BatchEnd, BatchNotFound, BatchView, Progress
from runnerq.console.models.context import Context, bounded
from runnerq.console.models.filters import BadFields, RunQuery
from runnerq.console.models.redaction import Spot, mask
from runnerq.console.models.runs import Count, RunRow, counted, filter_of, row_of
from runnerq.console.table import ACTIONS
from runnerq.errors import RunnerQError, StorageUnavailable
from runnerq.ids import check_run_id
from runnerq.persistence.records import RunFilter, RunRecord, Status

T = TypeVar("T")

PAGE = 200
SAMPLE = 10
MOST_NAMED = 1_000
"""Runs that may be named one by one."""
ID_ROOM = 40
"""Characters that an id takes in a list: itself, its quotes and a comma."""
WAITS = (0.5, 1.0, 2.0, 4.0)
"""Seconds before a storage that does not answer is asked again."""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs: those of ``ids``, or all that fit ``query`` (never both, never neither)."""

    ids: tuple[str, ...] = ()
    query: RunQuery | None = None


class BatchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An action of those that ``ACTIONS`` says ``bulk`` of, for a selection. ``priority`` goes with ``priority``."""

    action: str
    selection: Selection
    priority: str | None = None


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch would be about: how many runs, and the first of them. Nothing was changed. ``at`` is when it was
    looked at, by the database."""

    count: Count
    sample: tuple[RunRow, ...]
    at: datetime


@bounded
async def preview(context: Context, request: BatchRequest) -> Preview:
    """A dry run: how many runs it would be about, and the first ten. Raises Forbidden, BadFields."""
    await _admit(context, request, None)
    now = await context.now()
    storage = context.client.storage
    ids, query = request.selection.ids, request.selection.query
    if query is None:
        named = [record for each in dict.fromkeys(ids) if (record := await storage.run(each)) is not None]
        # The database has the last word: what is in no state for it is not in the number, and is passed over.
        found = [record for record in named if _is_for(request.action, record)]
        rows = tuple(row_of(context, record, now) for record in found[:SAMPLE])
        return Preview(count=Count(len(found)), sample=rows, at=now)
    where = _applicable(request.action, filter_of(context, query, now))
    if where is None:
        return Preview(count=Count(0), sample=(), at=now)
    sample = await storage.list_runs(where, SAMPLE)
    return Preview(
        count=await counted(context, where),
        sample=tuple(row_of(context, record, now) for record in sample.runs),
        at=now,
    )


async def start_batch(
    context: Context, request: BatchRequest, *, reason: str | None = None, as_of: datetime | None = None
) -> BatchView:
    """Begin it: it goes on in this process, and ``context.batches.get(id)`` says how far it is.

    Of a query only runs in a state that the action is for, and that had begun before it, are looked at. What cannot be
    changed is counted as failed, and the rest goes on. Each run that it changed has a row of the audit, with the
    batch's reason. With ``as_of``, when somebody has seen a preview, runs that were started later are none of them, and
    times such as ``2h`` are before then. Raises Forbidden (it needs ``bulk``, and the action's own permission),
    BadFields, TooManyBatches.
    """
    deed = await _admit(context, request, reason)
    query = request.selection.query
    where = None
    if query is not None:
        where = _applicable(request.action, filter_of(context, query, as_of or await context.now()))
        if where is not None and as_of is not None:
            where = msgspec.structs.replace(where, until=min(where.until or as_of, as_of))
    context.batches.check_room()
    await record(context, deed, "begun")

    async def work(progress: Progress) -> BatchEnd:
        outcome = "broken off"
        try:
            end = await _change(context, request, where, reason, progress)
            outcome = "ended" if end == "done" else "stopped"
            return end
        finally:
            context.cache.forget()
            view = progress.view
            told = f"{view.done:,} looked at, {view.changed:,} changed, {view.failed:,} could not be"
            await record(context, deed, f"{outcome}: {told}")

    return context.batches.begin(
        request.action,
        _words(request),
        work,
        principal=context.principal.name,
        reason=reason or None,
        params=() if query is None else tuple(query.to_params()),
    )


async def stop_batch(context: Context, batch_id: str, *, reason: str | None = None) -> BatchView:
    """Have it end after the run that it is at. Raises BatchNotFound, Forbidden, BadFields."""
    deed = Deed(action="batch-stop", target=batch_id, reason=reason)
    await admit(context, deed)
    try:
        view = context.batches.stop(batch_id)
    except BatchNotFound as refused:
        await record(context, deed, f"refused: {refused}")
        raise
    await record(context, deed, "done")
    return view


async def _change(
    context: Context, request: BatchRequest, where: RunFilter | None, reason: str | None, progress: Progress
) -> BatchEnd:
    ids = request.selection.ids
    if ids:
        progress.total(len(ids), capped=False)
    elif where is not None:
        count = await counted(context, where)
        progress.total(count.n, capped=count.capped)
    async for run_id in _selected(context, ids, where):
        if progress.stopping:
            return "stopped"
        try:
            changed = await _patiently(lambda: _VERBS[request.action](context.client, run_id, request, reason or None))  # noqa: B023 - awaited before the next
        except (RunnerQError, ValueError) as refused:
            if isinstance(refused, StorageUnavailable):
                raise
            progress.failed(run_id, str(refused))
            continue
        progress.looked_at(changed=changed)
        if changed:
            await _patiently(lambda: record(context, _deed_of(request, run_id, reason, progress), "done"))  # noqa: B023 - as above
    return "done"


async def _selected(context: Context, ids: Sequence[str], where: RunFilter | None) -> AsyncIterator[str]:
    for run_id in ids:
        yield run_id
    cursor: str | None = None
    while where is not None:
        found = await _patiently(lambda: context.client.storage.list_runs(where, PAGE, cursor))  # noqa: B023 - as above
        for each in found.runs:
            yield each.id
        cursor = found.next
        if cursor is None:
            return


async def _patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer, asked for again where the storage is away for a moment: all that is asked here may be asked twice."""
    for wait in WAITS:
        try:
            return await ask()
        except StorageUnavailable:
            await asyncio.sleep(wait)
    return await ask()


async def _admit(context: Context, request: BatchRequest, reason: str | None) -> Deed:
    """What the audit will have of it. Raises Forbidden, BadFields."""
    spec = ACTIONS.get(request.action)
    if spec is None or not spec.bulk:
        bulk = ", ".join(name for name, each in ACTIONS.items() if each.bulk)
        raise BadFields({"action": f"{request.action!r} is nothing for many runs: there are {bulk}"})
    asked: dict[str, Any] = {"action": request.action, "priority": request.priority}
    ids, query = request.selection.ids, request.selection.query
    if query is not None:
        asked["query"] = dict(query.to_params())
    deed = Deed(
        action="batch",
        # Who may look for a secret has perhaps typed one.
        target=mask(Spot("error", "", ""), f"{request.action} {_words(request)}"),
        reason=reason,
        request={**asked, "ids": _fitting(asked, ids) or None},
    )
    await admit(context, deed)
    await admit(context, Deed(action=spec.name, target=deed.target))
    if bool(ids) == (query is not None):
        raise BadFields({"ids": "name runs, or give a query: one of them"})
    if len(ids) > MOST_NAMED:
        raise BadFields({"ids": f"{len(ids):,} runs are named, and {MOST_NAMED:,} are the most: give a query"})
    for each in ids:
        try:
            check_run_id(each)
        except ValueError as error:
            raise BadFields({"ids": str(error)}) from error
    if request.action == "priority":
        priority_of(request.priority or "")
    return deed


def _deed_of(request: BatchRequest, run_id: str, reason: str | None, progress: Progress) -> Deed:
    asked = {"batch": progress.view.id, "priority": request.priority}
    return Deed(action=request.action, run_id=run_id, reason=reason, request=asked)


def _fitting(asked: Mapping[str, Any], ids: Sequence[str]) -> list[str]:
    """As many of the ids as the audit keeps in one row. Each run that is changed has a row of its own as well."""
    room = MOST_TOLD - len(msgspec.json.encode({**asked, "ids": []}))
    return list(ids[: max(0, room // ID_ROOM)])


def _words(request: BatchRequest) -> str:
    ids, query = request.selection.ids, request.selection.query
    if query is None:
        return f"{len(ids):,} selected run{'' if len(ids) == 1 else 's'}"
    conditions = ", ".join(f"{chip.name}={chip.value}" for chip in query.chips())
    return f"all runs with {conditions}" if conditions else "all runs"


def _applicable(action: str, where: RunFilter) -> RunFilter | None:
    """The filter, of runs in a state that the action is for; None where there can be none."""
    states = _STATES[action]
    given = states if where.status is None else tuple(Status(each) for each in where.status if each in states)
    if not given:
        return None
    return msgspec.structs.replace(where, status=given, roots=where.roots or action == "delete")


def _is_for(action: str, record: RunRecord) -> bool:
    """Whether a run is in a state that the action is for."""
    return record.status in _STATES[action] and (action != "delete" or record.parent_id is None)


async def _cancel(client: Client, run_id: str, _: BatchRequest, reason: str | None) -> bool:
    return await client.cancel(run_id, reason)


async def _terminate(client: Client, run_id: str, _: BatchRequest, __: str | None) -> bool:
    return await client.terminate(run_id)


async def _retry(client: Client, run_id: str, _: BatchRequest, __: str | None) -> bool:
    return await client.retry(run_id)


async def _redrive(client: Client, run_id: str, _: BatchRequest, __: str | None) -> bool:
    return await client.redrive(run_id) > 0


async def _run_now(client: Client, run_id: str, _: BatchRequest, __: str | None) -> bool:
    return await client.run_now(run_id)


async def _priority(client: Client, run_id: str, request: BatchRequest, __: str | None) -> bool:
    return await client.set_priority(run_id, priority_of(request.priority or ""))


async def _delete(client: Client, run_id: str, _: BatchRequest, __: str | None) -> bool:
    return await client.delete(run_id)


_VERBS: Mapping[str, Callable[[Client, str, BatchRequest, str | None], Awaitable[bool]]] = {
    "cancel": _cancel,
    "terminate": _terminate,
    "retry": _retry,
    "redrive": _redrive,
    "run-now": _run_now,
    "priority": _priority,
    "delete": _delete,
}
_OPEN = tuple(status for status in Status if not status.ended)
_STATES: Mapping[str, tuple[Status, ...]] = {
    "cancel": _OPEN,
    "terminate": _OPEN,
    "retry": (Status.FAILED, Status.DEAD_LETTER, Status.BLOCKED),
    "redrive": (Status.DEAD_LETTER,),
    "run-now": (Status.SCHEDULED, Status.RETRYING),
    "priority": _OPEN,
    "delete": tuple(status for status in Status if status.ended),
}
