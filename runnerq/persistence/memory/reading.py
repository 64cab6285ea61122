"""What readers see: mailboxes, runs as records, journals, lists; and the claims, which read what they take."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import islice

from runnerq.persistence.memory import limits
from runnerq.persistence.memory.book import Book, Open
from runnerq.persistence.records import (
    Ask,
    Attempt,
    Claimed,
    ClaimRequest,
    Inbox,
    Journal,
    Mail,
    Outcome,
    RunRecord,
)
from runnerq.workflow.journal import Row


def claim(book: Book, request: ClaimRequest, now: datetime) -> tuple[Claimed, ...]:
    """Lease the ready runs of smallest rank, and read all that is needed to go on with them."""
    worker = book.workers.get(request.worker_id)
    if worker is None or worker.reaped:
        return ()
    pairs = frozenset(request.pairs)
    ready = [row for row in book.open.values() if _claimable(book, row, pairs)]
    free = [(row.rank, row) for row in ready if book.limit_of(row) is None]
    free.sort(key=lambda each: (each[0], each[1].run_id))
    merged = sorted(free + limits.admitted(book, ready, request.limit, now), key=lambda each: each[0])
    return tuple(_take(book, row, request, now) for _, row in merged[: request.limit])


def _claimable(book: Book, row: Open, pairs: frozenset[tuple[str, str]]) -> bool:
    new = book.runs[row.run_id].new
    ready = row.state == "pending" and row.due_at is None and new.queue not in book.paused
    return ready and (new.queue, new.served) in pairs


def _take(book: Book, row: Open, request: ClaimRequest, now: datetime) -> Claimed:
    run = book.runs[row.run_id]
    new = run.new
    resumed = row.token != 0 and row.token == row.left == request.held.get(row.run_id)
    row.state = "running"
    limits.admit(book, row, now)
    row.token = request.token
    row.worker_id = request.worker_id
    run.started_at = run.started_at or now
    return Claimed(
        id=row.run_id,
        token=request.token,
        kind=new.kind,
        name=new.name,
        version=new.version,
        queue=new.queue,
        priority=new.priority,
        input=new.input,
        created_at=run.created_at,
        root_id=run.root_id,
        parent_id=new.parent_id,
        depth=new.depth,
        key=new.key,
        metadata=new.metadata,
        options=new.options,
        generation=run.generation,
        crashes=row.crashes,
        faults=row.faults,
        cancel=row.cancel,
        seen=row.inbox,
        resumed=resumed,
        rows=() if resumed else rows(book, row.run_id, run.generation),
        signals=signals(book, row.run_id),
        outcomes=outcomes(book, row.park.children or ()),
        attempts=attempts(book, row.run_id),
        state=book.states.get(row.run_id),
        limit=book.limit_of(row),
        rank=row.rank,
    )


def next_due(book: Book, now: datetime) -> datetime | None:
    """When the next run is due, or a rate admits the next one."""
    due = [row.due_at for row in book.open.values() if row.due_at is not None]
    opens = limits.next_open(book, now)
    return min(due if opens is None else [*due, opens], default=None)


def inbox(book: Book, ask: Ask, now: datetime) -> Inbox | None:
    row = book.open.get(ask.run_id)
    if row is None:
        return None
    return Inbox(
        run_id=ask.run_id,
        seen=row.inbox,
        now=now,
        cancel=row.cancel,
        signals=signals(book, ask.run_id),
        outcomes=outcomes(book, ask.children),
    )


def rows(book: Book, run_id: str, generation: int) -> tuple[Row, ...]:
    """One generation of the journal, by place."""
    journal = book.journals.get((run_id, generation), {})
    return tuple(journal[place] for place in sorted(journal))


def signals(book: Book, run_id: str) -> tuple[Mail, ...]:
    """What is unread, in the order in which it came."""
    return tuple(sorted(book.boxes[run_id].mail.values(), key=lambda mail: mail.number))


def outcomes(book: Book, run_ids: Iterable[str]) -> tuple[Outcome, ...]:
    return tuple(book.outcomes[run_id] for run_id in run_ids if run_id in book.outcomes)


def attempts(book: Book, run_id: str) -> tuple[Attempt, ...]:
    kept = book.attempts.get(run_id, {})
    return tuple(kept[position] for position in sorted(kept))


def journal(book: Book, run_id: str, generation: int | None) -> Journal | None:
    run = book.runs.get(run_id)
    if run is None:
        return None
    wanted = generation if generation is not None else run.generation
    present = wanted == run.generation
    return Journal(
        run_id=run_id,
        generation=wanted,
        rows=rows(book, run_id, wanted),
        attempts=attempts(book, run_id) if present else (),
    )


def record(book: Book, run_id: str) -> RunRecord:
    """The run as it stands."""
    run = book.runs[run_id]
    new = run.new
    row = book.open.get(run_id)
    outcome = book.outcomes.get(run_id)
    waiting = row if row is not None and row.state == "waiting" else None
    first = book.journals.get((run_id, run.generation), {}).get(0)
    return RunRecord(
        id=run_id,
        kind=new.kind,
        name=new.name,
        version=new.version,
        queue=new.queue,
        priority=new.priority,
        status=book.shown(run_id),
        created_at=run.created_at,
        root_id=run.root_id,
        parent_id=new.parent_id,
        depth=new.depth,
        key=new.key,
        generation=run.generation,
        due_at=row.due_at if row is not None else None,
        started_at=run.started_at,
        ended_at=outcome.ended_at if outcome is not None else None,
        parked_at=waiting.parked_at if waiting is not None else None,
        started=first.value if first is not None else None,
        waiting_signals=waiting.park.signals if waiting is not None else (),
        waiting_children=waiting.park.children or () if waiting is not None else (),
        stack=waiting.park.stack if waiting is not None else (),
        input=new.input,
        metadata=new.metadata,
        options=new.options,
        result=outcome.result if outcome is not None else None,
        error=outcome.error if outcome is not None else None,
        reason=outcome.reason if outcome is not None else None,
        cancel_requested=(row is not None and row.cancel is not None)
        or (outcome is not None and outcome.cancel_requested),
        limit=new.limit,
        worker_id=row.worker_id if row is not None and row.state == "running" else None,
    )


def open_runs(book: Book, names: frozenset[str], limit: int, after: str | None) -> list[RunRecord]:
    """Workflow runs of these names, oldest first."""
    news = (book.runs[run_id].new for run_id in sorted(book.open) if after is None or run_id > after)
    wanted = (new.id for new in news if new.kind == "workflow" and new.name in names)
    return [record(book, run_id) for run_id in islice(wanted, limit)]
