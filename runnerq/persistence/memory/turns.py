"""Writing turns: the one way in which a worker changes a run.

Rules
- The token is compared first; a turn under another token changes nothing.
- A turn that was written before says so again, by what the run is now: still running under this token, the turn is
  written over itself; left under it, or ended by it, it is DONE.
- A row at a place that holds another one is refused, before anything is written: an answer that is on record stays it.
- What the turn writes comes first and its move last, so that a child that ends at its birth counts before the park.
"""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

from runnerq.errors import StorageRefused
from runnerq.persistence.memory.book import Book, Open
from runnerq.persistence.memory.starting import start_child
from runnerq.persistence.records import Back, BlockRecord, End, Going, Outcome, Park, Renew, Stuck, Turn, Verdict
from runnerq.workflow.journal import Row


def write(book: Book, turn: Turn, now: datetime) -> Verdict:
    """Write the turn, whole, or say why not."""
    row = book.open.get(turn.run_id)
    if row is None:
        return Verdict.DONE if book.ended_by.get(turn.run_id) == turn.token else Verdict.LOST
    if row.token != turn.token or row.state != "running":
        return Verdict.DONE if row.left == turn.token else Verdict.LOST
    present = book.runs[turn.run_id].generation
    if turn.generation != present:
        # One of an earlier generation was written before the renewal that ended it.
        return Verdict.DONE if turn.generation < present else Verdict.LOST
    _write_rows(book, turn)
    _take_signals(book, turn)
    for child in turn.children:
        start_child(book, child, now)
    if turn.recovered:
        row.crashes = row.faults = 0
    if turn.published is not None:
        book.states[turn.run_id] = turn.published
        book.heard.runs.add(turn.run_id)
    if not isinstance(turn.move, Stuck):
        # Somebody could follow this run: what others could not is history.
        book.blocks.pop(turn.run_id, None)
    return _move(book, row, turn, now)


def _write_rows(book: Book, turn: Turn) -> None:
    if turn.rows:
        journal = book.journals.setdefault((turn.run_id, turn.generation), {})
        for entry in turn.rows:
            there = journal.get(entry.place, entry)
            if (there.kind, there.position) != (entry.kind, entry.position):
                raise StorageRefused(
                    f"place {entry.place} of run {turn.run_id} is on record as {there.kind} of {there.position!r}, and "
                    f"not as {entry.kind} of {entry.position!r}"
                )
        for entry in turn.rows:
            journal.setdefault(entry.place, entry)
    if turn.attempts or turn.settled:
        attempts = book.attempts.setdefault(turn.run_id, {})
        for attempt in turn.attempts:
            attempts[attempt.position] = attempt
        for position in turn.settled:
            attempts.pop(position, None)
        book.settled.setdefault(turn.run_id, set()).update(turn.settled)


def _take_signals(book: Book, turn: Turn) -> None:
    mail = book.boxes[turn.run_id].mail
    for number in turn.consumed:
        mail.pop(number, None)


def _move(book: Book, row: Open, turn: Turn, now: datetime) -> Verdict:
    match turn.move:
        case Going():
            return Verdict.DONE
        case Park() as park:
            if row.inbox != turn.seen:
                return Verdict.AGAIN
            _park(book, row, park, now)
        case Back(due_at=due_at):
            _give_back(book, row, due_at, now)
        case Stuck() as stuck:
            _block(book, row, stuck, now)
        case End() as end:
            _end(book, row, end, now)
        case Renew(started=started):
            _renew(book, turn, started)
        case _:
            assert_never(turn.move)
    return Verdict.DONE


def _park(book: Book, row: Open, park: Park, now: datetime) -> None:
    book.leave(row)
    row.state = "waiting"
    row.left = row.token
    row.worker_id = None
    row.park = park
    row.needs = park.needs
    row.due_at = park.due_at
    row.parked_at = now
    row.parked = row.inbox
    row.faults = 0
    book.heard.runs.add(row.run_id)


def _give_back(book: Book, row: Open, due_at: datetime | None, now: datetime) -> None:
    book.leave(row)
    row.left = row.token
    row.worker_id = None
    row.park = Park()
    # A cancel that came meanwhile must not wait for the next attempt.
    if due_at is None or due_at <= now or row.cancel is not None:
        book.make_ready(row, min(due_at or now, now))
        return
    row.state = "pending"
    row.due_at = due_at


def _block(book: Book, row: Open, stuck: Stuck, now: datetime) -> None:
    book.leave(row)
    row.state = "blocked"
    row.left = row.token
    row.worker_id = None
    row.due_at = None
    row.faults = row.faults + 1 if stuck.build is None else 0
    known = book.blocks.get(row.run_id)
    builds = known.builds if known is not None else ()
    if stuck.build is not None and stuck.build not in builds:
        builds = (*builds, stuck.build)
    book.blocks[row.run_id] = BlockRecord(
        run_id=row.run_id,
        at=now,
        message=stuck.message,
        builds=builds,
        position=stuck.position,
        recorded=stuck.recorded,
        asked=stuck.asked,
        line=stuck.line,
        traceback=stuck.traceback,
        retry_at=stuck.retry_at,
    )
    said = {"message": stuck.message, "position": stuck.position, "build": stuck.build}
    book.note("blocked", now, row.run_id, said)
    book.heard.runs.add(row.run_id)


def _end(book: Book, row: Open, end: End, now: datetime) -> None:
    outcome = Outcome(
        run_id=row.run_id,
        status=end.status,
        ended_at=now,
        result=end.result,
        error=end.error,
        reason=end.reason,
        cancel_requested=end.cancel_requested or row.cancel is not None,
    )
    book.end(outcome, now)


def _renew(book: Book, turn: Turn, started: Row) -> None:
    run = book.runs[turn.run_id]
    run.generation = turn.generation + 1
    book.journals[turn.run_id, run.generation] = {started.place: started}
    book.forget_attempts(turn.run_id)
    book.heard.runs.add(turn.run_id)
