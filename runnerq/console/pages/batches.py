"""``/batches``: changes to many runs, asked about before they begin and watched while they go on."""

from __future__ import annotations

from litestar import Response

from runnerq.console.actions.batches import BatchRequest, Selection, preview, start_batch, stop_batch
from runnerq.console.models.filters import BadFields, RunQuery, parse_query
from runnerq.console.pages.forms import NOT_OURS, bulk_verbs, pairs, reason_of
from runnerq.console.table import ACTIONS, ActionSpec
from runnerq.console.web.context import Form, Here
from runnerq.console.web.guards import action, view
from runnerq.console.web.rendering import checked_target, done, go, page

FIRST = "cancel"
"""What is asked about where nothing was chosen yet."""


@view("/batches")
async def batches_page(here: Here) -> Response[str]:
    """Those of this process, the newest first."""
    return page(here, "batches.html", batches=here.context.batches.list())


@view("/batches/new")
async def batch_form(here: Here) -> Response[str]:
    """How many runs fit, the first of them, and the question whether it is meant. Changes nothing."""
    return await _asked(here, here.query, ids=())


@action("bulk", "/runs/bulk")
async def runs_bulk(here: Here) -> Response[str]:
    """The same for runs that were selected in a list. Changes nothing."""
    form = await here.form()
    ids = tuple(form.all("id"))
    if not ids:
        return done(here, "select some runs first", to=form.get("back"), tone="warn")
    return await _asked(here, form, ids)


@action("bulk", "/batches")
async def batch_start(here: Here) -> Response[str]:
    """Begin."""
    form = await here.form()
    request = BatchRequest(
        action=_spec(form).name,
        selection=_selection(form, tuple(form.all("id"))),
        priority=form.get("priority") or None,
    )
    begun = await start_batch(here.context, request, reason=reason_of(form))
    return go(here, here.url(f"/batches/{begun.id}"))


@view("/batches/{batch_id:str}")
async def batch_page(here: Here, batch_id: str) -> Response[str]:
    """How far one is."""
    return page(here, "batch.html", batch=here.context.batches.get(batch_id))


@action("bulk", "/batches/{batch_id:str}/stop")
async def batch_stop(here: Here, batch_id: str) -> Response[str]:
    """Have it end after the run that it is at."""
    stopped = await stop_batch(here.context, batch_id, reason=reason_of(await here.form()))
    return done(here, f"stopped after {stopped.done:,} of {stopped.total:,} runs", to=here.url(f"/batches/{batch_id}"))


async def _asked(here: Here, form: Form, ids: tuple[str, ...]) -> Response[str]:
    spec = _spec(form)
    selection = _selection(form, ids)
    # What a dry run looks at needs no priority; the form that follows asks for it.
    request = BatchRequest(
        action=spec.name, selection=selection, priority="normal" if spec.name == "priority" else None
    )
    query = selection.query or RunQuery()
    return page(
        here,
        "batch_new.html",
        spec=spec,
        verbs=bulk_verbs(here),
        ids=ids,
        params=query.to_params(),
        chips=query.chips(),
        preview=await preview(here.context, request),
        back_to=checked_target(here, form.get("back")) if ids else here.url("/runs", query.to_params()),
    )


def _selection(form: Form, ids: tuple[str, ...]) -> Selection:
    if ids:
        return Selection(ids=ids)
    given = pairs(form, without=(*NOT_OURS, "priority", "cursor"))
    return Selection(query=parse_query(given))


def _spec(form: Form) -> ActionSpec:
    name = form.get("verb", FIRST)
    spec = ACTIONS.get(name)
    if spec is None or not spec.bulk:
        known = ", ".join(one.name for one in ACTIONS.values() if one.bulk)
        raise BadFields({"verb": f"{name[:40]!r} is nothing that is done to many runs at once: that is one of {known}"})
    return spec


HANDLERS = [batches_page, batch_form, runs_bulk, batch_start, batch_page, batch_stop]
