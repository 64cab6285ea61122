"""Opening runs again that ended badly or are blocked: what ``retry`` asks the storage for.

Rules (DESIGN section 5, rule 16)
- The journal is cut at the failure that the run ended with: that answer and what came after it stay in history and are
  fed no more. A child that the rest leaves open is opened again with its parent, and so on down: one whose failure is
  cut, and those that were cancelled because of it.
- A run whose undos have begun is not opened again: what it did is half undone. One that ended because an undo failed
  goes on at that undo.
- A blocked run lost nothing: it is only made claimable, by a worker of any build.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypeAlias, cast

import msgspec

from runnerq.client.core import Core
from runnerq.errors import ConfigurationError, WrongState
from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import Reopen, RunFilter, RunRecord, Status
from runnerq.workflow.forking import open_children
from runnerq.workflow.journal import Reopened, Row
from runnerq.workflow.recorder import differ_in_arguments_alone
from runnerq.workflow.reopening import ARGUMENTS, effective, reopening, undo_began

Accept: TypeAlias = Literal["arguments"]

OPENABLE = (Status.FAILED, Status.DEAD_LETTER, Status.BLOCKED)
UNDO_FAILED = "undo_failed"
PAGE = 200
_ended_badly = (Status.FAILED, Status.DEAD_LETTER, Status.CANCELLED)


def check_accept(accept: object) -> None:
    """Raise ConfigurationError for what cannot be accepted."""
    if accept not in (None, ARGUMENTS):
        raise ConfigurationError(f"retry(accept={accept!r}): only accept={ARGUMENTS!r} means anything")


async def retry_one(core: Core, run_id: str, accept: Accept | None) -> bool:
    """Open a run again; False if it has changed meanwhile. Raises RunNotFound, WrongState."""
    reopen = await reopen_of(await core.record(run_id), core.storage, accept)
    return await core.storage.reopen(reopen)


async def retry_all(core: Core, where: RunFilter, accept: Accept | None) -> int:
    """Open all runs that fit and can be opened again; how many were."""
    if where.status is None:
        where = msgspec.structs.replace(where, status=OPENABLE)
    opened, before = 0, None
    while records := await core.storage.list_runs(where, PAGE, before):
        before = records[-1].id
        for record in records:
            try:
                reopen = await reopen_of(record, core.storage, accept)
            except WrongState:
                continue
            opened += await core.storage.reopen(reopen)
    return opened


async def reopen_of(record: RunRecord, storage: Storage, accept: Accept | None) -> Reopen:
    """What opens this run again. WrongState if nothing does."""
    if record.status not in OPENABLE:
        raise WrongState(record.id, record.status, "retry")
    return await _reopen_of(record, storage, accept)


async def _reopen_of(record: RunRecord, storage: Storage, accept: Accept | None) -> Reopen:
    if record.kind == "activity":
        return _reopen(record, None)
    journal = await storage.journal(record.id)
    rows = () if journal is None else journal.rows
    if not rows:  # it ended, or is blocked, before it began
        return _reopen(record, None)
    accepted = () if accept is None else (accept,)
    if record.status is Status.BLOCKED:
        if not accepted:
            return _reopen(record, None)
        block = await storage.block(record.id)
        if block is None or not differ_in_arguments_alone(block.recorded, block.asked):
            verb = "retry(accept='arguments'), which is for arguments that differ and nothing else,"
            raise WrongState(record.id, record.status, verb)
        return _reopen(record, _row(rows, Reopened(upto=_end(rows), accept=accepted), await storage.now()))
    if undo_began(rows) and record.reason != UNDO_FAILED:
        raise WrongState(record.id, record.status, "retry, once its undos have begun (start it anew instead),")
    cut = msgspec.structs.replace(_cut(rows, record), accept=accepted)
    row = _row(rows, cut, await storage.now())
    children = [await _child(child, record, storage) for child in open_children([*rows, row])]
    return _reopen(record, row, tuple(child for child in children if child is not None))


def _cut(rows: Sequence[Row], record: RunRecord) -> Reopened:
    if record.status is Status.CANCELLED:
        # A child, which goes on as if its parent had not given it up.
        return Reopened(upto=next((row.place for row in effective(rows) if row.kind == "cancel"), _end(rows)))
    return reopening(rows, record.error)


def _reopen(record: RunRecord, row: Row | None, children: tuple[Reopen, ...] = ()) -> Reopen:
    status = cast("Literal['failed', 'dead_letter', 'cancelled', 'blocked']", record.status.value)
    return Reopen(run_id=record.id, generation=record.generation, status=status, row=row, children=children)


def _row(rows: Sequence[Row], reopened: Reopened, now: datetime) -> Row:
    return Row(_end(rows), "reopened", "", max(now, rows[-1].at), msgspec.json.encode(reopened).decode())


def _end(rows: Sequence[Row]) -> int:
    """The place behind them."""
    return rows[-1].place + 1


async def _child(run_id: str, parent: RunRecord, storage: Storage) -> Reopen | None:
    """What opens a child again; None for one that goes on, went well, or is somebody else's."""
    record = await storage.run(run_id)
    if record is None or record.parent_id != parent.id or record.status not in _ended_badly:
        return None
    try:
        return await _reopen_of(record, storage, None)
    except WrongState as refused:
        verb = f"retry (its child {refused.run_id} has undone what it did: fork this run from an entry before it)"
        raise WrongState(parent.id, parent.status, verb) from refused
