"""What people did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from runnerq.persistence.records import AuditFilter, AuditRecord, NewAudit


class Audits(Protocol):
    """A record of what people did, kept for 90 days."""

    async def write_audit(self, entries: Sequence[NewAudit]) -> None:
        """Keep these, in one commit. One whose id is there already is the same one, and changes nothing."""
        ...

    async def read_audit(self, where: AuditFilter, limit: int, before: str | None = None) -> list[AuditRecord]:
        """Newest first by id, those with an id below ``before``."""
        ...
