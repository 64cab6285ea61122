"""Forks: a new run that begins with what another one had done before some entry (DESIGN section 5, rule 16).

Rules
- The journal is copied with its seed, so that the same code does the same as far as it goes. Unread signals are not.
- A child that had not ended by then is started anew with its first input, as a child of the fork. One that had ended
  stays what it is: an answer on record.
"""

from __future__ import annotations

import msgspec

from runnerq.client.core import Core
from runnerq.client.readable import check_record, journal_of
from runnerq.client.reopening import UNDONE
from runnerq.errors import WrongState
from runnerq.ids import derived_run_id, new_run_id
from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import NewRun, RunRecord
from runnerq.workflow.forking import before_answer, forked, open_children
from runnerq.workflow.reopening import undo_began

ORIGIN = "forked_from"
"""Among a fork's options: the run and the entry it was made from. Workers pass over what they do not know there."""


async def fork_of(record: RunRecord, position: str, core: Core) -> str:
    """Start the fork, and answer its id. ValueError for a position that the run's journal does not have."""
    if record.kind == "activity":
        raise WrongState(record.id, record.status, "fork", "it is for workflows: start an activity anew")
    storage = core.storage
    check_record(record)
    journal = await journal_of(storage, record.id)
    whole = () if journal is None else journal.rows
    if undo_began(whole):
        # Its steps would count as done, and are undone.
        raise WrongState(record.id, record.status, "fork", UNDONE)
    rows = before_answer(whole, position)
    now = await storage.now()
    fork_id = new_run_id()
    open_ = open_children(rows)
    # A detached run is none of its children: the fork has it on record, and does not start it anew.
    originals = {child: found for child in open_ if (found := await _child_of(record.id, child, storage)) is not None}
    renewed = {child: derived_run_id(now, fork_id, "1", open_[child]) for child in originals}
    fork = NewRun(
        id=fork_id,
        kind=record.kind,
        name=record.name,
        version=record.version,
        queue=record.queue,
        input=record.input or "[]",
        priority=record.priority,
        metadata=record.metadata,
        options=_with_origin(record.options, record.id, position),
        rows=forked(rows, renewed, now),
        limit=record.limit,
    )
    children = [_child(found, renewed[child], fork_id, open_[child]) for child, found in originals.items()]
    await core.start([fork, *children])
    return fork_id


def origin_of(options: str | None) -> tuple[str, str] | None:
    """The run that the one with these options is a fork of, and the entry that it begins at; None if it is none."""
    found = None if options is None else msgspec.json.decode(options).get(ORIGIN)
    return None if found is None else (found[0], found[1])


def _with_origin(options: str | None, run_id: str, position: str) -> str:
    given = {} if options is None else msgspec.json.decode(options, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({**given, ORIGIN: [run_id, position]}).decode()


async def _child_of(parent: str, run_id: str, storage: Storage) -> RunRecord | None:
    record = await storage.run(run_id)
    return check_record(record) if record is not None and record.parent_id == parent else None


def _child(original: RunRecord, new_id: str, fork_id: str, position: str) -> NewRun:
    """The same child again, of the fork. It has no key: its original holds that."""
    return NewRun(
        id=new_id,
        kind=original.kind,
        name=original.name,
        version=original.version,
        queue=original.queue,
        input=original.input or "[]",
        priority=original.priority,
        root_id=fork_id,
        parent_id=fork_id,
        parent_position=f"1/{position}",
        depth=1,
        metadata=original.metadata,
        options=original.options,
        limit=original.limit,
    )
