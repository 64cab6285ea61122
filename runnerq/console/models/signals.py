"""A run's signals: awaited, waiting in its mailbox, and taken."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

import msgspec

from runnerq.client.history import Entry
from runnerq.console.models.context import Context, bounded
from runnerq.console.models.history import LISTED
from runnerq.console.models.journal import ReadJournal, read_journal
from runnerq.console.models.payloads import ErrorView, Payload, failure_view, payload_of, shown_of
from runnerq.console.models.records import error_spot, record_of, spot, value_spot
from runnerq.persistence.records import Mail, RunRecord
from runnerq.workflow.journal import Asked, Row, asks_of

MOST_SHOWN = 200


class Awaited(msgspec.Struct, frozen=True, kw_only=True):
    """A wait for a signal that is open: since when, and until when (None: for ever)."""

    channel: str
    position: str
    since: datetime
    until: datetime | None


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """A signal that no wait has taken. ``number`` is its order."""

    number: int
    channel: str
    at: datetime
    value: Payload | None


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A wait that has ended: by a value, or by an error, such as its timeout. ``number`` is its entry's."""

    number: int
    channel: str
    position: str
    asked_at: datetime
    at: datetime
    value: Payload | None
    error: ErrorView | None


class SignalsView(msgspec.Struct, frozen=True, kw_only=True):
    """All of them: what is unread in its order, the first two hundred of ``unread_count``; what was taken, of the
    present generation, the newest two hundred of ``taken_count``. ``open`` says that the run takes signals still."""

    run_id: str
    open: bool
    awaited: tuple[Awaited, ...]
    unread: tuple[Unread, ...]
    unread_count: int
    taken: tuple[Taken, ...]
    taken_count: int
    sealed: str | None


@bounded
async def signals(context: Context, run_id: str) -> SignalsView:
    """The run's signals. Raises RunNotFound."""
    record = await record_of(context, run_id)
    found = await read_journal(context, record)
    unread = await unread_of(context, record)
    return await context.aside(found.size, partial(_view, context, record, found, unread))


def _view(context: Context, record: RunRecord, found: ReadJournal, unread: Sequence[Unread]) -> SignalsView:
    waits = [(number, entry) for number, entry in enumerate(found.entries, 1) if entry.kind == "signal"]
    deadlines = {each.position: each.deadline for row in found.rows for each in _asks(found, row)}
    ended = [(number, entry) for number, entry in waits if entry.answered_at is not None and entry.state != "closed"]
    return SignalsView(
        run_id=record.id,
        open=not record.status.ended,
        awaited=tuple(
            Awaited(
                channel=entry.name,
                position=entry.position,
                since=entry.asked_at,
                until=deadlines.get(entry.position),
            )
            for _, entry in waits
            if entry.state == "asked" and not record.status.ended
        ),
        unread=tuple(unread[:MOST_SHOWN]),
        unread_count=len(unread),
        taken=tuple(_taken(context, record, found, number, entry) for number, entry in ended[::-1][:MOST_SHOWN]),
        taken_count=len(ended),
        sealed=found.sealed,
    )


def _asks(found: ReadJournal, row: Row) -> list[Asked]:
    return [] if found.sealed is not None else asks_of(row)


async def unread_of(context: Context, record: RunRecord, *, limit: int | None = LISTED) -> list[Unread]:
    """The signals that no wait has taken, each value cut to so many characters."""
    mailbox = await context.client.storage.mailbox(record.id)
    return [_unread(context, record, mail, limit) for mail in mailbox]


def _unread(context: Context, record: RunRecord, mail: Mail, limit: int | None) -> Unread:
    what = f"signal {mail.channel!r} (number {mail.number})"
    value = payload_of(context, spot("signal", record, mail.channel), mail.value, what, limit=limit)
    return Unread(number=mail.number, channel=mail.channel, at=mail.at, value=value)


def _taken(context: Context, record: RunRecord, found: ReadJournal, number: int, entry: Entry) -> Taken:
    sealed = found.unreadable.get(entry.position)
    shown = None if entry.error is not None else shown_of(context, value_spot(record, entry), entry.value, limit=LISTED)
    return Taken(
        number=number,
        channel=entry.name,
        position=entry.position,
        asked_at=entry.asked_at,
        at=entry.answered_at or entry.asked_at,
        value=shown if sealed is None else Payload(text="", sealed=sealed),
        error=None if entry.error is None else failure_view(context, error_spot(record, entry), entry.error),
    )
