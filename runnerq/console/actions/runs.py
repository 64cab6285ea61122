"""What may be done to one run.

Each raises Forbidden, RunNotFound, WrongState (with the present status) and BadFields, and what the client's verb does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, cast, get_args

import msgspec

from runnerq.console.actions.doing import Deed, Done, admit, done
from runnerq.console.models.context import Context
from runnerq.console.models.filters import BadFields
from runnerq.console.models.payloads import Payload
from runnerq.console.models.records import record_of
from runnerq.console.models.redaction import SpotKind, show_all
from runnerq.console.models.run import whole_payload
from runnerq.console.models.taking import Misfit, is_registered, misfit_of_call, takes_of
from runnerq.errors import RunNotFound
from runnerq.ids import check_run_id
from runnerq.persistence.records import OnDuplicate, Priority, RunRecord, Status
from runnerq.workflow.given import check_name
from runnerq.workflow.reopening import ARGUMENTS

FASTER = "Nothing changed: somebody else was faster"


class StartRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A run to start. ``args`` and ``kwargs`` are JSON builtins; ``delay`` and ``timeout`` are seconds, ``priority`` is
    a name: ``critical``, ``high``, ``normal``, ``low``. ``limit`` is a scope, or a scope and a key. ``unchecked``:
    start it also where no registered version takes these arguments."""

    name: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = {}
    key: str | None = None
    on_duplicate: str | None = None
    queue: str | None = None
    delay: float | None = None
    at: datetime | None = None
    priority: str | None = None
    timeout: float | None = None
    metadata: Mapping[str, str] | None = None
    limit: tuple[str, ...] | str | None = None
    unchecked: bool = False


class Started(Done, frozen=True, kw_only=True):
    """A run that was started: ``created`` is False where its key was held by this one already."""

    created: bool


async def start(context: Context, request: StartRequest, *, reason: str | None = None) -> Started:
    """Start a run. KeyTaken, EncodingError, ConfigurationError or BadFields for what cannot be."""

    async def work() -> Started:
        name = check_name(request.name, "name")
        options = context.client.options(
            key=request.key or None,
            on_duplicate=_on_duplicate(request.on_duplicate),
            queue=request.queue or None,
            delay=request.delay,
            at=request.at,
            priority=None if not request.priority else priority_of(request.priority),
            timeout=request.timeout,
            metadata=request.metadata,
            limit=_limit(request.limit),
        )
        if not request.unchecked and (why := await misfit_of_call(context, name, request.args, request.kwargs)):
            raise Misfit({"args": f"{name!r} does not take these arguments: {why}"})
        warning = None if await is_registered(context, name) else unregistered(name)
        run = await options.start(name, *request.args, **request.kwargs)
        message = f"Started {name}" if run.created else f"Key {request.key!r} is held by this run already"
        return Started(message=message, changed=run.created, run_id=run.id, created=run.created, warning=warning)

    deed = Deed(
        action="start",
        target=request.name,
        reason=reason,
        request=_asked(request),
        payloads={"arguments": "input", "metadata": "metadata"},
        workflow=request.name,
    )
    return await done(context, deed, work)


async def send(
    context: Context,
    run_id: str,
    channel: str,
    value: Any,
    *,
    dedup: str | None = None,
    reason: str | None = None,
    unchecked: bool = False,
) -> Done:
    """Send a signal. Raises RunFinished too, and BadFields for an activity, which takes none, and for a value that the
    run's code is known not to take; ``unchecked`` sends that all the same."""

    async def work() -> Done:
        if not channel:
            raise BadFields({"channel": "name the channel"})
        record = await record_of(context, run_id)
        if record.kind == "activity":
            raise BadFields({"channel": f"run {run_id} is of an activity, which takes no signals"})
        takes = await takes_of(context, record)
        if takes is not None and not unchecked and (why := takes.misfit_of_signal(channel, value)):
            raise Misfit({"value": f"a wait for {channel!r} does not take this: {why}"})
        sent = await context.client.send(run_id, channel, value, dedup=dedup or None)
        message = f"Sent {channel!r}" if sent else f"{channel!r} was sent with dedup {dedup!r} before: nothing changed"
        warning = _unexpected(record, () if takes is None else tuple(takes.channels), channel)
        return Done(message=message, changed=sent, run_id=run_id, warning=warning)

    request = {"channel": channel, "value": value, "dedup": dedup}
    return await _on_run(context, "send", run_id, work, reason, request, {"value": "signal"}, channel)


async def cancel(context: Context, run_id: str, *, reason: str | None = None) -> Done:
    """Ask it to cancel."""

    async def work() -> Done:
        changed = await context.client.cancel(run_id, reason or None)
        if changed:
            return Done(message="Asked it to cancel", changed=True, run_id=run_id)
        status = (await context.client.info(run_id)).status
        why = f"it has ended as {status}" if status.ended else "it was asked before"
        return Done(message=f"Nothing changed: {why}", changed=False, run_id=run_id)

    return await _on_run(context, "cancel", run_id, work, reason)


async def terminate(context: Context, run_id: str, *, reason: str | None = None) -> Done:
    """End it at once."""

    async def work() -> Done:
        changed = await context.client.terminate(run_id)
        message = "Terminated it" if changed else "Nothing changed: it has ended already"
        return Done(message=message, changed=changed, run_id=run_id)

    return await _on_run(context, "terminate", run_id, work, reason)


async def retry(context: Context, run_id: str, *, accept: str | None = None, reason: str | None = None) -> Done:
    """Let it go on from what failed; ``accept="arguments"``: though arguments are others now."""

    async def work() -> Done:
        if accept not in (None, "", ARGUMENTS):
            raise BadFields({"accept": f"{accept!r}: only {ARGUMENTS!r} can be accepted"})
        changed = await context.client.retry(run_id, accept="arguments" if accept else None)
        return Done(message="It goes on" if changed else FASTER, changed=changed, run_id=run_id)

    return await _on_run(context, "retry", run_id, work, reason, {"accept": accept} if accept else None)


async def redrive(context: Context, run_id: str, *, reason: str | None = None) -> Done:
    """Let a dead letter go on."""

    async def work() -> Done:
        changed = await context.client.redrive(run_id) > 0
        return Done(message="It goes on" if changed else FASTER, changed=changed, run_id=run_id)

    return await _on_run(context, "redrive", run_id, work, reason)


async def run_now(context: Context, run_id: str, *, reason: str | None = None) -> Done:
    """Have what is delayed begin now."""

    async def work() -> Done:
        changed = await context.client.run_now(run_id)
        message = "It begins now" if changed else "Nothing changed: it is ready or running"
        return Done(message=message, changed=changed, run_id=run_id)

    return await _on_run(context, "run-now", run_id, work, reason)


async def reschedule(context: Context, run_id: str, at: datetime, *, reason: str | None = None) -> Done:
    """Have it become due at another time."""

    async def work() -> Done:
        changed = await context.client.reschedule(run_id, at)
        due = "It is due then" if at > await context.now() else "It is due at once: that time has passed"
        message = due if changed else "Nothing changed: it was due then"
        return Done(message=message, changed=changed, run_id=run_id)

    return await _on_run(context, "reschedule", run_id, work, reason, {"at": at})


async def set_priority(context: Context, run_id: str, priority: str, *, reason: str | None = None) -> Done:
    """Change its priority: ``critical``, ``high``, ``normal``, ``low``. BadFields for anything else."""

    async def work() -> Done:
        changed = await context.client.set_priority(run_id, priority_of(priority))
        message = f"Its priority is {priority}" if changed else f"Nothing changed: it has priority {priority}"
        return Done(message=message, changed=changed, run_id=run_id)

    return await _on_run(context, "priority", run_id, work, reason, {"priority": priority})


async def fork(context: Context, run_id: str, *, from_entry: str, reason: str | None = None) -> Done:
    """Start a new run with its history as far as this entry; ``run_id`` of the answer is the new one."""

    async def work() -> Done:
        try:
            forked = await context.client.fork(run_id, from_entry=from_entry)
        except ValueError as error:
            raise BadFields({"from_entry": str(error)}) from error
        return Done(message=f"Forked it from entry {from_entry}", changed=True, run_id=forked.id)

    return await _on_run(context, "fork", run_id, work, reason, {"from_entry": from_entry})


async def delete(context: Context, run_id: str, *, reason: str | None = None) -> Done:
    """Delete it, with all below it."""

    async def work() -> Done:
        changed = await context.client.delete(run_id)
        return Done(message="Deleted it, with all below it", changed=changed, run_id=run_id)

    return await _on_run(context, "delete", run_id, work, reason)


async def reveal(
    context: Context, run_id: str, which: str, *, entry: int | None = None, reason: str | None = None
) -> Payload:
    """One payload as it is, nothing masked, nothing cut; see ``models.run.whole_payload`` for ``which``."""
    seeing = msgspec.structs.replace(context, redact=show_all)
    shown: list[Payload] = []

    async def work() -> Done:
        shown.append(await whole_payload(seeing, run_id, which, entry=entry))
        return Done(message=f"Revealed the {which}", changed=True, run_id=run_id)

    await _on_run(context, "reveal", run_id, work, reason, {"which": which, "entry": entry})
    return shown[0]


def _unexpected(record: RunRecord, known: Collection[str], channel: str) -> str | None:
    """What is said of a signal that the run does not wait for, and is not known to come to wait for."""
    if channel in known or channel in record.waiting_signals:
        return None
    stays = "it stays in its mailbox until a wait takes it"
    if known:
        return f"No wait for {channel!r} is known of its code, but for {', '.join(map(repr, sorted(known)))}: {stays}"
    return f"The run does not wait for {channel!r} now: {stays}" if record.status is Status.WAITING else None


def unregistered(name: str) -> str:
    """What is said of a name that no worker has told of."""
    return f"No worker has registered {name!r} so far: its runs wait until one does"


def priority_of(name: str) -> Priority:
    """The priority of this name. Raises BadFields."""
    found = Priority.__members__.get(name.upper())
    if found is None:
        names = ", ".join(each.lower() for each in Priority.__members__)
        raise BadFields({"priority": f"{name!r} is no priority: there are {names}"})
    return found


async def _on_run(
    context: Context,
    action: str,
    run_id: str,
    work: Callable[[], Awaitable[Done]],
    reason: str | None,
    request: Mapping[str, Any] | None = None,
    payloads: Mapping[str, SpotKind] | None = None,
    name: str = "",
) -> Done:
    try:
        checked = check_run_id(run_id)
    except ValueError as error:
        await admit(context, Deed(action=action, target=run_id, reason=reason))
        raise RunNotFound(run_id) from error
    deed = Deed(action=action, run_id=checked, reason=reason, request=request)
    if payloads is not None:
        record = await context.client.storage.run(checked)
        workflow = "" if record is None else record.name
        deed = msgspec.structs.replace(deed, payloads=payloads, workflow=workflow, name=name)
    return await done(context, deed, work)


def _on_duplicate(text: str | None) -> OnDuplicate | None:
    if not text:
        return None
    if text not in get_args(OnDuplicate):
        raise BadFields({"on_duplicate": f"{text!r} is not one of {', '.join(get_args(OnDuplicate))}"})
    return cast("OnDuplicate", text)


def _limit(given: tuple[str, ...] | str | None) -> tuple[str, str] | str | None:
    match given:
        case None | () | "":
            return None
        case str():
            return given
        case (scope,):
            return scope
        case (scope, key):
            return (scope, key)
        case _:
            raise BadFields({"limit": "expected a scope, or a scope and a key"})


def _asked(request: StartRequest) -> dict[str, Any]:
    """What the audit keeps of a start: all that is not as by default. Arguments are as a run's input is stored."""
    asked: dict[str, Any] = msgspec.to_builtins(request)
    del asked["name"]
    args, kwargs = asked.pop("args"), asked.pop("kwargs")
    if not asked["unchecked"]:
        del asked["unchecked"]
    asked["arguments"] = {"args": args, "kwargs": kwargs} if kwargs else args
    return {name: value for name, value in asked.items() if value not in (None, [], (), {})}
