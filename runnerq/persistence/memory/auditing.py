"""The part of the in-memory storage that keeps what people did."""

from __future__ import annotations

from collections.abc import Sequence

from runnerq.persistence.memory.checks import check_names
from runnerq.persistence.memory.core import Core
from runnerq.persistence.records import AuditFilter, AuditRecord, NewAudit


class Audits(Core):
    """Nothing of it is ever forgotten but with the storage."""

    async def write_audit(self, entries: Sequence[NewAudit]) -> None:
        for entry in entries:
            check_names(entry.principal, entry.action)
        with self.writing() as (book, now):
            for entry in entries:
                book.audit.setdefault(entry.id, AuditRecord(entry=entry, at=now))

    async def read_audit(self, where: AuditFilter, limit: int, before: str | None = None) -> list[AuditRecord]:
        with self._reading() as (book, _):
            fitting = [record for record in book.audit.values() if _fits(record.entry, where)]
        older = [record for record in fitting if before is None or record.entry.id < before]
        return sorted(older, key=lambda record: record.entry.id, reverse=True)[:limit]


def _fits(entry: NewAudit, where: AuditFilter) -> bool:
    return (
        (where.run_id is None or entry.run_id == where.run_id)
        and (where.principal is None or entry.principal == where.principal)
        and (where.action is None or entry.action == where.action)
    )
