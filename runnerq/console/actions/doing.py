"""How an action is done: permission, the verb, a row in the audit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from runnerq.console.access import Forbidden
from runnerq.console.models.context import Context
from runnerq.console.models.filters import BadFields
from runnerq.console.models.redaction import Spot, SpotKind, mask
from runnerq.console.table import ACTIONS
from runnerq.errors import RunnerQError, StorageUnavailable

D = TypeVar("D", bound="Done")

log = logging.getLogger("runnerq.audit")

MOST_TOLD = 2_000
"""Characters of a reason or an outcome, and of what was asked for, that the audit keeps."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an action: ``message`` for the person, the run it is about (the new one, of a start or a fork), and
    whether anything changed. ``count`` is how many runs were started, where that is more than one. ``warning`` says why
    it may not be what was meant, though it was done."""

    message: str
    changed: bool
    run_id: str | None = None
    count: int | None = None
    warning: str | None = None

    @property
    def told(self) -> str:
        """The message, with the warning behind it."""
        return self.message if self.warning is None else f"{self.message}. {self.warning}"


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """An action on something: its name in ``ACTIONS``, what it is done to, and what the audit is to keep of it.

    ``payloads`` are those of what was asked for that are payloads, by their kind, ``workflow`` whose they are and
    ``name`` of what (a channel): so does what hides secrets know them. What is none is masked by its names alone.
    """

    action: str
    target: str | None = None
    run_id: str | None = None
    reason: str | None = None
    request: Mapping[str, Any] | None = None
    payloads: Mapping[str, SpotKind] = {}
    workflow: str = ""
    name: str = ""


async def done(context: Context, deed: Deed, work: Callable[[], Awaitable[D]]) -> D:
    """Do the work if whoever asks may, and write down what came of it.

    Raises Forbidden, BadFields for a reason that is missing, and what the work raises: what it was refused for is
    written down as well, and so is that it is not known whether it was done. Where the work was done and could not be
    written down, the error says so.
    """
    await admit(context, deed)
    try:
        answer = await work()
    except StorageUnavailable:
        raise  # nothing is known, and nothing can be written
    except (RunnerQError, ValueError, TypeError, LookupError) as refused:
        await record(context, deed, f"refused: {refused}")
        raise
    except (Exception, asyncio.CancelledError) as fault:
        # It may be done. Who is cancelled here writes it all the same.
        await asyncio.shield(asyncio.ensure_future(_record_unknown(context, deed, fault)))
        raise
    context.cache.forget()
    outcome = "done" if answer.changed else "nothing changed"
    if deed.run_id is not None and answer.run_id not in (None, deed.run_id):
        outcome = f"{outcome}: run {answer.run_id}"
    try:
        await record(context, deed, outcome, run_id=deed.run_id or answer.run_id)
    except StorageUnavailable as error:
        error.add_note(f"{answer.message}: that is done, and only the audit does not know of it.")
        raise
    return answer


async def admit(context: Context, deed: Deed) -> None:
    """Raise Forbidden, which is written down, or BadFields for a reason that is missing or too long."""
    spec = ACTIONS[deed.action]
    try:
        context.principal.need(spec.permission)
    except Forbidden as refused:
        await forbidden(context, refused, deed.action, target=deed.target, run_id=deed.run_id)
        raise
    if spec.needs_reason and not (deed.reason or "").strip():
        raise BadFields({"reason": "say why: it is written down"})
    if len(deed.reason or "") > MOST_TOLD:
        raise BadFields({"reason": f"it has more than {MOST_TOLD:,} characters"})


async def forbidden(
    context: Context, refused: Forbidden, action: str, *, target: str | None = None, run_id: str | None = None
) -> None:
    """Write down that somebody tried what they may not. The same is a line of the log each time, and a row of the audit
    once a minute: whoever may only look does not fill it. Raises nothing: the refusal is what is to be told."""
    log.warning("%r: %s of %r: forbidden, it needs %s", refused.principal, action, run_id or target, refused.permission)
    if not context.cache.is_new(("forbidden", refused.principal, action, target, run_id), within=60.0):
        return
    outcome = f"forbidden: it needs the permission {refused.permission!r}"
    try:
        await context.client.audit.record(
            refused.principal, action, outcome=outcome, target=_storable(target and target[:MOST_TOLD]), run_id=run_id
        )
    except Exception:
        log.exception("that %r was refused could not be written down", refused.principal)


async def record(context: Context, deed: Deed, outcome: str, *, run_id: str | None = None) -> None:
    """Write a row of the audit, and a line of the log: who hears of actions elsewhere hangs a handler on that."""
    what = run_id or deed.run_id or deed.target
    told = _told(context, deed, outcome)
    # Quoted: what people have typed makes no lines of its own.
    log.info("%r: %s of %r: %r (%r)", context.principal.name, deed.action, what, told, deed.reason or "no reason")
    await context.client.audit.record(
        context.principal.name,
        deed.action,
        outcome=told,
        target=_storable(deed.target),
        run_id=run_id or deed.run_id,
        reason=_storable(deed.reason) or None,
        request=_kept(context, deed),
    )


async def _record_unknown(context: Context, deed: Deed, fault: BaseException) -> None:
    try:
        await record(context, deed, f"not known: {type(fault).__name__}")
    except Exception:
        log.exception("%s of %r: it may be done, and the audit does not know of it", deed.action, deed.target)


def _told(context: Context, deed: Deed, outcome: str) -> str:
    """What came of it. What was refused may quote what was given."""
    try:
        shown = str(context.redact(Spot("error", deed.run_id or "", deed.workflow), outcome))
    except Exception:
        log.exception("what hides secrets has failed on an outcome")
        head, _, rest = outcome.partition(":")
        shown = f"{head} (the rest is not kept: what hides secrets has failed on it)" if rest else head
    return (_storable(shown) or "")[:MOST_TOLD]


def _kept(context: Context, deed: Deed) -> Any:
    """What was asked for, with secrets masked; of what is large its beginning, as text."""
    if deed.request is None:
        return None
    try:
        given = {name: value for name, value in msgspec.to_builtins(deed.request).items() if value is not None}
        shown = {name: _shown(context, deed, name, value) for name, value in given.items()}
        text = msgspec.json.encode(shown).decode()
    except UnicodeEncodeError:
        # Half of a surrogate pair: the verb refuses it, and no database keeps it.
        return "not kept: it holds a lone surrogate, which is no text"
    except Exception as fault:
        # What was done must have its row, whatever a function of somebody else's does.
        log.exception("what hides secrets has failed on what was asked for")
        return f"not kept: what hides secrets has failed on it ({type(fault).__name__})"
    return shown if len(text) <= MOST_TOLD else f"{text[:MOST_TOLD]}…"


def _shown(context: Context, deed: Deed, name: str, value: Any) -> Any:
    kind = deed.payloads.get(name)
    if kind is None:
        # By its name as well, as it stands in an object.
        return mask(Spot("error", deed.run_id or "", deed.workflow), {name: value})[name]
    return context.redact(Spot(kind, deed.run_id or "", deed.workflow, name=deed.name), value)


def _storable(text: str | None) -> str | None:
    """No database keeps a NUL in a text."""
    return None if text is None else text.replace("\0", "\ufffd")
