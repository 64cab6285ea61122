"""A run's payloads as a client reads them: what cannot be opened here is refused before it is taken for a value."""

from __future__ import annotations

import msgspec

from runnerq.persistence.protocol import Reads
from runnerq.persistence.records import BlockRecord, Journal, Mail, Outcome, RunRecord
from runnerq.serialization.sealing import unreadable


def check_text(text: str | None, run_id: str, entry: str) -> None:
    """Raise PayloadUnreadable for a text that cannot be read here."""
    refused = unreadable(text, run_id, entry)
    if refused is not None:
        raise refused


async def journal_of(reads: Reads, run_id: str, generation: int | None = None) -> Journal | None:
    """The run's journal, all of it readable. Raises PayloadUnreadable."""
    journal = await reads.journal(run_id, generation)
    if journal is not None:
        for row in journal.rows:
            check_text(row.value, run_id, f"row {row.place} of generation {journal.generation}")
            check_text(row.asked, run_id, f"row {row.place} of generation {journal.generation}")
        for attempt in journal.attempts:
            check_text(attempt.error, run_id, f"the last attempt at {attempt.position!r}")
            check_text(attempt.details, run_id, f"the last attempt at {attempt.position!r}")
    return journal


async def mailbox_of(reads: Reads, run_id: str) -> list[Mail]:
    """The run's unread signals, all of them readable. Raises PayloadUnreadable."""
    mails = await reads.mailbox(run_id)
    for mail in mails:
        check_text(mail.value, run_id, f"signal {mail.channel!r} (number {mail.number})")
    return mails


async def block_of(reads: Reads, run_id: str) -> BlockRecord | None:
    """Why the run is blocked; what cannot be read of it is told in words."""
    block = await reads.block(run_id)
    if block is None:
        return None
    return msgspec.structs.replace(
        block,
        message=in_words(block.message, run_id),
        recorded=None if block.recorded is None else in_words(block.recorded, run_id),
        asked=None if block.asked is None else in_words(block.asked, run_id),
        traceback=None if block.traceback is None else in_words(block.traceback, run_id),
    )


def in_words(text: str, run_id: str) -> str:
    """A text about why a run is blocked; of one that cannot be read here, by what it is sealed."""
    refused = unreadable(text, run_id, "why it is blocked")
    return text if refused is None else str(refused)


def check_outcome(outcome: Outcome) -> Outcome:
    """The outcome, if it can be read. Raises PayloadUnreadable."""
    check_text(outcome.result, outcome.run_id, "the result")
    check_text(outcome.error, outcome.run_id, "the error")
    return outcome


def check_record(record: RunRecord) -> RunRecord:
    """The record, if its payloads can be read. Raises PayloadUnreadable."""
    check_text(record.input, record.id, "the input")
    check_text(record.started, record.id, "row 0")
    check_text(record.result, record.id, "the result")
    check_text(record.error, record.id, "the error")
    return record
