"""``/schedules``: what starts runs by itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from litestar import Response

from runnerq.console.actions import fleet
from runnerq.console.actions.doing import Done
from runnerq.console.actions.schedules import Verb, change_schedules, counted
from runnerq.console.models.filters import BadFields
from runnerq.console.models.schedules import ScheduleView, schedule, schedules
from runnerq.console.models.taking import Misfit
from runnerq.console.models.types import types
from runnerq.console.names import quoted, unquoted
from runnerq.console.pages.forms import Reader, Texts, by_field, reason_of, texts
from runnerq.console.pages.sparks import spark
from runnerq.console.web.context import Form, Here
from runnerq.console.web.guards import action, view
from runnerq.console.web.rendering import done, page
from runnerq.console.web.words import span
from runnerq.errors import ConfigurationError

BLANK = {"zone": "UTC", "overlap": "skip", "missed": "once"}


@view("/schedules")
async def schedules_page(here: Here) -> Response[str]:
    """All of them."""
    found = await schedules(here.context)
    lines = {one.name: spark(one.last_runs, span) for one in found}
    return page(here, "schedules.html", schedules=found, lines=lines)


@view("/schedules/{name:str}")
async def schedule_page(here: Here, name: str) -> Response[str]:
    """One: its rule, its next ticks and its last runs."""
    one = await schedule(here.context, unquoted(name))
    return page(here, "schedule.html", one=one, line=spark(one.last_runs, span))


@view("/schedule")
async def schedule_form(here: Here) -> Response[str]:
    """The form for a new one, or for one that there is: ``?name=``."""
    name = here.query.exactly("name")
    here.principal.need("schedule.write")
    if name:
        return await _form_page(here, _given(await schedule(here.context, name)), known=True)
    return await _form_page(here, Texts(BLANK | texts(here.query)), known=False)


@action("schedule.write", "/schedule")
async def schedule_put(here: Here) -> Response[str]:
    """Create or change one. A form with something wrong in it comes back as it was typed; that for one which somebody
    else has changed meanwhile, with what it has become, and beside that what was typed."""
    form = await here.form()
    try:
        told = await _save(here, form)
    except (BadFields, ConfigurationError) as error:
        if "seen" in by_field(error):
            return await _changed_meanwhile(here, form)
        given, errors = Texts(BLANK | texts(form)), Texts(by_field(error))
        return await _form_page(here, given, known="known" in form, errors=errors, misfit=isinstance(error, Misfit))
    to = here.url(f"/schedules/{quoted(form.get('name'))}")
    return done(here, told.told, to=to, tone="ok" if told.warning is None else "warn")


@action("schedule.write", "/schedules")
async def schedule_act(here: Here) -> Response[str]:
    """Pause, resume, trigger, backfill or delete one. Its name is a field: names may hold slashes."""
    form = await here.form()
    name, reason = form.exactly("name"), reason_of(form)
    to = form.get("back")
    told: Done
    match form.get("verb"):
        case "pause":
            told = await fleet.pause_schedule(here.context, name, reason=reason)
        case "resume":
            told = await fleet.resume_schedule(here.context, name, reason=reason)
        case "trigger":
            told = await fleet.trigger_schedule(here.context, name, reason=reason)
        case "backfill":
            reader = Reader(form)
            since, until = reader.moment("since", here), reader.moment("until", here)
            if since is None or until is None:
                raise BadFields(reader.errors)
            told = await fleet.backfill_schedule(here.context, name, since, until, reason=reason)
        case "delete":
            told = await fleet.delete_schedule(here.context, name, reason=reason)
            to = here.url("/schedules")
        case verb:
            raise BadFields({"verb": f"{verb[:40]!r} is nothing that is done to a schedule"})
    return done(here, told.message, to=to, tone="ok" if told.changed else "warn")


@action("schedule.write", "/schedule/many")
async def schedules_act(here: Here) -> Response[str]:
    """Pause or resume those that were selected in the list: asked about first, and done when it is said for sure."""
    form = await here.form()
    verb, names = _verb(form), list(dict.fromkeys(form.all("id")))
    if not names:
        return done(here, "select some schedules first", to=here.url("/schedules"), tone="warn")
    if "sure" not in form:
        known = {info.name: info.paused_at is not None for info in await here.context.client.schedules.list()}
        rows = [(name, _becomes(verb, known.get(name))) for name in names]
        changing = sum(not becomes.stays for _, becomes in rows)
        many = counted(changing)
        return page(here, "schedules_many.html", verb=verb, rows=rows, changing=changing, many=many)
    told = await change_schedules(here.context, verb, names, reason=reason_of(form))
    return done(here, told.message, to=here.url("/schedules"), tone="ok" if len(told.changed) == len(names) else "warn")


class Becomes(msgspec.Struct, frozen=True):
    """What becomes of a schedule that was selected; ``stays`` as it is."""

    words: str
    stays: bool = True


def _becomes(verb: Verb, paused: bool | None) -> Becomes:
    if paused is None:
        return Becomes("there is none of this name any more")
    if paused is (verb == "pause"):
        return Becomes("stays as it is: paused already" if paused else "stays as it is: not paused")
    return Becomes("will be paused" if verb == "pause" else "will be resumed", stays=False)


def _verb(form: Form) -> Verb:
    match form.get("verb"):
        case "pause" | "resume" as verb:
            return verb
        case other:
            raise BadFields({"verb": f"{other[:40]!r} is nothing that is done to many schedules: pause or resume"})


async def _changed_meanwhile(here: Here, form: Form) -> Response[str]:
    now = _given(await schedule(here.context, form.get("name")))
    typed = [(name, form.get(name)) for name in now if name not in ("name", "seen")]
    return await _form_page(
        here,
        Texts(now | {"reason": form.get("reason")}),
        known=True,
        typed=[(name, text or "nothing") for name, text in typed if _lines(text) != _lines(now[name])],
    )


async def _form_page(
    here: Here,
    given: Texts,
    *,
    known: bool,
    errors: Texts | None = None,
    misfit: bool = False,
    typed: Sequence[tuple[str, str]] | None = None,
) -> Response[str]:
    taken = not known and errors is not None and "name" in errors and bool(given["name"])
    return page(
        here,
        "schedule_form.html",
        status_code=409 if typed is not None else 422 if errors else 200,
        typed=typed,
        taken=taken and await here.context.client.schedules.get(given["name"]) is not None,
        given=given,
        known=known,
        errors=errors or Texts(),
        misfit=misfit,
        names=[each.name for each in await types(here.context)],
    )


async def _save(here: Here, form: Form) -> Done:
    if "known" not in form:
        request = msgspec.structs.replace(_request(form), create_only=True)
        return await fleet.put_schedule(here.context, request, reason=reason_of(form))
    # Arguments are shown masked, and perhaps cut: where nobody has touched them, those that are stored are meant.
    shown = _given(await schedule(here.context, form.get("name")))["args"]
    kept = _lines(form.get("args")) == _lines(shown)
    request = msgspec.structs.replace(_request(_without_args(form) if kept else form), seen=_seen(form))
    change = fleet.ScheduleChange(request=request, args="kept" if kept else "given")
    return await fleet.change_schedule(here.context, change, reason=reason_of(form))


def _seen(form: Form) -> datetime:
    """When the schedule had last been changed that the form was made of; what no form of ours has is never."""
    try:
        return datetime.fromisoformat(form.get("seen"))
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)


def _lines(text: str) -> list[str]:
    """The lines of a text: forms have other ends of lines than what they were given."""
    return text.strip().splitlines()


def _without_args(form: Form) -> Form:
    return Form({name: values for name, values in form.fields.items() if name != "args"})


def _request(form: Form) -> fleet.ScheduleRequest:
    reader = Reader(form)
    request = fleet.ScheduleRequest(
        name=form.get("name"),
        workflow=form.get("workflow"),
        args=reader.json_list("args"),
        cron=form.get("cron") or None,
        every=reader.number("every", "number of seconds"),
        zone=form.get("zone") or "UTC",
        missed=form.get("missed") or "once",
        overlap=form.get("overlap") or "skip",
        jitter=reader.number("jitter", "number of seconds"),
        queue=form.get("queue") or None,
        priority=form.get("priority") or None,
        unchecked="unchecked" in form,
    )
    for field, value in (("name", request.name), ("workflow", request.workflow)):
        if not value:
            reader.errors[field] = "this is missing"
    reader.check()
    return request


def _given(one: ScheduleView) -> Texts:
    options = dict(one.options)
    return Texts(
        name=one.name,
        seen=one.changed_at.isoformat(),
        workflow=one.workflow,
        args="" if one.args is None else one.args.text,
        cron=one.cron or "",
        every="" if one.every is None else f"{one.every:g}",
        zone=one.zone,
        overlap=one.overlap,
        missed=one.missed,
        jitter=f"{one.jitter:g}" if one.jitter else "",
        queue=str(options.get("queue") or ""),
        priority=str(msgspec.to_builtins(options.get("priority")) or ""),
    )


HANDLERS = [schedules_page, schedule_page, schedule_form, schedule_put, schedule_act, schedules_act]
