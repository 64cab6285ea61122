"""Payloads that a worker was handed and cannot read: sealed by a codec or key that it does not have, or changed since.

It is a fault of this worker and not of the code or the run: the run shows as blocked, and is tried again by any worker.
Looked for before any of it is used, so that no user code sees what is stored in place of its value.
"""

from __future__ import annotations

from collections.abc import Iterable

from runnerq.errors import PayloadUnreadable
from runnerq.persistence.records import Claimed, Inbox, Mail, Outcome
from runnerq.serialization.sealing import SEALED, unreadable


def sealed_in_claim(claimed: Claimed) -> PayloadUnreadable | None:
    """The first payload of a claimed run that cannot be read here."""
    run_id = claimed.id
    if claimed.input.startswith(SEALED):
        return unreadable(claimed.input, run_id, "the input")
    for row in claimed.rows:
        for text in (row.value, row.asked):
            if text is not None and text.startswith(SEALED):
                return unreadable(text, run_id, f"row {row.place} ({row.kind} {row.position or 'the run'})")
    for attempt in claimed.attempts:
        for text in (attempt.error, attempt.details):
            if text is not None and text.startswith(SEALED):
                return unreadable(text, run_id, f"the last attempt at entry {attempt.position or 'of the run'}")
    if claimed.state is not None and claimed.state.startswith(SEALED):
        return unreadable(claimed.state, run_id, "the published state")
    # Nobody reads what is sent to an activity.
    if claimed.kind == "workflow" and (claimed.signals or claimed.outcomes):
        return _sealed_mail(claimed.signals, run_id) or _sealed_outcome(claimed.outcomes)
    return None


def sealed_in_inbox(inbox: Inbox) -> PayloadUnreadable | None:
    """The first signal or child's end in a mailbox that cannot be read here."""
    return _sealed_mail(inbox.signals, inbox.run_id) or _sealed_outcome(inbox.outcomes)


def _sealed_mail(signals: Iterable[Mail], run_id: str) -> PayloadUnreadable | None:
    for mail in signals:
        if mail.value is not None and mail.value.startswith(SEALED):
            return unreadable(mail.value, run_id, f"signal {mail.channel!r} (number {mail.number})")
    return None


def _sealed_outcome(outcomes: Iterable[Outcome]) -> PayloadUnreadable | None:
    for outcome in outcomes:
        for text in (outcome.result, outcome.error):
            if text is not None and text.startswith(SEALED):
                return unreadable(text, outcome.run_id, "the end")
    return None
