"""A run's journal, read as far as it can be opened here."""

from __future__ import annotations

import msgspec

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
    are no entries at all: what was asked for is sealed as well.
    """

    generation: int
    present: bool
    rows: tuple[Row, ...]
    entries: tuple[Entry, ...]
    attempts: tuple[Attempt, ...]
    unreadable: dict[str, str]
    sealed: str | None


async def read_journal(context: Context, record: RunRecord, generation: int | None = None) -> ReadJournal:
    """One generation of the run's journal, the present one if none is given. BadFields for one that there is not."""
    if generation is not None and not 1 <= generation <= record.generation:
        raise BadFields({"generation": f"run {record.id} has the generations 1 to {record.generation}"})
    wanted = record.generation if generation is None else generation
    journal = await context.client.storage.journal(record.id, wanted)
    if journal is None:  # deleted meanwhile
        journal = Journal(run_id=record.id, generation=wanted, rows=())
    values: dict[str, str] = {}
    opened: list[Row] = []
    sealed: str | None = None
    for row in journal.rows:
        what = f"row {row.place} of generation {wanted}"
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
        generation=wanted,
        present=wanted == record.generation,
        rows=journal.rows,
        entries=() if sealed is not None else tuple(entries_of(readable, record.name)),
        attempts=journal.attempts,
        unreadable=values,
        sealed=sealed,
    )


def forkable(record: RunRecord, found: ReadJournal) -> frozenset[str]:
    """The positions that a fork may begin at. What was taken back is none of them, and nothing is once undos began."""
    if record.kind == "activity" or not found.present or found.sealed is not None or undo_began(found.rows):
        return frozenset()
    asked = {each.position for row in effective(found.rows) for each in asks_of(row)}
    return frozenset(entry.position for entry in found.entries if entry.kind not in NO_FORK and entry.position in asked)
