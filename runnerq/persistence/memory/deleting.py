"""Trees that go: marked as a whole once all of them has ended, then deleted, the root last."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta

from runnerq.persistence.memory.book import Book
from runnerq.persistence.records import Changed, Retained

_LONGEST_AGE = 1e11


def delete(book: Book, run_id: str, now: datetime) -> Changed:
    """Delete a root with its whole tree, if all of it has ended."""
    if run_id not in book.runs:
        return Changed.UNKNOWN
    tree = _trees(book)[run_id]
    changed = _doom(book, run_id, tree, now)
    if changed is not Changed.REFUSED:
        for each in tree:
            _forget(book, each)
        _forget(book, run_id)
    return changed


def retain(book: Book, completed: float | None, failed: float | None, limit: int, now: datetime) -> Retained:
    """Mark trees whose root ended long ago, among the next so many runs that have ended."""
    if completed is None and failed is None:
        return Retained(trees=0, more=False)
    ahead = sorted(run_id for run_id in book.outcomes if run_id > book.retained_to)[:limit]
    more = len(ahead) == limit
    book.retained_to = ahead[-1] if more else ""
    trees = _trees(book)
    marked = 0
    for run_id in ahead:
        outcome = book.outcomes[run_id]
        age = completed if outcome.status in ("completed", "cancelled") else failed
        if age is None or outcome.ended_at >= now - timedelta(seconds=min(age, _LONGEST_AGE)):
            continue
        marked += _doom(book, run_id, trees[run_id], now) is Changed.CHANGED
    return Retained(trees=marked, more=more)


def purge(book: Book, limit: int) -> int:
    """Delete up to so many runs of marked trees, of each the highest ids first, and the root last."""
    trees = _trees(book)
    order = [each for root_id in sorted(book.doomed) for each in (*sorted(trees[root_id], reverse=True), root_id)]
    for run_id in order[:limit]:
        _forget(book, run_id)
    return len(order[:limit])


def _doom(book: Book, run_id: str, tree: list[str], now: datetime) -> Changed:
    run = book.runs[run_id]
    if run.new.parent_id is not None or run_id in book.open or any(each in book.open for each in tree):
        return Changed.REFUSED
    if run_id in book.doomed:
        return Changed.UNCHANGED
    book.doomed[run_id] = now
    _free_key(book, run_id)
    book.note("deleted", now, run_id)
    return Changed.CHANGED


def _trees(book: Book) -> defaultdict[str, list[str]]:
    """The descendants of every root."""
    trees: defaultdict[str, list[str]] = defaultdict(list)
    for run_id, run in book.runs.items():
        if run.root_id != run_id:
            trees[run.root_id].append(run_id)
    return trees


def _free_key(book: Book, run_id: str) -> None:
    new = book.runs[run_id].new
    if new.key is not None and book.keys.get((new.name, new.key)) == run_id:
        del book.keys[new.name, new.key]


def _forget(book: Book, run_id: str) -> None:
    _free_key(book, run_id)
    run = book.runs.pop(run_id)
    for generation in range(1, run.generation + 1):
        book.journals.pop((run_id, generation), None)
    siblings = book.children.get(run.new.parent_id or "", [])
    if run_id in siblings:
        siblings.remove(run_id)
    for table in (book.outcomes, book.ended_by, book.children, book.attempts, book.boxes, book.blocks, book.states):
        table.pop(run_id, None)
    book.doomed.pop(run_id, None)
