"""What is sent to a run from outside: signals, cancels, and its end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from runnerq.persistence.memory import starting
from runnerq.persistence.memory.book import Book
from runnerq.persistence.records import Mail, NewRun, NewSignal, Outcome, Sent, StartReply


def send(book: Book, signal: NewSignal, now: datetime) -> Sent:
    """Keep the signal in the mailbox, and wake the run if it waits for one of this channel."""
    if signal.run_id not in book.runs:
        return Sent.UNKNOWN
    box = book.boxes.get(signal.run_id)
    # Looked for before the end is: a send that counted may be repeated after its run has ended.
    if box is not None and signal.dedup is not None and (signal.channel, signal.dedup) in box.counted:
        return Sent.DUPLICATE
    row = book.open.get(signal.run_id)
    if row is None or box is None:
        return Sent.FINISHED
    if signal.dedup is not None:
        box.counted.add((signal.channel, signal.dedup))
    book.arrive(row)
    book.last_mail += 1
    mail = Mail(book.last_mail, row.inbox, now, signal.channel, signal.value, signal.trace)
    box.mail[mail.id] = mail
    if row.state == "waiting" and signal.channel in row.park.signals:
        book.make_ready(row, now)
    return Sent.SENT


def start_or_send(
    book: Book, run: NewRun, signals: Sequence[NewSignal], now: datetime
) -> tuple[StartReply, list[Sent]]:
    """Create the run unless another stands for it, and send the signals to the one that does."""
    [reply] = starting.start_all(book, [run], now)
    if reply.refused:
        return reply, []
    addressed = [msgspec.structs.replace(signal, run_id=reply.id) for signal in signals]
    return reply, [send(book, signal, now) for signal in addressed]


def cancel(book: Book, run_id: str, reason: str | None, now: datetime) -> Sent:
    """Ask the run to cancel; one that never started ends at once."""
    if run_id not in book.runs:
        return Sent.UNKNOWN
    row = book.open.get(run_id)
    if row is None:
        return Sent.FINISHED
    if row.cancel is not None:
        return Sent.DUPLICATE
    if row.state == "pending" and book.runs[run_id].started_at is None:
        outcome = Outcome(run_id=run_id, status="cancelled", ended_at=now, reason=reason, cancel_requested=True)
        book.end(outcome, now)
        return Sent.SENT
    row.cancel = reason or ""
    book.arrive(row)
    row.cancelled = row.inbox
    if row.state != "running":
        # What holds the places may be waiting for it, or there may be none.
        row.exempt = True
    if row.state == "waiting" or (row.state == "pending" and row.due_at is not None):
        book.make_ready(row, now)
    elif row.state == "pending":
        book.heard.queues.add(book.runs[run_id].new.queue)
    return Sent.SENT


def terminate(book: Book, run_id: str, now: datetime) -> Sent:
    """End the run at once, whoever holds it."""
    if run_id not in book.runs:
        return Sent.UNKNOWN
    row = book.open.get(run_id)
    if row is None:
        return Sent.FINISHED
    if row.worker_id is not None:
        book.heard.workers.add(row.worker_id)
    # The end is nobody's turn, so that what the holder still sends is lost.
    row.token = 0
    book.note("terminated", now, run_id)
    asked = row.cancel is not None
    outcome = Outcome(run_id=run_id, status="cancelled", ended_at=now, reason="terminated", cancel_requested=asked)
    book.end(outcome, now)
    return Sent.SENT
