"""Which runs fit a filter."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice

import msgspec

from runnerq.persistence.memory.book import Book
from runnerq.persistence.memory.reading import record
from runnerq.persistence.records import Counted, Found, Outcome, RunFilter, fingerprint


def list_runs(book: Book, where: RunFilter, limit: int, cursor: str | None, look: int, *, oldest: bool) -> Found:
    """Some of what fits, in the order of ids; without inputs and results."""
    ahead = list(islice(_ahead(book, cursor, oldest=oldest), look))
    fitting = list(islice((run_id for run_id in ahead if fits(book, run_id, where)), limit + 1))
    shown = fitting[:limit]
    looked_to = ahead[-1] if len(ahead) == look else None
    return Found(
        runs=tuple(msgspec.structs.replace(record(book, run_id), input=None, result=None) for run_id in shown),
        next=shown[-1] if len(fitting) > limit else looked_to,
    )


def newest(book: Book, where: RunFilter, cap: int, look: int | None) -> tuple[list[str], bool]:
    """The newest ``cap`` that fit of the newest ``look``; and whether not all runs were looked at."""
    ahead = list(_ahead(book, None, oldest=False))
    found = list(islice((run_id for run_id in ahead[:look] if fits(book, run_id, where)), cap + 1))
    return found[:cap], len(found) > cap or (look is not None and len(ahead) > look)


def count_runs(book: Book, where: RunFilter, cap: int, look: int | None) -> Counted:
    found, capped = newest(book, where, cap, look)
    return Counted(count=len(found), capped=capped)


def _ahead(book: Book, cursor: str | None, *, oldest: bool) -> Iterator[str]:
    ordered = sorted(book.runs, reverse=not oldest)
    return (run_id for run_id in ordered if cursor is None or (run_id > cursor if oldest else run_id < cursor))


def fits(book: Book, run_id: str, where: RunFilter) -> bool:
    """Whether all its conditions hold."""
    run = book.runs[run_id]
    new = run.new
    statuses = (where.status,) if isinstance(where.status, str) else where.status
    return (
        (statuses is None or book.shown(run_id) in statuses)
        and (where.workflow is None or new.name == where.workflow)
        and (where.version is None or new.version == where.version)
        and (where.queue is None or new.queue == where.queue)
        and (where.id_prefix is None or run_id.replace("-", "").startswith(where.id_prefix))
        and (where.key_prefix is None or (new.key is not None and new.key.startswith(where.key_prefix)))
        and (where.metadata is None or _has(new.metadata, where.metadata))
        and (where.parent is None or new.parent_id == where.parent)
        and (where.root is None or run.root_id == where.root)
        and (not where.roots or new.parent_id is None)
        and (where.worker is None or record(book, run_id).worker_id == where.worker)
        and (where.since is None or run.created_at >= where.since)
        and (where.until is None or run.created_at < where.until)
        and _ended_so(book.outcomes.get(run_id), where)
    )


def _ended_so(outcome: Outcome | None, where: RunFilter) -> bool:
    if outcome is None:
        wanted = (where.ended_since, where.ended_until, where.error, where.fingerprint)
        return all(condition is None for condition in wanted)
    return (
        (where.ended_since is None or outcome.ended_at >= where.ended_since)
        and (where.ended_until is None or outcome.ended_at < where.ended_until)
        and (where.error is None or _written(where.error) in (outcome.error or "").lower())
        and (where.fingerprint is None or (_failed(outcome) and _fingerprint(outcome) == where.fingerprint))
    )


def _failed(outcome: Outcome) -> bool:
    return outcome.status in ("failed", "dead_letter")


def _fingerprint(outcome: Outcome) -> str:
    return fingerprint(outcome.error, outcome.reason)


def _written(text: str) -> str:
    """As it stands in the text of a JSON string."""
    return msgspec.json.encode(text).decode()[1:-1].lower()


def _has(metadata: str | None, pairs: Mapping[str, str]) -> bool:
    values = json.loads(metadata) if metadata is not None else None
    return isinstance(values, dict) and all(values.get(name) == value for name, value in pairs.items())
