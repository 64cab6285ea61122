"""What people did, as it is written and read."""

from __future__ import annotations

from collections.abc import Sequence

from runnerq.persistence.postgres import rows
from runnerq.persistence.postgres.core import Core
from runnerq.persistence.postgres.texts import plain, readable
from runnerq.persistence.records import AuditFilter, AuditRecord, NewAudit


class Audits(Core):
    """What the protocol says of them."""

    async def write_audit(self, entries: Sequence[NewAudit]) -> None:
        await self._connections.fetch(
            self._statements["write_audit"],
            [entry.id for entry in entries],
            [plain(entry.principal, "the principal") for entry in entries],
            [plain(entry.action, "the action") for entry in entries],
            [readable(entry.outcome) for entry in entries],
            [readable(entry.target) for entry in entries],
            [entry.run_id for entry in entries],
            [readable(entry.reason) for entry in entries],
            [entry.request for entry in entries],
        )

    async def read_audit(self, where: AuditFilter, limit: int, before: str | None = None) -> list[AuditRecord]:
        found = await self._connections.fetch_fresh(
            self._statements["read_audit"], limit, before, where.run_id, where.principal, where.action
        )
        return [rows.audit(record) for record in found]
