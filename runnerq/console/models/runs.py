"""Lists of runs, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from runnerq.client.info import waits_for
from runnerq.client.readable import block_of
from runnerq.console.models.context import Context, bounded
from runnerq.console.models.filters import BadFields, RunQuery
from runnerq.console.models.fleet import HeldOn, fleet, obstacle
from runnerq.console.models.paging import Place
from runnerq.console.models.payloads import error_line, shown_text
from runnerq.console.models.records import made_at
from runnerq.console.models.redaction import Spot, telling
from runnerq.persistence.records import LOOK, Kind, Priority, RunFilter, RunRecord, Status
from runnerq.serialization.failures import read
from runnerq.serialization.sealing import unreadable

CAP = 10_000
"""Counting stops there."""
MOST_NEWER = 99
REVEAL = "payload.reveal"


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run on one line. ``duration`` is seconds from its start to its end, or to now while it goes on (None before).
    ``attempts`` is known of an activity that has used them up. ``error_line`` is redacted; ``waiting_for`` is words
    without a time: that is ``due_at``. In a list they say as well why it is not taken up, and why it is blocked.
    ``worker`` is who has it while it runs."""

    id: str
    kind: Kind
    workflow: str
    version: int
    key: str | None
    status: Status
    waiting_for: str | None
    due_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    duration: float | None
    attempts: int | None
    queue: str
    priority: str
    parent_id: str | None
    root_id: str
    error_line: str | None
    reason: str | None
    cancel_requested: bool
    generation: int
    worker: HeldOn | None = None


class RunsPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of a list, in its order. ``next`` and ``previous`` are cursors, None where there is nothing.

    ``again`` is the cursor of this very page, also when newer runs have come: the first page has one, and gives it to
    those that are asked for with it. ``newer`` is how many fit that have come since, 99 at most.

    ``searched_to`` is set where the search stopped before the page was full, since it had looked at ``LOOK`` runs: the
    time down (or up) to which it has searched; ``next``, or ``previous`` on the way back, goes on from there. ``now``
    is database time.
    """

    rows: tuple[RunRow, ...]
    next: str | None
    previous: str | None
    searched_to: datetime | None
    now: datetime
    again: str | None = None
    newer: int = 0


class Count(msgspec.Struct, frozen=True):
    """How many; with ``capped`` so many, or more."""

    n: int
    capped: bool = False

    def __str__(self) -> str:
        return f"{self.n:,}+" if self.capped else f"{self.n:,}"


def filter_of(context: Context, query: RunQuery, now: datetime) -> RunFilter:
    """The query for the storage, which searches what is stored: nobody finds out letter by letter what is masked.

    Raises BadFields for what only those may look for who may see it.
    """
    if not context.principal.may(REVEAL):
        errors: dict[str, str] = {}
        if query.error is not None:
            errors["error"] = f"errors hold what is masked: to search them needs the permission {REVEAL!r}"
        for name, value in query.meta:
            if _is_masked(context, query, name, value):
                errors["meta"] = f"{name!r} is masked: to look for it needs the permission {REVEAL!r}"
        if errors:
            raise BadFields(errors)
    return query.to_filter(now, context.zone)


@bounded
async def list_runs(context: Context, query: RunQuery) -> RunsPage:
    """A page of the runs that fit. Raises BadCursor, BadFields."""
    place = None if query.cursor is None else context.cursors.read(query.listing, query.cursor)
    now = await context.now()
    where = filter_of(context, query, now)
    if place is not None and place.direction == "from":
        return await _kept_page(context, query, where, place, now)
    page = await page_of(context, query, where, place, now)
    if place is not None or not page.rows or query.sort == "oldest":
        return page
    again = context.cursors.sign(query.listing, Place("from", page.rows[0].id))
    return msgspec.structs.replace(page, again=again)


async def _kept_page(context: Context, query: RunQuery, where: RunFilter, place: Place, now: datetime) -> RunsPage:
    """The first page as it was, its rows as they are now: nothing moves under the pointer of whoever looks at it."""
    page = await page_of(context, query, where, Place("after", _beyond(place.at, ascending=False)), now)
    newer = await context.client.storage.list_runs(where, MOST_NEWER, place.at, oldest=True)
    return msgspec.structs.replace(page, previous=None, again=query.cursor, newer=len(newer.runs))


@bounded
async def count(context: Context, query: RunQuery, cap: int = CAP) -> Count:
    """How many fit, asked once in two seconds. Of the newest ``LOOK`` runs, if it takes more to find out."""
    where = filter_of(context, query, await context.now())
    # By what was asked and not by the filter: two hours ago is another time at each look.
    key = ("count", query.listing, context.zone, cap)
    return await context.cache.get(key, lambda: counted(context, where, cap))


async def counted(context: Context, where: RunFilter, cap: int = CAP) -> Count:
    """How many fit."""
    found = await context.client.storage.count_runs(where, cap, LOOK)
    return Count(found.count, found.capped)


async def page_of(context: Context, query: RunQuery, where: RunFilter, place: Place | None, now: datetime) -> RunsPage:
    """A page of what a filter finds, from a place on; its cursors are of the query's listing."""
    oldest = query.sort == "oldest"
    back = place is not None and place.direction == "before"
    found = await context.client.storage.list_runs(
        where, query.limit, None if place is None else place.at, oldest=oldest is not back
    )
    if back and found.next is None and len(found.runs) < query.limit:
        # The way back led to the beginning: show a full page of it.
        return await page_of(context, query, where, None, now)
    records = found.runs[::-1] if back else found.runs
    edge = None if place is None else _edge(found.runs, place, ascending=oldest is back)
    onward = None if found.next is None else Place("before" if back else "after", found.next)
    behind = None if edge is None else Place("after" if back else "before", edge)
    ahead, before = (behind, onward) if back else (onward, behind)
    return RunsPage(
        rows=tuple([await row_with_reason(context, record, now) for record in records]),
        next=None if ahead is None else context.cursors.sign(query.listing, ahead),
        previous=None if before is None else context.cursors.sign(query.listing, before),
        searched_to=made_at(found.next) if found.next is not None and len(found.runs) < query.limit else None,
        now=now,
    )


async def row_with_reason(context: Context, record: RunRecord, now: datetime) -> RunRow:
    """The record on one line, which says why it is not taken up where that is known, why it is blocked, and who works
    on it."""
    row, reason = await row_with_worker(context, record, now), await _reason(context, record)
    return row if reason is None else msgspec.structs.replace(row, waiting_for=reason)


async def row_with_worker(context: Context, record: RunRecord, now: datetime) -> RunRow:
    """The record on one line, which says who works on it."""
    row = row_of(context, record, now)
    if record.worker_id is None:
        return row
    return msgspec.structs.replace(row, worker=(await fleet(context)).held_on(record.worker_id))


async def _reason(context: Context, record: RunRecord) -> str | None:
    match record.status:
        case Status.PENDING:
            found = obstacle(await fleet(context), record)
            return f"a worker on queue {record.queue!r}" if found is None else found.text
        case Status.BLOCKED:
            block = await block_of(context.client.storage, record.id)
            return None if block is None else _first_line(context, record, block.message)
        case _:
            return None


def _first_line(context: Context, record: RunRecord, message: str) -> str:
    told = shown_text(context, Spot("error", record.id, record.name), "message", message)
    return told.strip().partition("\n")[0]


def row_of(context: Context, record: RunRecord, now: datetime) -> RunRow:
    """The record on one line."""
    error, tries = _error(context, record)
    return RunRow(
        id=record.id,
        kind=record.kind,
        workflow=record.name,
        version=record.version,
        key=record.key,
        status=record.status,
        waiting_for=waits_for(record),
        due_at=record.due_at,
        created_at=record.created_at,
        started_at=record.started_at,
        ended_at=record.ended_at,
        duration=_duration(record, now),
        attempts=tries,
        queue=record.queue,
        priority=Priority(record.priority).name.lower(),
        parent_id=record.parent_id,
        root_id=record.root_id,
        error_line=error,
        reason=record.reason,
        cancel_requested=record.cancel_requested,
        generation=record.generation,
    )


def _is_masked(context: Context, query: RunQuery, name: str, value: str) -> bool:
    given = {name: value}
    return telling(name) or context.redact(Spot("metadata", "", query.workflow or ""), given) != given


def _error(context: Context, record: RunRecord) -> tuple[str | None, int | None]:
    if record.error is None:
        return None, None
    refused = unreadable(record.error, record.id, "the error")
    if refused is not None:
        return str(refused), None
    failure = read(record.error)
    return error_line(context, Spot("error", record.id, record.name), failure), failure.attempts or None


def _duration(record: RunRecord, now: datetime) -> float | None:
    if record.started_at is None:
        return None
    return max(0.0, ((record.ended_at or now) - record.started_at).total_seconds())


def _edge(found: Sequence[RunRecord], place: Place, *, ascending: bool) -> str:
    """From where the way that was come is gone back: the run that was found first. An empty page has none: there it is
    just beyond the place, so that a run that stands there is of the page that is gone back to."""
    return found[0].id if found else _beyond(place.at, ascending=ascending)


def _beyond(run_id: str, *, ascending: bool) -> str:
    """The id behind which a way begins that has this run on it."""
    beside = UUID(run_id).int + (-1 if ascending else 1)
    return str(UUID(int=min(max(beside, 0), (1 << 128) - 1)))
