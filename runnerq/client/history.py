"""A run's journal as a reader wants it: one entry a command, with its answer once there is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from runnerq.persistence.records import Journal
from runnerq.serialization.failures import Failure, read
from runnerq.workflow.journal import Asked, Reopened, Row, asks_of

EntryKind: TypeAlias = Literal[
    "started", "step", "transaction", "child", "spawn", "send", "sleep", "signal",
    "all", "race", "publish", "patch", "undo", "cancel", "reopened",
]  # fmt: skip
Key: TypeAlias = tuple[str, int]
"""A command's position and 0; ``""`` and the place, of a row that is an entry of its own."""
EntryState: TypeAlias = Literal["asked", "answered", "failed", "closed", "interrupted"]

ATTEMPTED = frozenset({"step", "transaction", "undo"})
COMPOSITES = frozenset({"all", "race"})
AT_ONCE = frozenset({"publish", "spawn", "patch"})
# A look-up is a tenth of what msgspec takes to check a Literal: a history may have tens of thousands of entries.
_KINDS: dict[str, EntryKind] = {kind: kind for kind in get_args(EntryKind)}
_STATES: dict[str, EntryState] = {state: state for state in get_args(EntryState)}
OWN: dict[str, EntryKind] = {"started": "started", "cancel": "cancel", "reopened": "reopened"}
"""Rows that are entries of their own and answer no command. A mark is neither: it holds what was asked anew."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One command of a run and what came of it. ``position`` is what ``fork`` takes, ``""`` for a cancel.

    ``attempts`` counts the attempts on record: the failed ones of an open step, and the one that answered it.
    """

    generation: int
    position: str
    kind: EntryKind
    name: str
    state: EntryState
    value: Any = None
    error: Failure | None = None
    attempts: int = 0
    asked_at: datetime
    answered_at: datetime | None = None
    child_id: str | None = None


def entries_of(journal: Journal, name: str) -> list[Entry]:
    """The entries in the order in which they were asked for; ``name`` is the workflow's."""
    failures = {attempt.position: attempt.number for attempt in journal.attempts}
    entries: dict[Key, Entry] = {}
    for row in journal.rows:
        if row.kind == "reopened":
            entries |= _taken_back(entries, row, journal.rows)
        own = _own_entry(row, journal.generation, name)
        if own is not None:
            entries[("", row.place)] = own
        elif row.kind != "mark" and (row.position, 0) in entries:
            # What is not there is a branch that was closed: it asks for commands, and is none.
            entries[(row.position, 0)] = _settled(entries[(row.position, 0)], row)
        asks = asks_of(row)
        for asked in asks:
            entry = _asked_entry(asked, row, journal.generation, failures)
            entries[(asked.position, 0)] = _answered_at_once(entry) if _needs_no_answer(asked, asks) else entry
    return list(entries.values())


def _taken_back(entries: Mapping[Key, Entry], row: Row, rows: Sequence[Row]) -> dict[Key, Entry]:
    """Entries that a ``reopened`` row changes: one whose answer it took back is asked again, one that was asked for
    behind that is closed, unless the code comes to ask for it once more."""
    reopened = msgspec.json.decode(row.value or "{}", type=Reopened)
    cut = [each for each in rows[: row.place] if each.place >= reopened.upto]
    gone = {(asked.position, 0) for each in cut for asked in asks_of(each)}
    again = {(each.position, 0) for each in rows[: row.place] if each in cut or each.place in reopened.skipped}
    changed = {key: msgspec.structs.replace(entries[key], state="closed") for key in gone & entries.keys()}
    for key in (again - gone) & entries.keys():
        entry = entries[key]
        if entry.answered_at is not None:
            attempts = max(0, entry.attempts - 1)
            changed[key] = msgspec.structs.replace(
                entry, state="asked", value=None, error=None, answered_at=None, attempts=attempts
            )
    return changed


def _own_entry(row: Row, generation: int, name: str) -> Entry | None:
    """The entry of a row that answers no command."""
    kind = OWN.get(row.kind)
    if kind is None:
        return None
    value = None if row.value is None or kind == "started" else msgspec.json.decode(row.value)
    return Entry(
        generation=generation,
        position=row.position,
        kind=kind,
        name=name if kind == "started" else "",
        state="answered",
        value=value,
        asked_at=row.at,
        answered_at=row.at,
    )


def _asked_entry(asked: Asked, row: Row, generation: int, failures: dict[str, int]) -> Entry:
    return Entry(
        generation=generation,
        position=asked.position,
        kind=_KINDS.get(asked.kind) or msgspec.convert(asked.kind, EntryKind),
        name=asked.name,
        state="asked",
        attempts=failures.get(asked.position, 0),
        asked_at=row.at,
        child_id=asked.child,
    )


def _needs_no_answer(asked: Asked, asks: Sequence[Asked]) -> bool:
    """Whether it was answered by being asked: nothing to wait for, and no row of its own."""
    if asked.kind == "all":
        return not any(other.position.startswith(f"{asked.position}.") for other in asks)
    return asked.kind in AT_ONCE


def _answered_at_once(entry: Entry) -> Entry:
    return msgspec.structs.replace(entry, state="answered", answered_at=entry.asked_at)


def _settled(entry: Entry, row: Row) -> Entry:
    attempts = entry.attempts + 1 if entry.kind in ATTEMPTED and row.kind in ("answered", "failed") else entry.attempts
    # A composite's value is the index of the member that decided it, also where that member failed.
    failed = row.kind == "failed" and row.value is not None and entry.kind not in COMPOSITES
    return msgspec.structs.replace(
        entry,
        state=_STATES.get(row.kind) or msgspec.convert(row.kind, EntryState),
        value=None if failed or row.value is None else msgspec.json.decode(row.value),
        error=read(row.value) if failed and row.value is not None else None,
        attempts=attempts,
        answered_at=row.at,
    )
