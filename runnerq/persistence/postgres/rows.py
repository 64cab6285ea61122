"""Rows of the database as records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

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
    Status,
    WorkerRecord,
    named,
)
from runnerq.workflow.journal import Row


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
    return RunRecord(
        id=record["id"],
        kind=record["kind"],
        name=record["name"],
        version=record["version"],
        queue=record["queue"],
        priority=record["priority"],
        status=Status(record["status"]),
        created_at=record["created_at"],
        root_id=record["root_id"],
        parent_id=record["parent_id"],
        depth=record["depth"],
        key=record["key"],
        generation=record["generation"],
        due_at=record["due_at"],
        started_at=record["started_at"],
        ended_at=record["ended_at"],
        parked_at=record["parked_at"],
        started=record["started"],
        waiting_signals=tuple(record["waiting_signals"] or ()),
        waiting_children=tuple(record["waiting_children"] or ()),
        stack=tuple(record["stack"] or ()),
        input=record["input"],
        metadata=record["metadata"],
        options=record["options"],
        result=record["result"],
        error=record["error"],
        reason=record["reason"],
        cancel_requested=record["cancel_requested"],
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


def activity(record: Record) -> Activity:
    return Activity(
        at=record["at"],
        name=record["name"] or None,
        started=record["started"],
        completed=record["completed"],
        failed=record["failed"],
        dead_letter=record["dead_letter"],
        cancelled=record["cancelled"],
        durations=tuple(record["durations"] or ()),
    )


def audit(record: Record) -> AuditRecord:
    return AuditRecord(
        at=record["at"],
        entry=NewAudit(
            id=record["id"],
            principal=record["principal"],
            action=record["action"],
            outcome=record["outcome"],
            target=record["target"],
            run_id=record["run_id"],
            reason=record["reason"],
            request=record["request"],
        ),
    )


def block(record: Record) -> BlockRecord:
    return BlockRecord(
        run_id=record["run_id"],
        at=record["at"],
        message=record["message"],
        builds=tuple(record["builds"]),
        position=record["position"],
        recorded=record["recorded"],
        asked=record["asked"],
        line=record["line"],
        traceback=record["traceback"],
        retry_at=record["retry_at"],
    )


def definition(record: Record) -> Definition:
    return Definition(
        kind=record["kind"],
        name=record["name"],
        version=record["version"],
        queue=record["queue"],
        build=record["build"],
        options=record["options"],
        schema=record["schema"],
        served=record["served"],
    )


def worker(record: Record) -> WorkerRecord:
    return WorkerRecord(
        id=record["id"],
        host=record["host"],
        pid=record["pid"],
        build=record["build"],
        queues=tuple(record["queues"]),
        served=tuple(record["served"]),
        slots=record["slots"],
        lease=record["lease"],
        registered_at=record["registered_at"],
        beat_at=record["beat_at"],
        alive=record["alive"],
        left_at=record["left_at"],
        reaped_at=record["reaped_at"],
        load=Load(held=record["held"], running=record["running"], stuck=record["stuck"], late=record["late"]),
        library=record["library"],
        clock_off=record["clock_off"],
        drain_at=record["drain_at"],
    )


def depth(record: Record) -> Depth:
    name, version = named(record["served"])
    return Depth(
        status=Status(record["status"]),
        name=name,
        version=version,
        queue=record["queue"],
        priority=record["priority"],
        count=record["how_many"],
        oldest_ready_at=record["oldest_ready_at"],
    )


def queue(record: Record) -> QueueRecord:
    return QueueRecord(
        name=record["name"],
        paused_at=record["paused_at"],
        ready=record["ready"],
        delayed=record["delayed"],
        running=record["running"],
        waiting=record["waiting"],
        blocked=record["blocked"],
        oldest_ready_at=record["oldest_ready_at"],
        workers=record["workers"],
        capped=record["capped"],
    )


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
