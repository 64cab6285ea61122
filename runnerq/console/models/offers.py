"""What may be done to a run in the state that it is in, and by whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from runnerq.client.reopening import UNDO_FAILED, UNDONE
from runnerq.console.access import Principal
from runnerq.console.table import ACTIONS
from runnerq.persistence.records import RunRecord, Status

ENDED = "it has ended"
_AGAIN = frozenset({"retry", "redrive", "fork"})
_TAKEN_UP_LATER = (Status.PENDING, Status.SCHEDULED, Status.RETRYING)


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """Something that may be done to a run: ``enabled``, or ``why_not`` in words. ``permitted`` says whether whoever
    looks has the permission: where not, nothing is to be seen of it."""

    name: str
    label: str
    permission: str
    permitted: bool
    enabled: bool
    why_not: str | None
    danger: bool
    asks_reason: bool


def offers(principal: Principal, record: RunRecord, *, undone: bool = False) -> tuple[Offer, ...]:
    """One for each action on a run, in the order of the table. The storage has the last word: it may have changed.
    ``undone`` says that its undos have begun."""
    return tuple(
        _offer(principal, record, name, why_not(record) or (_undone(record, name) if undone else None))
        for name, why_not in _WHY_NOT.items()
    )


def _offer(principal: Principal, record: RunRecord, name: str, why_not: str | None) -> Offer:
    spec = ACTIONS[name]
    again = name == "run-now" and record.status is Status.RETRYING
    return Offer(
        name=name,
        label="Retry now" if again else spec.label,
        permission=spec.permission,
        permitted=principal.may(spec.permission),
        enabled=why_not is None,
        why_not=why_not,
        danger=spec.danger,
        asks_reason=spec.asks_reason,
    )


def _undone(record: RunRecord, name: str) -> str | None:
    goes_on_at_the_undo = record.reason == UNDO_FAILED and name != "fork"
    return UNDONE if name in _AGAIN and not goes_on_at_the_undo else None


def _open(record: RunRecord) -> str | None:
    return ENDED if record.status.ended else None


def _cancel(record: RunRecord) -> str | None:
    return "it has been asked to already" if record.cancel_requested and not record.status.ended else _open(record)


def _retry(record: RunRecord) -> str | None:
    if record.status in (Status.FAILED, Status.DEAD_LETTER, Status.BLOCKED):
        return None
    return "it did not fail" if record.status.ended else "it is open, and goes on by itself"


def _redrive(record: RunRecord) -> str | None:
    return None if record.status is Status.DEAD_LETTER else "it is no dead letter"


def _run_now(record: RunRecord) -> str | None:
    if record.status in (Status.SCHEDULED, Status.RETRYING):
        return None
    if record.status is Status.WAITING:
        return "it is parked by its own code, whose waits are not cut short"
    return ENDED if record.status.ended else "it is not delayed"


def _reschedule(record: RunRecord) -> str | None:
    if record.status in _TAKEN_UP_LATER:
        return "it has been asked to cancel" if record.cancel_requested else None
    return ENDED if record.status.ended else "it has begun"


def _send(record: RunRecord) -> str | None:
    return "it is an activity, which takes no signals" if record.kind == "activity" else _open(record)


def _fork(record: RunRecord) -> str | None:
    if record.kind == "activity":
        return "it is an activity, which has no history to begin from: start it anew"
    return None if record.started is not None else "it has not begun"


def _delete(record: RunRecord) -> str | None:
    if record.parent_id is not None:
        return "it goes with its root"
    return None if record.status.ended else "it is open: cancel or terminate it first"


def _always(_: RunRecord) -> str | None:
    return None


_WHY_NOT: Mapping[str, Callable[[RunRecord], str | None]] = {
    "send": _send,
    "cancel": _cancel,
    "terminate": _open,
    "retry": _retry,
    "redrive": _redrive,
    "run-now": _run_now,
    "reschedule": _reschedule,
    "priority": _open,
    "fork": _fork,
    "delete": _delete,
    "reveal": _always,
}
