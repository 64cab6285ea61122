"""What people have done, newest first."""

from __future__ import annotations

from datetime import datetime

import msgspec

from runnerq.client.audit import AuditEntry
from runnerq.console.models.context import Context, bounded
from runnerq.console.models.filters import BadFields
from runnerq.console.models.paging import Place
from runnerq.console.models.redaction import Spot, mask


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """One action. ``target`` says in words on what, where that is no run; ``outcome`` what came of it: ``done``,
    ``nothing changed``, or what it was refused for. ``request`` is JSON, redacted when it
    was written."""

    id: str
    at: datetime
    principal: str
    action: str
    target: str | None
    run_id: str | None
    reason: str | None
    request: str | None
    outcome: str


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows: of a run, of somebody, of an action."""

    run_id: str | None = None
    principal: str | None = None
    action: str | None = None
    cursor: str | None = None
    limit: int = 50

    @property
    def listing(self) -> str:
        """What a cursor of it belongs to."""
        return msgspec.json.encode(("audit", self.run_id, self.principal, self.action)).decode()


NO_QUERY = AuditQuery()


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the audit, newest first; ``next`` is the cursor of the rest."""

    rows: tuple[AuditRow, ...]
    next: str | None


@bounded
async def audit(context: Context, query: AuditQuery = NO_QUERY) -> AuditPage:
    """A page of the audit. Raises BadCursor, BadFields."""
    place = None if query.cursor is None else context.cursors.read(query.listing, query.cursor).at
    try:
        page = await context.client.audit.list(
            query.limit, place, run_id=query.run_id, principal=query.principal, action=query.action
        )
    except ValueError as error:
        raise BadFields({"run_id": str(error)}) from error
    following = None if page.next is None else context.cursors.sign(query.listing, Place("after", page.next))
    return AuditPage(rows=tuple(_row(entry) for entry in page.items), next=following)


def _row(entry: AuditEntry) -> AuditRow:
    # It was redacted when it was written, by what each part of it is. What others have written is masked by its names.
    request = mask(Spot("signal", entry.run_id or "", ""), entry.request)
    return AuditRow(
        id=entry.id,
        at=entry.at,
        principal=entry.principal,
        action=entry.action,
        target=entry.target,
        run_id=entry.run_id,
        reason=entry.reason,
        request=None if request is None else msgspec.json.encode(request).decode(),
        outcome=entry.outcome,
    )
