"""``/batches``: changes to many runs, asked about before they begin and watched while they go on."""

from __future__ import annotations

from collections.abc import Mapping

from litestar import Response

from runnerq.console.actions.batches import BatchRequest, Selection, preview, start_batch, stop_batch
from runnerq.console.models.filters import BadFields, RunQuery, parse_query
from runnerq.console.pages.forms import NOT_OURS, Texts, bulk_verbs, pairs, reason_of, texts
from runnerq.console.table import ACTIONS, ActionSpec
from runnerq.console.web.context import Form, Here
from runnerq.console.web.guards import action, view
from runnerq.console.web.rendering import checked_target, done, go, page

FIRST = "cancel"
"""What is asked about where nothing was chosen yet."""
MANY = 100
"""Of more runs than this the number is typed before something is done that nothing brings back."""


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
    """Begin. What was not said for sure is asked again."""
    form = await here.form()
    spec = _spec(form)
    if wrong := _unsaid(spec, form):
        return await _asked(here, form, tuple(form.all("id")), wrong)
    request = BatchRequest(
        action=spec.name,
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


def _unsaid(spec: ActionSpec, form: Form) -> dict[str, str]:
    """What is missing in the form, by field: the reason for what is dangerous, and the number where it asks for it."""
    wrong = {}
    if spec.danger and reason_of(form) is None:
        wrong["reason"] = "say why: it is kept in the audit of each run"
    number = form.get("number")
    if number and form.get("typed").replace(",", "").rstrip("+") != number:
        wrong["typed"] = f"type {number} to say that so many are meant"
    return wrong


async def _asked(here: Here, form: Form, ids: tuple[str, ...], wrong: Mapping[str, str] | None = None) -> Response[str]:
    spec = _spec(form)
    selection = _selection(form, ids)
    # What a dry run looks at needs no priority; the form that follows asks for it.
    request = BatchRequest(
        action=spec.name, selection=selection, priority="normal" if spec.name == "priority" else None
    )
    query = selection.query or RunQuery()
    found = await preview(here.context, request)
    return page(
        here,
        "batch_new.html",
        status_code=422 if wrong else 200,
        wrong=Texts(wrong or {}),
        given=texts(form),
        # Of what nothing brings back: of all that there is, and of many, the number is typed.
        asks_number=spec.final and (found.count.n > MANY or not (ids or query.chips())),
        spec=spec,
        verbs=bulk_verbs(here),
        ids=ids,
        params=query.to_params(),
        chips=query.chips(),
        preview=found,
        back_to=checked_target(here, form.get("back")) if ids else here.url("/runs", query.to_params()),
    )


def _selection(form: Form, ids: tuple[str, ...]) -> Selection:
    if ids:
        return Selection(ids=ids)
    given = pairs(form, without=(*NOT_OURS, "priority", "cursor", "number", "typed"))
    return Selection(query=parse_query(given))


def _spec(form: Form) -> ActionSpec:
    name = form.get("verb", FIRST)
    spec = ACTIONS.get(name)
    if spec is None or not spec.bulk:
        known = ", ".join(one.name for one in ACTIONS.values() if one.bulk)
        raise BadFields({"verb": f"{name[:40]!r} is nothing that is done to many runs at once: that is one of {known}"})
    return spec


HANDLERS = [batches_page, batch_form, runs_bulk, batch_start, batch_page, batch_stop]
