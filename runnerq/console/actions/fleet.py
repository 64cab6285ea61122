"""What may be done to queues, schedules, limits and workers.

Each raises Forbidden, and what the client's verb raises: ScheduleNotFound, ConfigurationError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, cast

import msgspec

from runnerq.client.schedule import Schedule, ScheduleInfo, ScheduleOptions
from runnerq.console.actions.doing import Deed, Done, done
from runnerq.console.actions.runs import priority_of, unregistered
from runnerq.console.models.context import Context
from runnerq.console.models.filters import BadFields
from runnerq.console.models.redaction import MASK, Spot
from runnerq.console.models.taking import Misfit, is_registered, misfit_of_call
from runnerq.console.models.workers import WorkerNotFound
from runnerq.cron import Cron, zone_of
from runnerq.errors import ConfigurationError, ScheduleNotFound
from runnerq.persistence.records import Changed, Missed, Overlap
from runnerq.persistence.scheduling import rule_of
from runnerq.retry import RetryPolicy

OPTIONS = ("queue", "priority", "timeout", "metadata")
"""Those of a request that its runs are started with."""

_IDS_END = 1 << 63
"""No worker's id is as large: it is a bigint."""


class ScheduleRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule to create or replace, as ``Schedule`` takes it. ``priority`` is a name, ``options`` besides are not
    offered here. ``unchecked``: also where no registered version takes these arguments. ``create_only``: only where
    there is none of this name; ``seen``: only where the one there is was changed last at this time, its ``changed_at``.
    """

    name: str
    workflow: str
    args: Sequence[Any] = ()
    cron: str | None = None
    every: float | None = None
    zone: str = "UTC"
    missed: str = "once"
    overlap: str = "skip"
    jitter: float | None = None
    queue: str | None = None
    priority: str | None = None
    timeout: float | None = None
    metadata: Mapping[str, str] | None = None
    unchecked: bool = False
    create_only: bool = False
    seen: datetime | None = None


class ScheduleChange(msgspec.Struct, frozen=True, kw_only=True):
    """What is to become of a schedule that there is, as a form shows it: all that ``request`` says, but for its
    arguments where ``args`` is ``"kept"``. Options that the request does not have are kept as well."""

    request: ScheduleRequest
    args: Literal["given", "kept"] = "given"


class LimitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A limit to make or change: ``concurrency`` runs at once, ``rate`` in ``per`` seconds, or both."""

    scope: str
    concurrency: int | None = None
    rate: int | None = None
    per: float | None = None
    per_key: bool = False


async def pause_queue(context: Context, name: str, *, reason: str | None = None) -> Done:
    """Have no run of it taken up until it is resumed."""

    async def work() -> Done:
        known = any(queue.name == name for queue in await context.client.storage.queues())
        changed = await context.client.queues.pause(name)
        message = f"Queue {name} is paused: what is being worked on goes on" if changed else f"Queue {name} was paused"
        warning = None if known else f"No worker serves a queue {name!r}, and no run is on it so far"
        return Done(message=message, changed=changed, warning=warning)

    return await done(context, Deed(action="queue-pause", target=name, reason=reason), work)


async def resume_queue(context: Context, name: str, *, reason: str | None = None) -> Done:
    """End a pause."""

    async def work() -> Done:
        changed = await context.client.queues.resume(name)
        return Done(message=f"Queue {name} goes on" if changed else f"Queue {name} was not paused", changed=changed)

    return await done(context, Deed(action="queue-resume", target=name, reason=reason), work)


async def put_schedule(context: Context, request: ScheduleRequest, *, reason: str | None = None) -> Done:
    """Create or replace a schedule. BadFields for one that has what stands for a secret, instead of the secret."""

    async def work() -> Done:
        _check_seen(request, await context.client.schedules.get(request.name))
        return await _put(context, request, _options(request))

    return await done(context, _put_deed(request, reason), work)


async def change_schedule(context: Context, change: ScheduleChange, *, reason: str | None = None) -> Done:
    """Change a schedule, and keep of it what is not said. Raises ScheduleNotFound, and BadFields as well."""
    request = change.request

    async def work() -> Done:
        known = await context.client.schedules.get(request.name)
        if known is None:
            raise ScheduleNotFound(request.name)
        _check_seen(request, known)
        # What is kept is of the one that was read here.
        asked = msgspec.structs.replace(request, seen=known.changed_at)
        options: ScheduleOptions = {**_besides(known), **_options(request)}
        if change.args == "given":
            return await _put(context, asked, options)
        if known.sealed is not None:
            raise BadFields({"args": known.sealed})
        return await _saved(context, asked, known.args, options)

    return await done(context, _put_deed(request, reason), work)


async def pause_schedule(context: Context, name: str, *, reason: str | None = None) -> Done:
    """Have it start nothing until it is resumed."""

    async def work() -> Done:
        changed = await context.client.schedules.pause(name)
        return Done(message=f"Schedule {name} {'is' if changed else 'was'} paused", changed=changed)

    return await done(context, Deed(action="schedule-pause", target=name, reason=reason), work)


async def resume_schedule(context: Context, name: str, *, reason: str | None = None) -> Done:
    """End a pause."""

    async def work() -> Done:
        changed = await context.client.schedules.resume(name)
        message = f"Schedule {name} goes on with its next tick" if changed else f"Schedule {name} was not paused"
        return Done(message=message, changed=changed)

    return await done(context, Deed(action="schedule-resume", target=name, reason=reason), work)


async def trigger_schedule(context: Context, name: str, *, reason: str | None = None) -> Done:
    """Start one run of it now: ``run_id`` of the answer."""

    async def work() -> Done:
        run = await context.client.schedules.trigger(name)
        return Done(message=f"Started a run of schedule {name}", changed=True, run_id=run.id)

    return await done(context, Deed(action="schedule-trigger", target=name, reason=reason), work)


async def backfill_schedule(
    context: Context, name: str, since: datetime, until: datetime, *, reason: str | None = None
) -> Done:
    """Start a run for each tick of a past span that has none: ``count`` of the answer."""

    async def work() -> Done:
        if since >= until:
            raise BadFields({"until": "it is not after the time that it is to begin with: give the earlier one first"})
        count = await context.client.schedules.backfill(name, since, until)
        message = f"Started {count:,} run{'' if count == 1 else 's'} of schedule {name}"
        return Done(message=message, changed=count > 0, count=count)

    deed = Deed(action="schedule-backfill", target=name, reason=reason, request={"since": since, "until": until})
    return await done(context, deed, work)


async def delete_schedule(context: Context, name: str, *, reason: str | None = None) -> Done:
    """Delete it; its runs stay."""

    async def work() -> Done:
        if not await context.client.schedules.delete(name):
            raise ScheduleNotFound(name)
        return Done(message=f"Deleted schedule {name}", changed=True)

    return await done(context, Deed(action="schedule-delete", target=name, reason=reason), work)


async def set_limit(context: Context, request: LimitRequest, *, reason: str | None = None) -> Done:
    """Make or change a limit."""

    async def work() -> Done:
        if (request.rate is None) != (request.per is None):
            raise BadFields({"rate": "give both: how many, and in how many seconds"})
        if request.concurrency is None and request.rate is None:
            raise BadFields({"concurrency": "give how many run at once, or how many begin in so many seconds"})
        rate = None if request.rate is None or request.per is None else (request.rate, request.per)
        await context.client.limits.set(
            request.scope, concurrency=request.concurrency, rate=rate, per_key=request.per_key
        )
        return Done(message=f"Limit {request.scope} is set", changed=True)

    deed = Deed(action="limit-set", target=request.scope, reason=reason, request=msgspec.to_builtins(request))
    return await done(context, deed, work)


async def delete_limit(context: Context, scope: str, *, reason: str | None = None) -> Done:
    """End a limit."""

    async def work() -> Done:
        changed = await context.client.limits.delete(scope)
        return Done(message=f"Deleted limit {scope}" if changed else f"There is no limit {scope}", changed=changed)

    return await done(context, Deed(action="limit-delete", target=scope, reason=reason), work)


async def drain_worker(context: Context, worker_id: str, *, reason: str | None = None) -> Done:
    """Have a worker stop in order, as SIGTERM does: it claims no more, lets what runs end, and gives back the rest.

    Raises WorkerNotFound, also for one that has ended.
    """

    async def work() -> Done:
        known = worker_id.isdecimal() and int(worker_id) < _IDS_END
        changed = await context.client.storage.drain(int(worker_id)) if known else Changed.UNKNOWN
        if changed is Changed.UNKNOWN:
            raise WorkerNotFound(worker_id)
        was = "is asked to stop in order" if changed is Changed.CHANGED else "was asked already"
        return Done(message=f"Worker {worker_id} {was}", changed=changed is Changed.CHANGED)

    return await done(context, Deed(action="worker-drain", target=worker_id, reason=reason), work)


async def _put(context: Context, request: ScheduleRequest, options: ScheduleOptions) -> Done:
    if _has_mask(request.args):
        raise BadFields({"args": f"{MASK} stands where something was masked: write what is meant instead"})
    return await _saved(context, request, request.args, options)


async def _saved(context: Context, request: ScheduleRequest, args: Sequence[Any], options: ScheduleOptions) -> Done:
    if _has_mask(request.metadata):
        raise BadFields({"metadata": f"{MASK} stands where something was masked: write what is meant instead"})
    if not request.unchecked and (why := await misfit_of_call(context, request.workflow, args, {})):
        raise Misfit({"args": f"{request.workflow!r} does not take these arguments: {why}"})
    _check_rule(request)
    warning = None if await is_registered(context, request.workflow) else unregistered(request.workflow)
    schedule = _schedule(request, args, options)
    # Again, as it is put: somebody may have made or changed it meanwhile.
    changed = await context.client.schedules.put(schedule, check=lambda known: _check_seen(request, known))
    if not changed and _is_masked(context, request, args):
        # Whoever guesses what is masked is not told that they have found it: it counts from now as any other would.
        await _count_from_now(context, request.name)
        changed = True
    message = f"Saved schedule {request.name}" if changed else f"Schedule {request.name} is just so already"
    return Done(message=message, changed=changed, warning=warning)


async def _count_from_now(context: Context, name: str) -> None:
    storage = context.client.storage
    known = await storage.schedule(name)
    if known is not None:
        now = await storage.now()
        # Somebody who changes it at the same time has changed it.
        await storage.put_schedule(known.row, known.serial, now, rule_of(known.row, now).next(now))


def _is_masked(context: Context, request: ScheduleRequest, args: Sequence[Any]) -> bool:
    spot = Spot("schedule", "", request.workflow)
    shown = [list(args), {"metadata": request.metadata}]
    return any(context.redact(spot, each) != each for each in shown)


def _check_seen(request: ScheduleRequest, known: ScheduleInfo | None) -> None:
    if request.create_only and known is not None:
        raise BadFields({"name": f"there is a schedule {request.name!r} already: edit that one, or take another name"})
    if request.seen is not None and (known is None or known.changed_at != request.seen):
        was = "it is deleted" if known is None else f"it was changed at {known.changed_at.isoformat()}"
        raise BadFields({"seen": f"schedule {request.name!r} is not as it was seen: {was}. Look at it again"})


def _check_rule(request: ScheduleRequest) -> None:
    """Raise BadFields for what is wrong with when it is to tick, each in its own field."""
    errors: dict[str, str] = {}
    if bool(request.cron) == (request.every is not None):
        errors["every" if request.cron else "cron"] = "give a cron expression, or every so many seconds: one of the two"
    try:
        zone_of(request.zone)
    except ConfigurationError as error:
        errors["zone"] = str(error)
    try:
        if request.cron:
            Cron(request.cron)
    except ConfigurationError as error:
        errors["cron"] = str(error)
    if errors:
        raise BadFields(errors)


def _has_mask(value: Any) -> bool:
    return MASK.encode() in msgspec.json.encode(value)


def _put_deed(request: ScheduleRequest, reason: str | None) -> Deed:
    """What the audit has of it: options together, as they are shown of a schedule."""
    asked: dict[str, Any] = msgspec.to_builtins(request)
    options = {name: value for name in OPTIONS if (value := asked.pop(name)) is not None}
    for condition in ("unchecked", "create_only", "seen"):
        if not asked[condition]:
            del asked[condition]
    return Deed(
        action="schedule-put",
        target=request.name,
        reason=reason,
        request={**asked, "options": options or None},
        payloads={"args": "schedule", "options": "schedule"},
        workflow=request.workflow,
    )


def _besides(known: ScheduleInfo) -> ScheduleOptions:
    """The options of a schedule that a form does not show."""
    stored = known.options
    options: ScheduleOptions = {}
    if "metadata" in stored:
        options["metadata"] = stored["metadata"]
    if "timeout" in stored:
        options["timeout"] = stored["timeout"]
    if "retry" in stored:
        options["retry"] = RetryPolicy.from_json(msgspec.json.encode(stored["retry"]))
    if "limit" in stored:
        limit = stored["limit"]
        options["limit"] = limit if isinstance(limit, str) else (limit[0], limit[1])
    return options


def _options(request: ScheduleRequest) -> ScheduleOptions:
    options: ScheduleOptions = {}
    if request.queue:
        options["queue"] = request.queue
    if request.priority:
        options["priority"] = priority_of(request.priority)
    if request.timeout is not None:
        options["timeout"] = request.timeout
    if request.metadata:
        options["metadata"] = request.metadata
    return options


def _schedule(request: ScheduleRequest, args: Sequence[Any], options: ScheduleOptions) -> Schedule:
    return Schedule(
        request.name,
        request.workflow,
        tuple(args),
        cron=request.cron or None,
        every=request.every,
        zone=request.zone,
        missed=cast("Missed", request.missed),  # checked there
        overlap=cast("Overlap", request.overlap),
        jitter=request.jitter,
        options=options or None,
    )
