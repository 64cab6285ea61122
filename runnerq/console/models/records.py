"""What the reads of one run have in common: its record, links to others, and where its payloads stand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from runnerq.client.history import Entry
from runnerq.console.models.context import Context
from runnerq.console.models.redaction import Spot, SpotKind
from runnerq.errors import RunNotFound
from runnerq.ids import check_run_id
from runnerq.persistence.records import RunRecord, Status

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """Another run. ``status`` is None where it is not there any more; ``workflow`` is left out where it is plain."""

    id: str
    status: Status | None
    workflow: str | None = None


async def record_of(context: Context, run_id: str) -> RunRecord:
    """The run as it is stored. Raises RunNotFound, also for what is no id: nobody has one like that."""
    try:
        checked = check_run_id(run_id)
    except ValueError as error:
        raise RunNotFound(run_id) from error
    record = await context.client.storage.run(checked)
    if record is None:
        raise RunNotFound(checked)
    return record


async def link_to(context: Context, run_id: str) -> Link:
    """A link to a run, which may be gone."""
    record = await context.client.storage.run(run_id)
    if record is None:
        return Link(id=run_id, status=None)
    return Link(id=run_id, workflow=record.name, status=record.status)


def made_at(run_id: str) -> datetime:
    """The time that an id begins with."""
    return _EPOCH + timedelta(milliseconds=int(run_id[:8] + run_id[9:13], 16))


def spot(kind: SpotKind, record: RunRecord, name: str = "") -> Spot:
    """Where a payload of this run stands; ``name`` is the channel, step or child that it is of."""
    return Spot(kind, record.id, record.name, name=name)


def value_spot(record: RunRecord, entry: Entry) -> Spot:
    """Where the value of an entry stands."""
    return spot(kind_of_value(entry.kind), record, _name(entry))


def error_spot(record: RunRecord, entry: Entry) -> Spot:
    """Where the error of an entry stands."""
    return spot("error", record, _name(entry))


def kind_of_value(asked: str) -> SpotKind:
    """What the answer to such a command is: what a signal brought is a signal wherever it is shown."""
    return "signal" if asked == "signal" else "journal"


def _name(entry: Entry) -> str:
    return "" if entry.kind == "started" else entry.name
