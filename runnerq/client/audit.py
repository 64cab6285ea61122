"""``client.audit``: what people did through a console, an API or a command line, and what came of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from runnerq.client.core import Core
from runnerq.client.info import Page
from runnerq.ids import check_run_id, new_run_id
from runnerq.persistence.records import AuditFilter, AuditRecord, NewAudit
from runnerq.serialization.sealing import unreadable

MAX_PAGE = 1000


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something that somebody did, or was refused. ``request`` is what was asked for, as JSON builtins, or why it
    cannot be read here; ``outcome`` what came of it, in words."""

    id: str
    at: datetime
    principal: str
    action: str
    target: str | None
    run_id: str | None
    reason: str | None
    request: Any
    outcome: str


class Audit:
    """What people did, kept for 90 days. The library writes nothing here by itself: whoever acts for a person does."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    async def record(
        self,
        principal: str,
        action: str,
        *,
        outcome: str = "done",
        target: str | None = None,
        run_id: str | None = None,
        reason: str | None = None,
        request: Any = None,
    ) -> str:
        """Write down that somebody did something; the entry's id. ``target`` is what it was done to, where that is no
        run. EncodingError for a request that cannot be stored."""
        if not principal or not action:
            raise ValueError(f"principal={principal!r}, action={action!r}: say who did what")
        entry = NewAudit(
            id=new_run_id(),
            principal=principal,
            action=action,
            outcome=outcome,
            target=target,
            run_id=None if run_id is None else check_run_id(run_id),
            reason=reason,
            request=None if request is None else self._core.codec.encode(request, f"the request of {action!r}"),
        )
        await self._core.storage.write_audit([entry])
        return entry.id

    async def list(
        self,
        limit: int = 50,
        cursor: str | None = None,
        *,
        run_id: str | None = None,
        principal: str | None = None,
        action: str | None = None,
    ) -> Page[AuditEntry]:
        """What was done, newest first; ``cursor`` is the ``next`` of the page before."""
        if not 1 <= limit <= MAX_PAGE:
            raise ValueError(f"limit={limit!r}: a page has 1 to {MAX_PAGE} entries")
        where = AuditFilter(run_id=None if run_id is None else check_run_id(run_id), principal=principal, action=action)
        before = None if cursor is None else check_run_id(cursor)
        found = await self._core.storage.read_audit(where, limit + 1, before)
        shown = [_entry(record) for record in found[:limit]]
        return Page(shown, shown[-1].id if len(found) > limit else None)


def _entry(record: AuditRecord) -> AuditEntry:
    entry = record.entry
    return AuditEntry(
        id=entry.id,
        at=record.at,
        principal=entry.principal,
        action=entry.action,
        target=entry.target,
        run_id=entry.run_id,
        reason=entry.reason,
        request=None if entry.request is None else _request(entry.request),
        outcome=entry.outcome,
    )


def _request(text: str) -> Any:
    """One that cannot be opened here says so in words: the list must show it beside the others."""
    refused = unreadable(text, None, "what was asked for")
    return msgspec.json.decode(text) if refused is None else str(refused)
