"""Verbs that change one run, and what to do instead where one is refused."""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

from runnerq.client.core import Core
from runnerq.client.info import waiting_for
from runnerq.errors import RunNotFound, WrongState
from runnerq.persistence.records import Changed, RunRecord, Status

LET_GO_ON = "retry lets it go on"
START_ANEW = "start it anew"


async def run_now(core: Core, run_id: str) -> bool:
    """Have a run that waits for a time of its own go on now."""
    changed = await core.storage.run_now(run_id)
    return await _whether(core, run_id, changed, "run_now")


async def reschedule(core: Core, run_id: str, at: datetime) -> bool:
    """Have a run that is not taken up yet become due at another time."""
    changed = await core.storage.reschedule(run_id, at)
    return await _whether(core, run_id, changed, "reschedule")


async def set_priority(core: Core, run_id: str, priority: int) -> bool:
    """Change an open run's priority."""
    changed = await core.storage.set_priority(run_id, priority)
    return await _whether(core, run_id, changed, "set_priority")


async def delete(core: Core, run_id: str) -> bool:
    """Delete a tree that has ended."""
    changed = await core.storage.delete(run_id)
    return await _whether(core, run_id, changed, "delete")


async def _whether(core: Core, run_id: str, changed: Changed, verb: str) -> bool:
    match changed:
        case Changed.CHANGED:
            return True
        case Changed.UNCHANGED:
            return False
        case Changed.UNKNOWN:
            raise RunNotFound(run_id)
        case Changed.REFUSED:
            record = await core.record(run_id)
            raise WrongState(run_id, record.status, verb, _INSTEAD[verb](record))
        case _:
            assert_never(changed)


def _run_now(record: RunRecord) -> str:
    match record.status:
        case Status.WAITING:
            return (
                f"it is parked by its own code ({waiting_for(record)}): send what it waits for, or have the code race "
                "a sleep against a signal"
            )
        case Status.BLOCKED:
            return LET_GO_ON
        case _:
            return f"{LET_GO_ON} if it failed, else {START_ANEW}" if record.status.ended else "try again"


def _reschedule(record: RunRecord) -> str:
    if record.status.ended:
        return f"{START_ANEW} with options(at=...)"
    if record.status in (Status.PENDING, Status.SCHEDULED, Status.RETRYING):
        return "it has been asked to cancel, and does so as soon as a worker takes it up"
    return f"it has begun: cancel it, and {START_ANEW} with options(at=...)"


def _set_priority(record: RunRecord) -> str:  # noqa: ARG001 - one answer for all
    return f"it has no place in a queue any more: {START_ANEW} with options(priority=...)"


def _delete(record: RunRecord) -> str:
    if record.parent_id is not None:
        return f"it goes with its root, {record.root_id}: delete that"
    if not record.status.ended:
        return "cancel or terminate it first"
    return "a run below it is open: wait for it, or terminate it (tree() shows which)"


_INSTEAD = {"run_now": _run_now, "reschedule": _reschedule, "set_priority": _set_priority, "delete": _delete}
