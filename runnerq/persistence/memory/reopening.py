"""Opening runs again that have ended or are blocked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from runnerq.persistence.memory.book import Book, Box, Open, rank
from runnerq.persistence.records import Reopen

_REOPENED = ("failed", "dead_letter", "cancelled")


def all_of(reopen: Reopen) -> list[Reopen]:
    """It, and all that is to be opened with it."""
    return [reopen, *(each for child in reopen.children for each in all_of(child))]


def reopen(book: Book, everything: Sequence[Reopen], now: datetime) -> bool:
    """Open them all again, or none if one is not what its caller saw."""
    if not all(_fits(book, each) for each in everything):
        return False
    for each in everything:
        if each.row is not None:
            book.journals.setdefault((each.run_id, each.generation), {})[each.row.place] = each.row
        _open(book, each.run_id, now)
        book.note("reopened", now, each.run_id, {"from": each.status})
    return True


def _fits(book: Book, wanted: Reopen) -> bool:
    run = book.runs.get(wanted.run_id)
    if run is None or run.generation != wanted.generation or run.root_id in book.doomed:
        return False
    journal = book.journals.get((wanted.run_id, wanted.generation), {})
    if wanted.row is not None and wanted.row.place in journal:
        return False
    if wanted.status == "blocked":
        row = book.open.get(wanted.run_id)
        return row is not None and row.state == "blocked"
    outcome = book.outcomes.get(wanted.run_id)
    seen = outcome is not None and outcome.status == wanted.status in _REOPENED
    return seen and not _kept_out(book, wanted.run_id)


def _kept_out(book: Book, run_id: str) -> bool:
    """Whether it never ran, because another run holds its key."""
    run = book.runs[run_id]
    if run.started_at is not None or run.new.key is None:
        return False
    return book.keys.get((run.new.name, run.new.key), run_id) != run_id


def _open(book: Book, run_id: str, now: datetime) -> None:
    row = book.open.get(run_id)
    if row is None:
        del book.outcomes[run_id]
        row = Open(
            run_id=run_id,
            state="pending",
            rank=rank(book.runs[run_id].new.priority, now),
            left=book.ended_by.pop(run_id, 0),
            # Above all that is in the mailbox, so that the order of signals goes on.
            inbox=max((mail.number for mail in book.boxes.setdefault(run_id, Box()).mail.values()), default=0),
            reopened_at=now,
        )
        book.open[run_id] = row
    else:
        book.blocks.pop(run_id, None)
        # A generator that somebody may have kept does not know the new row.
        row.token = 0
        row.faults = 0
    book.make_ready(row, now)
    book.heard.runs.add(run_id)
