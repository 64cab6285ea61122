"""``/queues``, ``/workers``, ``/types`` and ``/limits``: what runs are worked on by."""

from __future__ import annotations

from litestar import Response

from runnerq.console.actions import fleet
from runnerq.console.models.filters import BadFields, RunQuery
from runnerq.console.models.limits import limits
from runnerq.console.models.queues import queue, queues
from runnerq.console.models.runs import list_runs
from runnerq.console.models.types import FEW, type_, types
from runnerq.console.models.workers import worker, workers
from runnerq.console.names import unquoted
from runnerq.console.pages.forms import Reader, reason_of
from runnerq.console.pages.overview import charts
from runnerq.console.web.context import Here
from runnerq.console.web.cookies import Tone
from runnerq.console.web.guards import action, view
from runnerq.console.web.rendering import done, page
from runnerq.persistence.records import Status

OPEN = tuple(status for status in Status if not status.ended)
MOST_RUNS = 20
"""Runs that the page of a worker shows."""


@view("/queues")
async def queues_page(here: Here) -> Response[str]:
    """All that are in use."""
    return page(here, "queues.html", queues=await queues(here.context))


@view("/queues/{name:str}")
async def queue_page(here: Here, name: str) -> Response[str]:
    """One, with what is open on it."""
    return page(here, "queue.html", view=await queue(here.context, unquoted(name)))


@action("queue.write", "/queues")
async def queue_act(here: Here) -> Response[str]:
    """Pause or resume one."""
    form = await here.form()
    name, reason = form.exactly("name"), reason_of(form)
    match form.get("verb"):
        case "pause":
            told = await fleet.pause_queue(here.context, name, reason=reason)
        case "resume":
            told = await fleet.resume_queue(here.context, name, reason=reason)
        case verb:
            raise BadFields({"verb": f"{verb[:40]!r} is nothing that is done to a queue"})
    tone: Tone = "ok" if told.changed and told.warning is None else "warn"
    return done(here, told.told, to=form.get("back"), tone=tone)


@view("/workers")
async def workers_page(here: Here) -> Response[str]:
    """Those that live, and those that have ended lately."""
    found = await workers(here.context)
    return page(here, "workers.html", workers=found, alive=sum(one.state == "alive" for one in found))


@view("/workers/{worker_id:str}")
async def worker_page(here: Here, worker_id: str) -> Response[str]:
    """One, with the runs that it is working on."""
    found = await worker(here.context, worker_id)
    runs = await list_runs(here.context, RunQuery(worker=int(found.id), limit=MOST_RUNS))
    return page(here, "worker.html", worker=found, runs=runs)


@action("worker.write", "/workers")
async def worker_act(here: Here) -> Response[str]:
    """Have one stop in order."""
    form = await here.form()
    verb = form.get("verb")
    if verb != "drain":
        raise BadFields({"verb": f"{verb[:40]!r} is nothing that is done to a worker"})
    told = await fleet.drain_worker(here.context, form.exactly("worker"), reason=reason_of(form))
    return done(here, told.message, to=form.get("back"), tone="ok" if told.changed else "warn")


@view("/types")
async def types_page(here: Here) -> Response[str]:
    """What workers have registered, and what open runs are of."""
    return page(here, "types.html", types=await types(here.context), open_statuses=OPEN)


@view("/types/{name:str}")
async def type_page(here: Here, name: str) -> Response[str]:
    """One, with its last day."""
    found = await type_(here.context, unquoted(name))
    ended, took = charts(here, found.day)
    return page(here, "type.html", few=FEW, view=found, ended=ended, took=took)


@view("/limits")
async def limits_page(here: Here) -> Response[str]:
    """All of them."""
    return page(here, "limits.html", limits=await limits(here.context))


@action("limit.write", "/limits")
async def limit_act(here: Here) -> Response[str]:
    """Set, change or delete one."""
    form = await here.form()
    scope, reason = form.get("scope"), reason_of(form)
    match form.get("verb"):
        case "set":
            reader = Reader(form)
            request = fleet.LimitRequest(
                scope=scope,
                concurrency=reader.whole("concurrency", "number of runs"),
                rate=reader.whole("rate", "number of runs"),
                per=reader.number("per", "number of seconds"),
                per_key="per_key" in form,
            )
            reader.check()
            told = await fleet.set_limit(here.context, request, reason=reason)
        case "delete":
            told = await fleet.delete_limit(here.context, form.exactly("scope"), reason=reason)
        case verb:
            raise BadFields({"verb": f"{verb[:40]!r} is nothing that is done to a limit"})
    return done(here, told.message, to=here.url("/limits"), tone="ok" if told.changed else "warn")


HANDLERS = [
    queues_page,
    queue_page,
    queue_act,
    workers_page,
    worker_page,
    worker_act,
    types_page,
    type_page,
    limits_page,
    limit_act,
]
