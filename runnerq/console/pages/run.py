"""A run's pages: summary, history, tree, signals, attempts, and its payloads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
from litestar import Response

from runnerq.console.models.attempts import AttemptRow, attempts
from runnerq.console.models.audit import AuditQuery, audit
from runnerq.console.models.exports import exported
from runnerq.console.models.filters import BadFields
from runnerq.console.models.graph import graph
from runnerq.console.models.history import latest, spans
from runnerq.console.models.payloads import Payload, shown_of
from runnerq.console.models.redaction import Spot, show_all
from runnerq.console.models.run import RunDetail, run_detail, whole_payload
from runnerq.console.models.signals import signals
from runnerq.console.models.taking import Misfit
from runnerq.console.models.tree import children_of, tree
from runnerq.console.pages.forms import Texts
from runnerq.console.pages.run_history import history_values, number_in
from runnerq.console.pages.timeline import timeline_values
from runnerq.console.web.context import Here
from runnerq.console.web.guards import view
from runnerq.console.web.rendering import page
from runnerq.errors import PayloadUnreadable

POLL, POLL_LONG, LONG = 3, 15, 2_000
"""Seconds between two looks at a run that is open, and at one with so many entries: reading those takes a while."""
LATEST = 20
FAILING = 3
WATCHED = 20
"""Children of a page that its live channel is told of."""
DEEPEST = 100
PAYLOADS = {
    "input": "Arguments",
    "result": "Result",
    "state": "State",
    "error": "Error",
    "entry": "Value",
    "signal": "Signal",
}


def run_page(
    here: Here,
    template: str,
    detail: RunDetail,
    *,
    typed: Mapping[str, str] | None = None,
    wrong: BadFields | None = None,
    live: bool = True,
    entries: int = 0,
    children_shown: tuple[str, ...] = (),
    **values: Any,
) -> Response[str]:
    """A page of a run. ``typed`` and ``wrong`` are what somebody has sent that could not be taken, and why: the page is
    not refreshed then, since the message would go. One of many ``entries`` is refreshed less often."""
    run = detail.run
    kin = {run.id, run.root_id, run.parent_id or run.id, *children_shown[:WATCHED]}
    offer = detail.action("fork")
    return page(
        here,
        template,
        status_code=422 if wrong else 200,
        detail=detail,
        live=live and not wrong,
        poll=POLL if entries < LONG else POLL_LONG,
        watched=sorted(kin),
        given=Texts(typed or {}),
        wrong=Texts({} if wrong is None else wrong.errors),
        misfit=isinstance(wrong, Misfit),
        may_fork=offer is not None and offer.permitted and offer.enabled,
        **values,
    )


async def summary_page(
    here: Here, run_id: str, *, typed: Mapping[str, str] | None = None, wrong: BadFields | None = None
) -> Response[str]:
    """The summary, with what somebody has sent and could not be taken."""
    context = here.context
    detail = await run_detail(context, run_id)
    # Nothing of its journal is there before a worker has taken it up.
    begun = detail.run.started_at is not None
    drawn = await spans(context, run_id) if begun else []
    told = await audit(context, AuditQuery(run_id=run_id, limit=10))
    return run_page(
        here,
        "run_summary.html",
        detail,
        typed=typed,
        wrong=wrong,
        entries=len(drawn),
        children_shown=tuple(child.id for child in detail.waiting.children) if detail.waiting else (),
        failing=await _failing(here, detail),
        latest=await latest(context, run_id, LATEST) if begun else (),
        audited=told.rows,
        reveal_url=lambda which: (
            here.url(f"/runs/{run_id}/reveal", which=which) if here.may("payload.reveal") else None
        ),
        **timeline_values(here, detail, drawn),
    )


async def _failing(here: Here, detail: RunDetail) -> list[AttemptRow]:
    """The steps between two attempts of a run that waits for its time: that is what it waits for."""
    waiting = detail.waiting
    if waiting is None or waiting.until is None or detail.run.started_at is None:
        return []
    found = await attempts(here.context, detail.run.id)
    return [row for row in found.rows if row.state == "asked" and row.error is not None][:FAILING]


@view("/runs/{run_id:str}")
async def summary(here: Here, run_id: str) -> Response[str]:
    """What it is, what it waits for, how it ended."""
    return await summary_page(here, run_id)


@view("/runs/{run_id:str}/history")
async def run_history(here: Here, run_id: str) -> Response[str]:
    """Its journal: entries, rows, or all of it as JSON."""
    detail = await run_detail(here.context, run_id)
    values = await history_values(here, run_id)
    if values["query"].view == "json":
        values["export"] = await _export_shown(here, run_id)
    # The beginning of a long history does not change, and all of it as JSON is long.
    live = detail.run.ended_at is None and values["query"].view != "json"
    total = values["found"].total
    return await here.context.in_thread(
        partial(run_page, here, "run_history.html", detail, live=live, entries=total, **values)
    )


@view("/runs/{run_id:str}/tree")
async def run_tree(here: Here, run_id: str) -> Response[str]:
    """Its family."""
    context = here.context
    detail = await run_detail(context, run_id)
    found = await tree(context, run_id)
    drawing = graph(found.nodes) if found.whole and here.query.get("view") == "graph" else None
    depth = next((node.depth for node in found.nodes if node.run.id == detail.run.id), 0) + 1
    shown = tuple(node.run.id for node in found.nodes if not node.run.status.ended)
    return run_page(
        here,
        "run_tree.html",
        detail,
        live=found.whole,
        children_shown=shown,
        view=found,
        drawing=drawing,
        more_depth=depth,
    )


@view("/runs/{run_id:str}/tree/rows")
async def run_tree_rows(here: Here, run_id: str) -> Response[str]:
    """Rows for a tree that is open: runs that this one has started."""
    depth = min(number_in(here.query.get("depth")) or 1, DEEPEST)
    found = await children_of(here.context, run_id, here.query.get("cursor") or None, depth=depth)
    return page(here, "run_tree_rows.html", nodes=found.nodes, run_id=run_id, more=found.next, depth=depth)


async def signals_page(
    here: Here, run_id: str, *, typed: Mapping[str, str] | None = None, wrong: BadFields | None = None
) -> Response[str]:
    """The signals, with what somebody has sent and could not be taken."""
    detail = await run_detail(here.context, run_id)
    found = await signals(here.context, run_id)
    channels = list(dict.fromkeys(wait.channel for wait in found.awaited))
    return run_page(here, "run_signals.html", detail, typed=typed, wrong=wrong, view=found, channels=channels)


@view("/runs/{run_id:str}/signals")
async def run_signals(here: Here, run_id: str) -> Response[str]:
    """Its signals: awaited, in the mailbox, taken."""
    return await signals_page(here, run_id)


@view("/runs/{run_id:str}/attempts")
async def run_attempts(here: Here, run_id: str) -> Response[str]:
    """Attempts on record."""
    detail = await run_detail(here.context, run_id)
    return run_page(here, "run_attempts.html", detail, view=await attempts(here.context, run_id))


@view("/runs/{run_id:str}/payload")
async def run_payload(here: Here, run_id: str) -> Response[str]:
    """One payload, uncut, as a file."""
    which, entry = here.query.get("which", "input"), number_in(here.query.get("entry"))
    found = await whole_payload(here.context, run_id, which, entry=entry)
    if found.sealed is not None:  # there is nothing to keep, and a page says why
        return page(here, "run_payload.html", **payload_values(run_id, which, entry, found))
    name = f"{run_id}-{which}" if entry is None else f"{run_id}-entry-{entry}"
    headers = {"Content-Disposition": f'attachment; filename="{name}.json"'}
    return Response(found.text, media_type="application/json", headers=headers)


@view("/runs/{run_id:str}/reveal")
async def reveal_form(here: Here, run_id: str) -> Response[str]:
    """Asks for the reason to see a payload with nothing masked."""
    here.principal.need("payload.reveal")
    which = here.query.get("which", "input")
    return page(here, "run_payload.html", **payload_values(run_id, which, number_in(here.query.get("entry")), None))


@view("/runs/{run_id:str}/export")
async def run_export(here: Here, run_id: str) -> Response[bytes]:
    """The run as a file."""
    found = await exported(here.context, run_id)
    headers = {"Content-Disposition": f'attachment; filename="run-{found["run_id"]}.json"'}
    text = await here.context.in_thread(partial(msgspec.json.encode, found))
    return Response(text, media_type="application/json", headers=headers)


def payload_values(
    run_id: str,
    which: str,
    entry: int | None,
    payload: Payload | None,
    *,
    revealed: bool = False,
    wrong: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What the page of one payload is made of; without the payload it asks for a reason."""
    label = PAYLOADS.get(which, which) + (f" of entry {entry}" if entry is not None else "")
    return {
        "title": label,
        "label": label,
        "run_id": run_id,
        "which": which,
        "entry": entry,
        "payload": payload,
        "revealed": revealed,
        "wrong": Texts(wrong or {}),
    }


async def _export_shown(here: Here, run_id: str) -> Payload:
    try:
        found = await exported(here.context, run_id)
    except PayloadUnreadable as error:
        return Payload(text="", sealed=str(error))
    # It is redacted already. Only what is shown is indented: all of it may be hundreds of times as long.
    seeing = msgspec.structs.replace(here.context, redact=show_all)
    where = Spot("journal", run_id, found["workflow"])

    def shown() -> Payload:
        return shown_of(seeing, where, msgspec.to_builtins(found))

    return await seeing.in_thread(shown)


HANDLERS = [
    summary, run_history, run_tree, run_tree_rows, run_signals, run_attempts, run_payload, reveal_form, run_export,
]  # fmt: skip
