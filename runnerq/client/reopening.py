"""Opening runs again that ended badly or are blocked: what ``retry`` and ``redrive`` ask the storage for.

Rules (DESIGN section 5, rule 16)
- The journal is cut at the failure that the run ended with: that answer and what came after it stay in history and are
  fed no more. A child that the rest leaves open is opened again with its parent, and so on down: one whose failure is
  cut, and those that were cancelled because of it.
- A run whose undos have begun is not opened again: what it did is half undone. One that ended because an undo failed
  goes on at that undo.
- Of many, what cannot go on is passed over, and so is what cannot be read here, which is logged.
- A blocked run lost nothing: it is only made claimable, by a worker of any build.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Literal, TypeAlias, cast

import msgspec

from runnerq.client.core import Core
from runnerq.client.readable import check_text, journal_of
from runnerq.errors import ConfigurationError, DecodingError, PayloadUnreadable, WrongState
from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import Reopen, RunFilter, RunRecord, Status
from runnerq.workflow.forking import open_children
from runnerq.workflow.journal import Reopened, Row
from runnerq.workflow.recorder import differ_in_arguments_alone
from runnerq.workflow.reopening import ARGUMENTS, effective, reopening, undo_began

log = logging.getLogger("runnerq.client")

Accept: TypeAlias = Literal["arguments"]

UNDONE = "it has undone what it did (its undos have begun): start it anew instead"
OPENABLE = (Status.FAILED, Status.DEAD_LETTER, Status.BLOCKED)
START_ANEW = "start it anew, or fork it"
GOES_ON = "it is open, and goes on by itself"
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
    opened = 0
    async for reopen in _reopens(core, where, accept):
        opened += await core.storage.reopen(reopen)
    return opened


async def redrive_one(core: Core, run_id: str) -> int:
    """Open a dead letter again: 1, or 0 if somebody else was faster."""
    return int(await core.storage.reopen(await _redriven(core, run_id)))


async def redrive_all(core: Core, where: RunFilter) -> int:
    """Open all dead letters that fit and can be opened again; how many were."""
    return await retry_all(core, _dead_letters(where), None)


async def count_redriven(core: Core, which: str | RunFilter) -> int:
    """How many dead letters would be opened; nothing is changed."""
    if isinstance(which, str):
        await _redriven(core, which)
        return 1
    count = 0
    async for _ in _reopens(core, _dead_letters(which), None):
        count += 1
    return count


async def _redriven(core: Core, run_id: str) -> Reopen:
    record = await core.record(run_id)
    if record.status is not Status.DEAD_LETTER:
        raise WrongState(record.id, record.status, "redrive", _instead_of_redrive(record.status))
    return await reopen_of(record, core.storage, None)


def _instead_of_redrive(status: Status) -> str:
    if status in OPENABLE:
        return "retry is for it"
    return START_ANEW if status.ended else GOES_ON


def _dead_letters(where: RunFilter) -> RunFilter:
    if where.status not in (None, (Status.DEAD_LETTER,)):
        raise ConfigurationError(f"redrive() is for dead letters: leave status={where.status!r} out, or use retry()")
    return msgspec.structs.replace(where, status=(Status.DEAD_LETTER,))


async def _reopens(core: Core, where: RunFilter, accept: Accept | None) -> AsyncIterator[Reopen]:
    """What opens each run that fits and can be opened again, newest first."""
    cursor: str | None = None
    while True:
        found = await core.storage.list_runs(where, PAGE, cursor)
        for record in found.runs:
            try:
                reopen = await reopen_of(record, core.storage, accept)
            except WrongState:
                continue
            except (DecodingError, PayloadUnreadable) as unreadable:
                log.warning("run %s of %s is passed over: %s", record.id, record.name, unreadable)
                continue
            yield reopen
        cursor = found.next
        if cursor is None:
            return


async def reopen_of(record: RunRecord, storage: Storage, accept: Accept | None) -> Reopen:
    """What opens this run again. WrongState if nothing does."""
    if record.status not in OPENABLE:
        went = START_ANEW if record.status.ended else GOES_ON
        raise WrongState(record.id, record.status, "retry", went)
    return await _reopen_of(record, storage, accept)


async def _reopen_of(record: RunRecord, storage: Storage, accept: Accept | None) -> Reopen:
    await _check_key(record, storage)
    if record.kind == "activity":
        return _reopen(record, None)
    accepted = () if accept is None else (accept,)
    if record.status is Status.BLOCKED and not accepted:
        return _reopen(record, None)
    journal = await journal_of(storage, record.id)
    rows = () if journal is None else journal.rows
    if not rows:  # it ended, or is blocked, before it began
        return _reopen(record, None)
    if record.status is Status.BLOCKED:
        block = await storage.block(record.id)
        if block is not None:
            check_text(block.recorded, record.id, "why it is blocked")
            check_text(block.asked, record.id, "why it is blocked")
        if block is None or not differ_in_arguments_alone(block.recorded, block.asked):
            instead = "accept='arguments' is for arguments that differ and nothing else: retry it without"
            raise WrongState(record.id, record.status, "retry", instead)
        return _reopen(record, _row(rows, Reopened(upto=_end(rows), accept=accepted), await storage.now()))
    if undo_began(rows) and record.reason != UNDO_FAILED:
        raise WrongState(record.id, record.status, "retry", UNDONE)
    cut = msgspec.structs.replace(_cut(rows, record), accept=accepted)
    row = _row(rows, cut, await storage.now())
    children = [await _child(child, record, storage) for child in open_children([*rows, row])]
    return _reopen(record, row, tuple(child for child in children if child is not None))


def _cut(rows: Sequence[Row], record: RunRecord) -> Reopened:
    if record.status is Status.CANCELLED:
        # A child, which goes on as if its parent had not given it up.
        return Reopened(upto=next((row.place for row in effective(rows) if row.kind == "cancel"), _end(rows)))
    check_text(record.error, record.id, "the error")
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
        instead = f"its child {record.id} ({record.status}) would go on with it, and cannot: {refused.instead}"
        raise WrongState(parent.id, parent.status, "retry", f"{instead}; or fork this run from before it") from refused


async def _check_key(record: RunRecord, storage: Storage) -> None:
    """WrongState for a run that could not begin because another held its key, while that is still so."""
    if record.key is None or record.started_at is not None or record.status is not Status.FAILED:
        return
    holder = await storage.by_key(record.name, record.key)
    if holder not in (None, record.id):
        instead = f"run {holder} holds its key {record.key!r} of {record.name}: delete that run, or use another key"
        raise WrongState(record.id, record.status, "retry", instead)
