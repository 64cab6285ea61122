"""What a run's pages do: a form each, answered by going back to the run, which then says what came of it.

Rules
- A verb that the run's state refuses is no error of the page: two people may act on one run at once, and the second is
  told what it has become.
- What was typed and cannot be taken is shown again where it was typed, with why.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from litestar import Response
from litestar.handlers import HTTPRouteHandler

from runnerq.console.actions import runs as verbs
from runnerq.console.actions.doing import Done
from runnerq.console.models.filters import BadFields
from runnerq.console.models.run import run_detail
from runnerq.console.pages.fields import json_of, moment_of, needed
from runnerq.console.pages.forms import reason_of, texts
from runnerq.console.pages.run import payload_values, signals_page, summary_page
from runnerq.console.pages.run_history import number_in
from runnerq.console.web.context import Form, Here
from runnerq.console.web.guards import action, view
from runnerq.console.web.rendering import done, page
from runnerq.errors import RunFinished, WrongState

Verb: TypeAlias = Callable[[Here, str, Form], Awaitable[Done]]
"""Given the run's id and what was filled in, does what the form asks for."""


async def told(here: Here, run_id: str, form: Form, work: Awaitable[Done]) -> Response[str]:
    """Do it, and go back to the page that the form was on."""
    try:
        came = await work
    except (WrongState, RunFinished) as refused:
        return done(here, str(refused), to=here.url(f"/runs/{run_id}"), tone="fail")
    back = form.get("back") or here.url(f"/runs/{run_id}")
    return done(here, came.told, to=back, tone="ok" if came.changed and came.warning is None else "warn")


def _verb(permission: str, name: str) -> Callable[[Verb], HTTPRouteHandler]:
    """Makes a function of the form the handler that goes back to where the form was."""

    def declared(verb: Verb) -> HTTPRouteHandler:
        async def answer(here: Here, run_id: str) -> Response[str]:
            form = await here.form()
            return await told(here, run_id, form, verb(here, run_id, form))

        answer.__name__, answer.__doc__ = verb.__name__, verb.__doc__
        return action(permission, f"/runs/{{run_id:str}}/{name}")(answer)

    return declared


@action("signal", "/runs/{run_id:str}/send")
async def run_send(here: Here, run_id: str) -> Response[str]:
    """A signal; one whose value is no JSON is shown again."""
    form = await here.form()
    try:
        channel = needed("channel", form.get("channel"))
        value = json_of("value", form.get("value"))
        sending = verbs.send(here.context, run_id, channel, value, unchecked="unchecked" in form)
        return await told(here, run_id, form, sending)
    except BadFields as bad:
        on_signals = form.get("back").partition("?")[0].endswith("/signals")
        # There is no page where the form was sent to: what this one links to as itself is where the form was.
        here.address = here.url(f"/runs/{run_id}{'/signals' if on_signals else ''}")
        shown = signals_page if on_signals else summary_page
        return await shown(here, run_id, typed=texts(form), wrong=bad)


@_verb("cancel", "cancel")
async def run_cancel(here: Here, run_id: str, form: Form) -> Done:
    """Ask it to cancel."""
    return await verbs.cancel(here.context, run_id, reason=reason_of(form))


@_verb("terminate", "terminate")
async def run_terminate(here: Here, run_id: str, form: Form) -> Done:
    """End it at once."""
    return await verbs.terminate(here.context, run_id, reason=reason_of(form))


@_verb("retry", "retry")
async def run_retry(here: Here, run_id: str, form: Form) -> Done:
    """Let it go on."""
    return await verbs.retry(here.context, run_id, accept=form.get("accept") or None, reason=reason_of(form))


@_verb("redrive", "redrive")
async def run_redrive(here: Here, run_id: str, form: Form) -> Done:
    """Let a dead letter go on."""
    return await verbs.redrive(here.context, run_id, reason=reason_of(form))


@_verb("reschedule", "run-now")
async def run_run_now(here: Here, run_id: str, form: Form) -> Done:
    """Have it begin now."""
    return await verbs.run_now(here.context, run_id, reason=reason_of(form))


@_verb("reschedule", "reschedule")
async def run_reschedule(here: Here, run_id: str, form: Form) -> Done:
    """Have it become due at another time."""
    at = moment_of("at", needed("at", form.get("at")), await here.context.now(), here.tz)
    return await verbs.reschedule(here.context, run_id, at, reason=reason_of(form))


@_verb("reschedule", "priority")
async def run_priority(here: Here, run_id: str, form: Form) -> Done:
    """Change who goes first."""
    return await verbs.set_priority(here.context, run_id, form.get("priority"), reason=reason_of(form))


@action("delete", "/runs/{run_id:str}/delete")
async def run_delete(here: Here, run_id: str) -> Response[str]:
    """Delete it, and go to the list: there is no page of it any more."""
    form = await here.form()
    try:
        came = await verbs.delete(here.context, run_id, reason=reason_of(form))
    except WrongState as refused:
        return done(here, str(refused), to=here.url(f"/runs/{run_id}"), tone="fail")
    return done(here, came.message, to=here.url("/runs"))


@view("/runs/{run_id:str}/fork")
async def run_fork_form(here: Here, run_id: str) -> Response[str]:
    """Asks from which entry, and why."""
    here.principal.need("fork")
    return await _fork_page(here, run_id, Form({"entry": [here.query.get("entry")]}), {})


@action("fork", "/runs/{run_id:str}/fork")
async def run_fork(here: Here, run_id: str) -> Response[str]:
    """Start the fork, and go to it."""
    form = await here.form()
    try:
        came = await verbs.fork(here.context, run_id, from_entry=form.get("entry"), reason=reason_of(form))
    except WrongState as refused:
        return done(here, str(refused), to=here.url(f"/runs/{run_id}"), tone="fail")
    except BadFields as bad:
        return await _fork_page(here, run_id, form, {"entry": "; ".join(bad.errors.values())})
    return done(here, came.message, to=here.url(f"/runs/{came.run_id}"))


@action("payload.reveal", "/runs/{run_id:str}/reveal")
async def run_reveal(here: Here, run_id: str) -> Response[str]:
    """One payload with nothing masked; who has looked, and why, is in the audit."""
    form = await here.form()
    which, entry = form.get("which", "input"), number_in(form.get("entry"))
    try:
        found = await verbs.reveal(here.context, run_id, which, entry=entry, reason=reason_of(form))
    except BadFields as bad:
        values = payload_values(run_id, which, entry, None, wrong=bad.errors)
        return page(here, "run_payload.html", status_code=422, **values)
    return page(here, "run_payload.html", **payload_values(run_id, which, entry, found, revealed=True))


async def _fork_page(here: Here, run_id: str, form: Form, wrong: dict[str, str]) -> Response[str]:
    detail = await run_detail(here.context, run_id)
    return page(
        here,
        "run_fork.html",
        status_code=422 if wrong else 200,
        run_id=run_id,
        workflow=detail.run.workflow,
        given=texts(form),
        wrong=texts(Form({name: [why] for name, why in wrong.items()})),
    )


HANDLERS = [
    run_send, run_cancel, run_terminate, run_retry, run_redrive, run_run_now, run_reschedule, run_priority, run_delete,
    run_fork_form, run_fork, run_reveal,
]  # fmt: skip
