"""A run's journal as it is read: entries by pages, rows, spans of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Literal, TypeAlias

import msgspec

from runnerq.client.forking import origin_of
from runnerq.client.history import Entry, EntryKind, EntryState
from runnerq.console.models.context import Context, bounded
from runnerq.console.models.journal import ReadJournal, forkable, read_journal
from runnerq.console.models.payloads import ErrorView, Payload, failure_view, payload_of, shown_of
from runnerq.console.models.records import error_spot, kind_of_value, record_of, spot, value_spot
from runnerq.persistence.records import RunRecord
from runnerq.workflow.journal import Row, asks_of

View: TypeAlias = Literal["compact", "full", "json"]
PAGE = 500
"""Entries, or rows, of a page."""
LISTED = 2 * 1024
"""Characters of a value that a history shows: five hundred of them are one page."""


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One command and what came of it. ``number`` counts from 1 in the order in which they were asked for and stays the
    entry's own: ``#ev-17``. ``duration`` is seconds until its answer, or to now; ``gap`` seconds of nothing before it.
    ``depth`` is how deep it lies in composites and branches. ``forkable``: a fork may begin at its position."""

    number: int
    position: str
    depth: int
    kind: EntryKind
    name: str
    state: EntryState
    asked_at: datetime
    answered_at: datetime | None
    duration: float
    gap: float
    attempts: int
    value: Payload | None
    error: ErrorView | None
    child_id: str | None
    forkable: bool


class AskedView(msgspec.Struct, frozen=True, kw_only=True):
    """A command that was asked for on being fed a row."""

    position: str
    kind: str
    name: str
    deadline: datetime | None
    child_id: str | None


class HistoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the journal, as it is stored."""

    place: int
    kind: str
    position: str
    at: datetime
    value: Payload | None
    asked: tuple[AskedView, ...]


class HistoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What of a history is shown. ``kind`` and ``state`` are those of entries, ``text`` is looked for in names,
    positions, values and errors as they are shown. ``page`` counts from 1."""

    generation: int | None = None
    view: View = "compact"
    kind: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    text: str | None = None
    newest_first: bool = False
    page: int = 1


class HistoryPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of a generation's history. ``total`` is how many entries (rows, in the full view) there are, ``found`` how
    many fit, in ``pages`` pages. ``kinds`` counts entries by kind, ``states`` by state. ``sealed`` says why nothing is
    shown where the journal cannot be opened here."""

    run_id: str
    workflow: str
    generation: int
    generations: int
    view: View
    entries: tuple[HistoryEntry, ...]
    rows: tuple[HistoryRow, ...]
    total: int
    found: int
    page: int
    pages: int
    kinds: tuple[tuple[str, int], ...]
    states: tuple[tuple[str, int], ...]
    now: datetime
    sealed: str | None


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A command over time. ``end`` is None while it is open. ``number`` is its entry's."""

    number: int
    position: str
    kind: EntryKind
    name: str
    begin: datetime
    end: datetime | None
    state: EntryState
    attempts: int
    child_id: str | None


NO_QUERY = HistoryQuery()


@bounded
async def history(context: Context, run_id: str, query: HistoryQuery = NO_QUERY) -> HistoryPage:
    """A page of the run's history. Raises RunNotFound, and BadFields for a generation that there is not."""
    record = await record_of(context, run_id)
    found = await read_journal(context, record, query.generation)
    now = await context.now()
    return await context.aside(found.size, partial(_page, context, record, found, query, now))


def _page(context: Context, record: RunRecord, found: ReadJournal, query: HistoryQuery, now: datetime) -> HistoryPage:
    numbered = list(enumerate(found.entries, 1))
    fitting = _fitting(context, record, numbered, query)
    rows = found.rows[::-1] if query.newest_first else found.rows
    many = len(rows) if query.view == "full" else len(fitting)
    pages = max(1, -(-many // PAGE))
    page = min(max(1, query.page), pages)
    here = slice((page - 1) * PAGE, page * PAGE)
    full = query.view == "full"
    asked = {entry.position: entry for entry in found.entries} if full else {}
    return HistoryPage(
        run_id=record.id,
        workflow=record.name,
        generation=found.generation,
        generations=record.generation,
        view=query.view,
        entries=() if full else _shown(context, record, found, fitting[here], now),
        rows=tuple(_row(context, record, found, row, asked) for row in rows[here]) if full else (),
        total=len(rows) if full else len(numbered),
        found=many,
        page=page,
        pages=pages,
        kinds=_counted(entry.kind for entry in found.entries),
        states=_counted(entry.state for entry in found.entries),
        now=now,
        sealed=found.sealed,
    )


@bounded
async def page_of_entry(context: Context, run_id: str, number: int, query: HistoryQuery = NO_QUERY) -> int:
    """The page on which this entry stands: what a deep link is led to. 1 where there is no such entry."""
    record = await record_of(context, run_id)
    found = await read_journal(context, record, query.generation)
    numbered = list(enumerate(found.entries, 1))
    fitting = await context.aside(found.size, partial(_fitting, context, record, numbered, query))
    place = next((place for place, (each, _) in enumerate(fitting) if each == number), 0)
    return place // PAGE + 1


@bounded
async def latest(context: Context, run_id: str, most: int = 20) -> tuple[HistoryEntry, ...]:
    """The last entries of the present generation, the newest first."""
    record = await record_of(context, run_id)
    found = await read_journal(context, record)
    numbered = list(enumerate(found.entries, 1))[-most:]
    now = await context.now()
    return await context.aside(found.size, partial(_shown, context, record, found, numbered[::-1], now))


@bounded
async def spans(context: Context, run_id: str, generation: int | None = None) -> list[Span]:
    """The commands over time, in the order in which they were asked for."""
    record = await record_of(context, run_id)
    found = await read_journal(context, record, generation)
    return await context.aside(found.size, partial(_spans, record, found))


def _spans(record: RunRecord, found: ReadJournal) -> list[Span]:
    ended = record.ended_at if found.generation == record.generation else None
    anew = [row.at for row in found.rows if row.kind == "reopened"]
    if origin_of(record.options) is not None:
        anew.append(record.created_at)
    return [
        msgspec.structs.replace(_span(number, entry, ended), begin=_begun(entry, anew))
        for number, entry in enumerate(found.entries, 1)
    ]


def _begun(entry: Entry, anew: list[datetime]) -> datetime:
    """When that was begun which came to this end: a retry and a fork do anew what had been asked for before them."""
    before = [at for at in anew if entry.answered_at is None or at <= entry.answered_at]
    return max([entry.asked_at, *before])


async def entry_payload(context: Context, record: RunRecord, number: int) -> Payload | None:
    """The whole value of an entry of the present generation, or its error; None where it has none."""
    found = await read_journal(context, record)
    if not 1 <= number <= len(found.entries):
        return None
    entry = found.entries[number - 1]
    if entry.position in found.unreadable:
        return Payload(text="", sealed=found.unreadable[entry.position])
    if entry.error is not None:
        error = msgspec.to_builtins(entry.error)
        return shown_of(context, error_spot(record, entry), error, limit=None)
    return None if entry.value is None else shown_of(context, value_spot(record, entry), entry.value, limit=None)


def _fitting(
    context: Context, record: RunRecord, numbered: list[tuple[int, Entry]], query: HistoryQuery
) -> list[tuple[int, Entry]]:
    text = (query.text or "").lower()
    fitting = [
        (number, entry)
        for number, entry in numbered
        if (not query.kind or entry.kind in query.kind)
        and (not query.state or entry.state in query.state)
        and (not text or text in _searched(context, record, entry))
    ]
    return fitting[::-1] if query.newest_first else fitting


def _searched(context: Context, record: RunRecord, entry: Entry) -> str:
    """All that is shown of an entry, in lower case: what is masked is not to be found by search."""
    value = "" if entry.value is None else _json(context.redact(value_spot(record, entry), entry.value))
    error = "" if entry.error is None else failure_view(context, error_spot(record, entry), entry.error).line
    return " ".join((entry.position, entry.kind, entry.name, entry.child_id or "", value, error)).lower()


def _shown(
    context: Context, record: RunRecord, found: ReadJournal, numbered: Sequence[tuple[int, Entry]], now: datetime
) -> tuple[HistoryEntry, ...]:
    places = forkable(record, found)
    end = record.ended_at if record.ended_at is not None else now
    return tuple(_entry(context, record, found, number, entry, places, end) for number, entry in numbered)


def _entry(
    context: Context,
    record: RunRecord,
    found: ReadJournal,
    number: int,
    entry: Entry,
    places: frozenset[str],
    end: datetime,
) -> HistoryEntry:
    sealed = found.unreadable.get(entry.position)
    failure = entry.error
    value = None if entry.value is None else shown_of(context, value_spot(record, entry), entry.value, limit=LISTED)
    return HistoryEntry(
        number=number,
        position=entry.position,
        depth=entry.position.count("."),
        kind=entry.kind,
        name=entry.name,
        state=entry.state,
        asked_at=entry.asked_at,
        answered_at=entry.answered_at,
        duration=max(0.0, ((entry.answered_at or end) - entry.asked_at).total_seconds()),
        gap=0.0 if number < 2 else _gap(found.entries[number - 2], entry),
        attempts=entry.attempts,
        value=value if sealed is None else Payload(text="", sealed=sealed),
        error=None if failure is None else failure_view(context, error_spot(record, entry), failure, limit=LISTED),
        child_id=entry.child_id,
        forkable=entry.position in places,
    )


def _gap(before: Entry, entry: Entry) -> float:
    last = before.answered_at or before.asked_at
    return max(0.0, (entry.asked_at - last).total_seconds())


def _row(context: Context, record: RunRecord, found: ReadJournal, row: Row, asked: Mapping[str, Entry]) -> HistoryRow:
    what = f"row {row.place} of generation {found.generation}"
    of = asked.get(row.position) if row.position else None
    kind = "error" if row.kind == "failed" else kind_of_value("" if of is None else of.kind)
    where = spot(kind, record, "" if of is None else of.name)
    return HistoryRow(
        place=row.place,
        kind=row.kind,
        position=row.position,
        at=row.at,
        value=payload_of(context, where, row.value, what, limit=LISTED),
        asked=()
        if found.sealed is not None
        else tuple(
            AskedView(
                position=each.position, kind=each.kind, name=each.name, deadline=each.deadline, child_id=each.child
            )
            for each in asks_of(row)
        ),
    )


def _span(number: int, entry: Entry, ended_at: datetime | None) -> Span:
    return Span(
        number=number,
        position=entry.position,
        kind=entry.kind,
        name=entry.name,
        begin=entry.asked_at,
        # What was closed with the run has no answer of its own.
        end=entry.answered_at or (None if ended_at is None else max(ended_at, entry.asked_at)),
        state=entry.state,
        attempts=entry.attempts,
        child_id=entry.child_id,
    )


def _counted(values: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(Counter(values).most_common())


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
