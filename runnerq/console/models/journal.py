"""A run's journal, read as far as it can be opened here."""

from __future__ import annotations

from functools import partial

import msgspec

from runnerq.client.aside import size_of
from runnerq.client.history import Entry, entries_of
from runnerq.console.models.context import Context
from runnerq.console.models.filters import BadFields
from runnerq.persistence.records import Attempt, Journal, RunRecord
from runnerq.serialization.sealing import unreadable
from runnerq.workflow.journal import Row, asks_of
from runnerq.workflow.reopening import effective, undo_began

NO_FORK = frozenset({"started", "cancel", "reopened", "undo"})


class ReadJournal(msgspec.Struct, frozen=True, kw_only=True):
    """A generation of a journal: its rows as they are stored, and its entries.

    ``unreadable`` says by position why a value cannot be opened here; such an entry has none. ``sealed`` says why there
    are no entries at all: what was asked for is sealed as well. ``size`` is about how many characters it has.
    """

    generation: int
    present: bool
    rows: tuple[Row, ...]
    entries: tuple[Entry, ...]
    attempts: tuple[Attempt, ...]
    unreadable: dict[str, str]
    sealed: str | None
    size: int


async def read_journal(context: Context, record: RunRecord, generation: int | None = None) -> ReadJournal:
    """One generation of the run's journal, the present one if none is given. BadFields for one that there is not."""
    if generation is not None and not 1 <= generation <= record.generation:
        raise BadFields({"generation": f"run {record.id} has the generations 1 to {record.generation}"})
    wanted = record.generation if generation is None else generation
    journal = await context.client.storage.journal(record.id, wanted)
    if journal is None:  # deleted meanwhile
        journal = Journal(run_id=record.id, generation=wanted, rows=())
    size = size_of(journal.rows)
    return await context.aside(size, partial(_read, record, journal, size))


def _read(record: RunRecord, journal: Journal, size: int) -> ReadJournal:
    values: dict[str, str] = {}
    opened: list[Row] = []
    sealed: str | None = None
    for row in journal.rows:
        what = f"row {row.place} of generation {journal.generation}"
        lost = unreadable(row.asked, record.id, what)
        refused = unreadable(row.value, record.id, what)
        if refused is not None and row.kind == "reopened":
            # What it takes back decides what all before it means.
            lost = refused
        if refused is not None:
            values[row.position] = str(refused)
        sealed = sealed or (None if lost is None else str(lost))
        opened.append(row if refused is None else msgspec.structs.replace(row, value=None))
    readable = msgspec.structs.replace(journal, rows=tuple(opened))
    return ReadJournal(
        generation=journal.generation,
        present=journal.generation == record.generation,
        rows=journal.rows,
        entries=() if sealed is not None else _entries(readable, record),
        attempts=journal.attempts,
        unreadable=values,
        sealed=sealed,
        size=size,
    )


def _entries(journal: Journal, record: RunRecord) -> tuple[Entry, ...]:
    """The entries. What was asked for and had no answer when the run ended, as it was terminated, is closed with it."""
    entries = entries_of(journal, record.name)
    if record.ended_at is None or journal.generation != record.generation:
        return tuple(entries)
    closed = {"state": "closed", "answered_at": record.ended_at}
    return tuple(msgspec.structs.replace(each, **closed) if each.state == "asked" else each for each in entries)


def forkable(record: RunRecord, found: ReadJournal) -> frozenset[str]:
    """The positions that a fork may begin at. What was taken back is none of them, and nothing is once undos began."""
    if record.kind == "activity" or not found.present or found.sealed is not None or undo_began(found.rows):
        return frozenset()
    asked = {each.position for row in effective(found.rows) for each in asks_of(row)}
    return frozenset(entry.position for entry in found.entries if entry.kind not in NO_FORK and entry.position in asked)
