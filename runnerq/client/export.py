"""A run as one JSON value: everything on record of it, all generations, for a file, a ticket, or ``check_replay``.

The form is fixed: ``format`` counts up when it changes. Times are ISO text, values are what is stored, as JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from runnerq.client.aside import aside, size_of
from runnerq.client.history import entries_of
from runnerq.client.readable import check_record, journal_of, mailbox_of
from runnerq.errors import RunNotFound
from runnerq.persistence.protocol import Reads
from runnerq.persistence.records import Attempt, Journal, Mail, RunRecord
from runnerq.workflow.journal import Row, Started

FORMAT = 1


async def export(reads: Reads, run_id: str) -> dict[str, Any]:
    """The run, as JSON builtins, its payloads plain. Raises RunNotFound, PayloadUnreadable."""
    record = await reads.run(run_id)
    journals = [] if record is None else [await journal_of(reads, run_id, n) for n in range(1, record.generation + 1)]
    present = [journal for journal in journals if journal is not None]
    if record is None or not present:
        raise RunNotFound(run_id)
    check_record(record)
    unread = await mailbox_of(reads, run_id)

    def written() -> dict[str, Any]:
        exported = {**_exported(record, present), "unread": list(map(_mail, unread))}
        return {name: value if name == "generations" else _plain(value) for name, value in exported.items()}

    return await aside(sum(size_of(journal.rows) for journal in present), written)


def _exported(record: RunRecord, journals: Sequence[Journal]) -> dict[str, Any]:
    last = journals[-1]
    started = None if record.started is None else msgspec.json.decode(record.started, type=Started)
    return {
        "format": FORMAT,
        "run_id": record.id,
        "workflow": record.name,
        "version": record.version,
        "kind": record.kind,
        "key": record.key,
        "queue": record.queue,
        "priority": record.priority,
        "metadata": _json(record.metadata) or {},
        "limit": record.limit,
        "parent_id": record.parent_id,
        "root_id": record.root_id,
        "depth": record.depth,
        "created_at": record.created_at,
        "status": record.status.value,
        "build": None if started is None else started.build,
        "rules": None if started is None else started.rules,
        "generation": record.generation,
        "arguments": _json(record.input),
        "generations": [
            {"generation": journal.generation, "rows": _plain([_row(row) for row in journal.rows])}
            for journal in journals
        ],
        "attempts": [_attempt(attempt) for attempt in last.attempts],
        "entries": entries_of(last, record.name),
        "outcome": _outcome(record),
    }


def _plain(value: Any) -> Any:
    """The same of builtins alone; of a list piece by piece, since all of it at once lets no other thread go on."""
    return [msgspec.to_builtins(each) for each in value] if isinstance(value, list) else msgspec.to_builtins(value)


def _row(row: Row) -> dict[str, Any]:
    return {
        "place": row.place,
        "kind": row.kind,
        "position": row.position,
        "at": row.at,
        "value": _json(row.value),
        "asked": _json(row.asked),
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "position": attempt.position,
        "number": attempt.number,
        "error": _json(attempt.error),
        "at": attempt.at,
        "next_at": attempt.next_at,
        "details": _json(attempt.details),
    }


def _mail(mail: Mail) -> dict[str, Any]:
    return {"number": mail.number, "at": mail.at, "channel": mail.channel, "value": _json(mail.value)}


def _outcome(record: RunRecord) -> dict[str, Any] | None:
    if record.ended_at is None or not record.status.ended:
        return None
    return {
        "status": record.status.value,
        "ended_at": record.ended_at,
        "result": _json(record.result),
        "error": _json(record.error),
        "reason": record.reason,
        "cancel_requested": record.cancel_requested,
    }


def _json(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)
