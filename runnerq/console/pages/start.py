"""``/start``: a run started by hand."""

from __future__ import annotations

from typing import Any, get_args

from litestar import Response

from runnerq.console.actions.runs import StartRequest
from runnerq.console.actions.runs import start as start_run
from runnerq.console.models.filters import BadFields
from runnerq.console.models.redaction import MASK
from runnerq.console.models.run import run_detail, whole_payload
from runnerq.console.models.taking import Misfit
from runnerq.console.models.types import TypeNotFound, type_, types
from runnerq.console.pages.fields import json_of, moment_of, pairs_of, seconds_of
from runnerq.console.pages.forms import Texts, by_field, reason_of, texts
from runnerq.console.web.context import Form, Here
from runnerq.console.web.cookies import Tone
from runnerq.console.web.guards import action, view
from runnerq.console.web.rendering import done, page
from runnerq.errors import ConfigurationError, EncodingError, KeyTaken
from runnerq.persistence.records import OnDuplicate, Priority

PRIORITIES = (("", "as declared"), *((each.name.lower(), each.name.lower()) for each in Priority))
DUPLICATES = {
    "return_existing": "use that run",
    "no_reuse": "refuse",
    "allow_reuse": "start, take it over",
    "allow_reuse_on_failure": "the same, if it failed",
}
ON_DUPLICATE = tuple((each, DUPLICATES[each]) for each in get_args(OnDuplicate))

FIELDS = {"args": "arguments"}
"""What the action calls otherwise than the form."""


@view("/start")
async def start_form(here: Here) -> Response[str]:
    """An empty form, or one for a run of a type (``name=``), or like another (``like=``)."""
    here.principal.need("start")
    like = here.query.get("like") or None
    given = Texts(name=here.query.get("name")) if like is None else await _like(here, like)
    return await _form_page(here, given, like=like)


@action("start", "/start")
async def start(here: Here) -> Response[str]:
    """Start it, and go to its page."""
    form = await here.form()
    try:
        request = await _request(here, form)
        came = await start_run(here.context, request, reason=reason_of(form))
    except (BadFields, ConfigurationError, EncodingError, KeyTaken, TypeError, ValueError) as error:
        wrong = Texts({FIELDS.get(name, name): why for name, why in by_field(error).items()})
        misfit = isinstance(error, Misfit)
        return await _form_page(here, texts(form), like=form.get("like") or None, wrong=wrong, misfit=misfit)
    tone: Tone = "ok" if came.created and came.warning is None else "warn"
    return done(here, came.told, to=here.url(f"/runs/{came.run_id}"), tone=tone)


async def _form_page(
    here: Here, given: Texts, *, like: str | None, wrong: Texts | None = None, misfit: bool = False
) -> Response[str]:
    wrong = wrong or Texts()
    return page(
        here,
        "start.html",
        status_code=422 if wrong else 200,
        given=given,
        wrong=wrong,
        told=wrong[""],
        like=like,
        misfit=misfit,
        names=[each.name for each in await types(here.context)],
        schema=await _schema(here, given["name"]),
        PRIORITIES=PRIORITIES,
        ON_DUPLICATE=ON_DUPLICATE,
    )


async def _schema(here: Here, name: str) -> str | None:
    """What the type takes, if a worker has said so."""
    if not name:
        return None
    try:
        found = await type_(here.context, name)
    except TypeNotFound:
        return None
    return next((version.schema for version in found.type.versions if version.schema), None)


async def _like(here: Here, run_id: str) -> Texts:
    """The form for a run like this one. It has no key: that is the other one's."""
    detail = await run_detail(here.context, run_id)
    payload = None if detail.input is None else await whole_payload(here.context, run_id, "input")
    run, limit = detail.run, detail.limit
    return Texts(
        name=run.workflow,
        arguments="" if payload is None else payload.text,
        queue=run.queue,
        priority=run.priority,
        limit="" if limit is None else "/".join(filter(None, (limit.scope, limit.key))),
        metadata="\n".join(f"{name}={value}" for name, value in detail.metadata),
    )


async def _request(here: Here, form: Form) -> StartRequest:
    """What the form asks for. Raises BadFields with all that is wrong with it."""
    now = await here.context.now()
    errors: dict[str, str] = {}

    def read(name: str, by: Any, *more: Any) -> Any:
        try:
            return by(name, form.get(name), *more)
        except BadFields as bad:
            errors.update(bad.errors)
            return None

    args, kwargs = read("arguments", _call_of) or ((), {})
    scope, _, key = form.get("limit").partition("/")
    limit: tuple[str, ...] | str | None = (scope, key) if key else scope or None
    at = read("at", moment_of, now, here.tz) if form.get("at") else None
    timeout, metadata = read("timeout", seconds_of), read("metadata", pairs_of)
    if not form.get("name"):
        errors["name"] = "what is to be started?"
    if errors:
        raise BadFields(errors)
    chosen = form.get("key") or None
    return StartRequest(
        name=form.get("name"),
        args=args,
        kwargs=kwargs,
        key=chosen,
        on_duplicate=form.get("on_duplicate") or None if chosen else None,
        queue=form.get("queue") or None,
        at=at,
        priority=form.get("priority") or None,
        timeout=timeout,
        metadata=metadata,
        limit=limit,
        unchecked="unchecked" in form,
    )


def _call_of(field: str, text: str) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by position and by name, in the form in which a run's input is stored."""
    if MASK in text:
        raise BadFields({field: f"{MASK} stands where something was masked: write what is meant instead"})
    value = [] if not text else json_of(field, text)
    match value:
        case list():
            return value, {}
        case {"args": list() as args, "kwargs": dict() as kwargs} if len(value) == 2:
            return args, kwargs
        case _:
            raise BadFields({field: 'arguments are an array, or {"args": [...], "kwargs": {...}}'})


HANDLERS = [start_form, start]
