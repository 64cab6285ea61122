"""``/schedules``: what starts runs by itself."""

from __future__ import annotations

import msgspec
from litestar import Response

from runnerq.console.actions import fleet
from runnerq.console.actions.doing import Done
from runnerq.console.models.filters import BadFields
from runnerq.console.models.schedules import ScheduleView, schedule, schedules
from runnerq.console.names import quoted, unquoted
from runnerq.console.pages.forms import Reader, Texts, by_field, reason_of, texts
from runnerq.console.web.context import Form, Here
from runnerq.console.web.guards import action, view
from runnerq.console.web.rendering import done, page
from runnerq.errors import ConfigurationError

BLANK = {"zone": "UTC", "overlap": "skip", "missed": "once"}


@view("/schedules")
async def schedules_page(here: Here) -> Response[str]:
    """All of them."""
    return page(here, "schedules.html", schedules=await schedules(here.context))


@view("/schedules/{name:str}")
async def schedule_page(here: Here, name: str) -> Response[str]:
    """One: its rule, its next ticks and its last runs."""
    return page(here, "schedule.html", one=await schedule(here.context, unquoted(name)))


@view("/schedule")
async def schedule_form(here: Here) -> Response[str]:
    """The form for a new one, or for one that there is: ``?name=``."""
    name = here.query.exactly("name")
    here.principal.need("schedule.write")
    given = _given(await schedule(here.context, name)) if name else Texts(BLANK | texts(here.query))
    return page(here, "schedule_form.html", given=given, known=bool(name), errors=Texts())


@action("schedule.write", "/schedule")
async def schedule_put(here: Here) -> Response[str]:
    """Create or replace one; a form with something wrong in it comes back as it was typed."""
    form = await here.form()
    try:
        told = await _save(here, form)
    except (BadFields, ConfigurationError) as error:
        return page(
            here,
            "schedule_form.html",
            status_code=422,
            given=Texts(BLANK | texts(form)),
            known="known" in form,
            errors=Texts(by_field(error)),
        )
    return done(here, told.message, to=here.url(f"/schedules/{quoted(form.get('name'))}"))


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


async def _save(here: Here, form: Form) -> Done:
    if "known" not in form:
        return await fleet.put_schedule(here.context, _request(form), reason=reason_of(form))
    # Arguments are shown masked, and perhaps cut: where nobody has touched them, those that are stored are meant.
    shown = _given(await schedule(here.context, form.get("name")))["args"]
    kept = _lines(form.get("args")) == _lines(shown)
    request = _request(_without_args(form) if kept else form)
    change = fleet.ScheduleChange(request=request, args="kept" if kept else "given")
    return await fleet.change_schedule(here.context, change, reason=reason_of(form))


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


HANDLERS = [schedules_page, schedule_page, schedule_form, schedule_put, schedule_act]
