"""Rows of the database as records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import Struct, structs

from runnerq.persistence.postgres.lending import Record
from runnerq.persistence.records import (
    Activity,
    Attempt,
    AuditRecord,
    BlockRecord,
    Claimed,
    Definition,
    Depth,
    Event,
    FailureGroup,
    Inbox,
    Limit,
    Load,
    Mail,
    NewAudit,
    Outcome,
    QueueRecord,
    RunRecord,
    StartReply,
    Status,
    WorkerRecord,
    named,
)
from runnerq.workflow.journal import Row

T = TypeVar("T", bound=Struct)


def of(kind: type[T], record: Record, **others: Any) -> T:
    """The row as this kind of record, whose fields are called as its columns are; ``others`` are those that are not.

    A field without a column is a KeyError, also one that has a default. It takes five times as long as what is written
    out: claims, ends and events, of which there are thousands in a second, are.
    """
    for name in kind.__struct_fields__:
        if name not in others:
            others[name] = record[name]
    return kind(**others)


def claimed(record: Record, token: int) -> Claimed:
    """A row of claim_runs.sql, of a run that has nothing else on record."""
    return Claimed(
        id=record["run_id"],
        token=token,
        kind=record["kind"],
        name=record["name"],
        version=record["version"],
        queue=record["queue"],
        priority=record["priority"],
        input=record["input"],
        created_at=record["created_at"],
        root_id=record["root_id"],
        parent_id=record["parent_id"],
        depth=record["depth"],
        key=record["key"],
        metadata=record["metadata"],
        options=record["options"],
        generation=record["generation"],
        crashes=record["crashes"],
        faults=record["faults"],
        cancel=record["cancel"],
        seen=record["seen"],
        limit=limit(record),
        rank=record["rank"],
    )


def begun(run: Claimed, record: Record, *, resumed: bool) -> Claimed:
    """The run with what a row of read_claimed.sql has of it."""
    return structs.replace(
        run,
        cancel=record["cancel"],
        seen=record["seen"],
        resumed=resumed,
        rows=journal_rows(record),
        signals=_mail(record),
        outcomes=_outcomes(record["ended"]),
        attempts=attempts(record["attempts"]),
        state=record["state"],
    )


def limit(record: Record) -> Limit | None:
    """What the run counts against."""
    scope = record["limit_scope"]
    return None if scope is None else Limit(scope, record["limit_key"])


def journal_rows(record: Record) -> tuple[Row, ...]:
    """The journal, from its columns as arrays."""
    if record["places"] is None:
        return ()
    columns = (record[name] for name in ("places", "kinds", "positions", "ats", "values", "asks"))
    return tuple(map(Row, *columns))


def inbox(record: Record) -> Inbox:
    return Inbox(
        run_id=record["run_id"],
        seen=record["seen"],
        now=record["now"],
        cancel=record["cancel"],
        signals=_mail(record),
        outcomes=_outcomes(record["ended"]),
    )


def outcome(record: Record) -> Outcome:
    return Outcome(
        run_id=record["run_id"],
        status=record["status"],
        ended_at=record["ended_at"],
        result=record["result"],
        error=record["error"],
        reason=record["reason"],
        cancel_requested=record["cancel_requested"],
    )


def attempts(composites: Sequence[Sequence[Any]] | None) -> tuple[Attempt, ...]:
    """Composites of (position, number, error, at, next_at, details)."""
    return tuple(
        Attempt(position=position, number=number, error=error, at=at, next_at=next_at, details=details)
        for position, number, error, at, next_at, details in composites or ()
    )


def run(record: Record) -> RunRecord:
    return of(
        RunRecord,
        record,
        status=Status(record["status"]),
        waiting_signals=tuple(record["waiting_signals"] or ()),
        waiting_children=tuple(record["waiting_children"] or ()),
        stack=tuple(record["stack"] or ()),
        limit=limit(record),
    )


def failure_group(record: Record, sample: Outcome | None) -> FailureGroup:
    """A group of aggregate_runs.sql; its newest run may have been opened again meanwhile."""
    name, status, mark = record["value"].rsplit("\x1f", 2)
    return FailureGroup(
        name=name,
        status=Status(status),
        fingerprint=mark,
        count=record["how_many"],
        first_at=record["first_at"],
        last_at=record["last_at"],
        sample_id=record["sample"],
        error=None if sample is None else sample.error,
        reason=None if sample is None else sample.reason,
    )


def start_reply(record: Record) -> StartReply:
    """A row of start_runs.sql."""
    return StartReply(id=record["id"], created=record["created"], refused=record["refused"])


def activity(record: Record) -> Activity:
    return of(Activity, record, name=record["name"] or None, durations=tuple(record["durations"] or ()))


def audit(record: Record) -> AuditRecord:
    return AuditRecord(at=record["at"], entry=of(NewAudit, record))


def block(record: Record) -> BlockRecord:
    return of(BlockRecord, record, builds=tuple(record["builds"]))


def definition(record: Record) -> Definition:
    return of(Definition, record)


def worker(record: Record) -> WorkerRecord:
    return of(
        WorkerRecord,
        record,
        queues=tuple(record["queues"]),
        served=tuple(record["served"]),
        load=of(Load, record),
    )


def depth(record: Record) -> Depth:
    name, version = named(record["served"])
    status = Status(record["status"])
    return of(Depth, record, status=status, name=name, version=version, count=record["how_many"])


def queue(record: Record) -> QueueRecord:
    return of(QueueRecord, record)


def event(record: Record, cursor: str) -> Event:
    return Event(
        cursor=cursor,
        at=record["at"],
        kind=record["kind"],
        run_id=record["run_id"],
        name=record["name"],
        queue=record["queue"],
        data=record["data"],
    )


def _mail(record: Record) -> tuple[Mail, ...]:
    """Signals, from their columns as arrays. A signal's number is its id: it is unique in its run."""
    if record["numbers"] is None:
        return ()
    columns = (record[name] for name in ("numbers", "numbers", "sent", "channels", "payloads", "traces"))
    return tuple(map(Mail, *columns))


def _outcomes(composites: Sequence[Sequence[Any]] | None) -> tuple[Outcome, ...]:
    """Composites of (run id, status, time, result, error, reason, whether a cancel was requested)."""
    return tuple(
        Outcome(
            run_id=run_id,
            status=status,
            ended_at=ended_at,
            result=result,
            error=error,
            reason=reason,
            cancel_requested=cancel_requested,
        )
        for run_id, status, ended_at, result, error, reason, cancel_requested in composites or ()
    )
