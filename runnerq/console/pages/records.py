"""``/audit``: who did what, and why."""

from __future__ import annotations

import csv
from io import StringIO

import msgspec
from litestar import Response

from runnerq.console.models.audit import AuditPage, AuditQuery, AuditRow, audit
from runnerq.console.models.filters import BadFields
from runnerq.console.pages.exporting import attachment, gathered
from runnerq.console.pages.runs import cell
from runnerq.console.table import ACTIONS
from runnerq.console.web.context import Here
from runnerq.console.web.guards import view
from runnerq.console.web.rendering import page


@view("/audit")
async def audit_page(here: Here) -> Response[str]:
    """What was done, the newest first."""
    query = _query(here)
    fault = ""
    try:
        found = await audit(here.context, query)
    except BadFields as error:
        found, fault = AuditPage(rows=(), next=None), "; ".join(error.errors.values())
    return page(
        here,
        "audit.html",
        status_code=400 if fault else 200,
        page=found,
        query=query,
        names=sorted(ACTIONS),
        narrowed=bool(query.run_id or query.principal or query.action),
        fault=fault,
    )


@view("/audit/export.csv")
async def audit_csv(here: Here) -> Response[bytes]:
    """The newest rows, as a table."""
    query = msgspec.structs.replace(_query(here), limit=200)
    found = await gathered(lambda cursor: audit(here.context, msgspec.structs.replace(query, cursor=cursor)))
    columns = AuditRow.__struct_fields__
    out = StringIO()
    csv.writer(out).writerow(columns)
    table = csv.writer(out, quoting=csv.QUOTE_ALL)
    table.writerows([cell(msgspec.to_builtins(getattr(row, name))) for name in columns] for row in found.rows)
    return attachment(
        out.getvalue().encode("utf-8", "replace"), "text/csv; charset=utf-8", found.file_name("audit", "csv")
    )


def _query(here: Here) -> AuditQuery:
    given = here.query
    return AuditQuery(
        run_id=given.get("run") or None,
        principal=given.get("principal") or None,
        action=given.get("action") or None,
        cursor=given.get("cursor") or None,
    )


HANDLERS = [audit_page, audit_csv]
