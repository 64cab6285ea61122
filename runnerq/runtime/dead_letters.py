"""The activity that is queued when a run becomes a dead letter, and what it is told.

Rules
- It is a run of its own, created in the commit that ends the other: no dead letter without it, and none twice. A run
  that is redriven and fails again has another.
- Whoever ends the run makes it: the worker that held it, or the one that ends what crashes again and again, which may
  not have the function and goes by the ``definition`` rows.
- It is never lost for what it is to be told: an input that cannot be carried is None.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from runnerq.errors import DecodingError, EncodingError
from runnerq.ids import new_run_id
from runnerq.persistence.records import Claimed, Definition, End, Kind, NewRun, RunRecord
from runnerq.runtime.callbacks import log, of_run
from runnerq.serialization.codec import Codec, encoded
from runnerq.serialization.failures import Failure, read
from runnerq.workflow.declare import Hook


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """What the ``on_dead_letter=`` activity of a run is called with.

    ``input`` is what the run was called with, as JSON builtins: a list of its arguments, or ``{"args": [...], "kwargs":
    {...}}`` where some were given by keyword; None if it is too large to be carried. ``attempts`` is how many attempts
    the activity had, or the step by which the workflow failed; crashes, where the reason is ``crash_loop``. ``reason``
    is ``attempts``, ``undo_failed`` or ``crash_loop``.
    """

    run_id: str
    name: str
    input: Any
    error: Failure | None
    attempts: int
    reason: str | None


class Dead(msgspec.Struct, frozen=True, kw_only=True):
    """A run that becomes a dead letter, as far as it matters here."""

    id: str
    name: str
    queue: str
    priority: int
    input: str | None

    @classmethod
    def of(cls, run: Claimed | RunRecord) -> Dead:
        return cls(id=run.id, name=run.name, queue=run.queue, priority=run.priority, input=run.input)


def hook_run(hook: Hook | None, dead: Dead, end: End, codec: Codec, *, crashes: int = 0) -> tuple[NewRun, ...]:
    """The run to be created with this end: none, unless it is a dead letter's and something is to be told of it."""
    if hook is None or end.status != "dead_letter":
        return ()
    error = None if end.error is None else _read(end.error, dead)
    letter = DeadLetter(
        run_id=dead.id,
        name=dead.name,
        input=_input(dead, codec),
        error=error,
        attempts=crashes or max((each.attempts for each in _chain(error)), default=0),
        reason=end.reason,
    )
    new = NewRun(
        id=new_run_id(),
        kind="activity",
        name=hook.name,
        version=0,
        queue=hook.queue or dead.queue,
        input=_encoded(letter, codec),
        priority=dead.priority if hook.priority is None else hook.priority,
    )
    return (new,)


def hook_in(definitions: Sequence[Definition], kind: Kind, version: int) -> Hook | None:
    """What the workers of this function have written about it."""
    for definition in definitions:
        if (definition.kind, definition.version) == (kind, version) and definition.options is not None:
            return _Options.read(definition.options).on_dead_letter
    return None


class _Options(msgspec.Struct, frozen=True):
    """What is read here of a definition's options."""

    on_dead_letter: Hook | None = None

    @staticmethod
    def read(text: str) -> _Options:
        return msgspec.json.decode(text, type=_Options)


def _chain(failure: Failure | None) -> Iterator[Failure]:
    if failure is not None:
        yield failure
        yield from _chain(failure.cause)
        for member in failure.members:
            yield from _chain(member)


def _read(text: str, dead: Dead) -> Failure | None:
    try:
        return read(text)
    except DecodingError as error:
        log.warning("run %s of %s: its on_dead_letter= activity is not told the error: %s", dead.id, dead.name, error,
                    extra=of_run(dead.id, dead.name))  # fmt: skip
        return None


def _input(dead: Dead, codec: Codec) -> Any:
    if dead.input is None:
        return None
    try:
        return codec.decode(dead.input, Any, f"the input of {dead.name!r}, run {dead.id}")
    except DecodingError as error:
        log.warning("run %s of %s: its on_dead_letter= activity is not told the input: %s", dead.id, dead.name, error,
                    extra=of_run(dead.id, dead.name))  # fmt: skip
        return None


def _encoded(letter: DeadLetter, codec: Codec) -> str:
    what = f"the dead letter of run {letter.run_id}"
    try:
        return codec.encode_call((letter,), {}, what)
    except EncodingError as error:
        log.warning("run %s of %s: its on_dead_letter= activity is not told the input: %s",
                    letter.run_id, letter.name, error, extra=of_run(letter.run_id, letter.name))  # fmt: skip
    # What is left is bounded, by what a failure's record may hold: whatever the limit, the hook is not lost for it.
    return encoded((msgspec.structs.replace(letter, input=None),), what).decode()
