"""From a claimed row to a workflow that stands where its journal left it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec

from runnerq.errors import ConfigurationError, DecodingError, PayloadUnreadable, UsageError
from runnerq.persistence.records import Claimed, Stuck
from runnerq.runtime.calls import check_child
from runnerq.runtime.ground import Ground
from runnerq.runtime.registry import Target
from runnerq.serialization.foreign import said
from runnerq.telemetry.here import HERE, InWorkflow
from runnerq.workflow.context import Context, Info
from runnerq.workflow.ending import Blocked
from runnerq.workflow.identity import Drive
from runnerq.workflow.interpreter import Identity, Interpreter
from runnerq.workflow.journal import Started

FIRST_RETRY, LONGEST_RETRY = timedelta(minutes=1), timedelta(hours=1)
"""After a fault of the worker: the first wait, and the longest; each is twice the one before."""


def interpreter_of(claimed: Claimed, ground: Ground) -> Interpreter:
    """An interpreter for the run, that has not begun."""
    identity = Identity(
        info=_info(claimed),
        body=_body(claimed, ground),
        modules=ground.modules,
        may_have_children=claimed.depth < ground.max_depth,
        check_child=partial(check_child, ground),
        check_arguments=partial(_check_arguments, claimed, ground),
        drive=partial(_drive, claimed, ground),
        build=ground.build,
        build_seen=ground.build_seen,
    )
    return Interpreter(identity, ground.codec)


def _drive(claimed: Claimed, ground: Ground) -> Drive:
    """The context in which the run's code is called, marked for whoever logs there."""
    # A drive is a copy of the context that it is made in.
    token = HERE.set(InWorkflow(claimed.id, claimed.name, claimed.crashes + 1))
    try:
        return ground.drive(claimed.id)
    finally:
        HERE.reset(token)


def open_workflow(interpreter: Interpreter, claimed: Claimed, ground: Ground) -> None:
    """Replay the journal, or start the workflow. Raises Blocked."""
    now = ground.time.now()
    if not claimed.rows:
        started = Started(seed=ground.seed(claimed.id, claimed.generation), build=ground.build, version=claimed.version)
        interpreter.begin(started, max(now, claimed.created_at))
        return
    interpreter.replay(claimed.rows, now)


def timeout_of(claimed: Claimed, target: Target) -> float | None:
    """Seconds from its start after which a workflow is cancelled: as it was started, else as it is declared."""
    options = {} if claimed.options is None else msgspec.json.decode(claimed.options)
    timeout: float | None = options.get("timeout", target.declaration.timeout)
    return timeout


def unexpected(error: Exception) -> Blocked:
    """What blocks a run where something goes wrong that nobody has thought of: it must not stop the others."""
    return Blocked(f"{type(error).__name__}: {said(error)}", error=error)


def stuck_by(blocked: Blocked, claimed: Claimed, ground: Ground) -> Stuck:
    """The move of a run that cannot go on: a fault of the worker is tried again, one of the code waits for a build."""
    error = blocked.error
    # Its message names a payload and quotes none; what else a traceback has may.
    is_sealed = isinstance(error, PayloadUnreadable)
    text = None if error is None or is_sealed else "".join(traceback.format_exception(error))
    wait = min(FIRST_RETRY * 2 ** min(claimed.faults, 10), LONGEST_RETRY)
    return Stuck(
        message=blocked.message,
        build=None if blocked.by_worker else ground.build,
        position=blocked.position,
        recorded=blocked.recorded,
        asked=blocked.asked,
        line=blocked.line,
        traceback=text,
        retry_at=ground.time.now() + wait if blocked.by_worker else None,
        quotes=not is_sealed,
    )


def _target(claimed: Claimed, ground: Ground) -> Target:
    target = ground.registry.get(claimed.kind, claimed.name, claimed.version)
    if target is None:
        raise ConfigurationError(f"workflow {claimed.name}@{claimed.version} is not registered here")
    return target


def _check_arguments(claimed: Claimed, ground: Ground, arguments: str) -> None:
    """Raise UsageError, for the user's line, if a next generation could not be called with these."""
    try:
        ground.codec.decode_call(arguments, _target(claimed, ground).signature, "ctx.continue_as_new")
    except DecodingError as error:
        raise UsageError(f"{claimed.name} cannot be continued with these arguments: {error}") from error


def _body(claimed: Claimed, ground: Ground) -> Callable[[Context, str | None], Generator[Any, Any, Any]]:
    def body(ctx: Context, arguments: str | None) -> Generator[Any, Any, Any]:
        target = _target(claimed, ground)
        what = f"the input of workflow {claimed.name!r}, run {claimed.id}"
        try:
            args, kwargs = ground.codec.decode_call(arguments or claimed.input, target.signature, what)
        except DecodingError as error:
            raise Blocked(str(error), position="0", error=error) from error
        generator: Generator[Any, Any, Any] = target.fn(ctx, *args, **kwargs)
        return generator

    return body


def _info(claimed: Claimed) -> Info:
    return Info(
        id=claimed.id,
        workflow=claimed.name,
        version=claimed.version,
        key=claimed.key,
        queue=claimed.queue,
        parent_id=claimed.parent_id,
        root_id=claimed.root_id,
        generation=claimed.generation,
        metadata={} if claimed.metadata is None else msgspec.json.decode(claimed.metadata),
        created_at=claimed.created_at,
        entries=0,
    )
