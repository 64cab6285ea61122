"""From a claimed row to a workflow that stands where its journal left it."""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Callable, Generator
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec

from runnerq.errors import ConfigurationError, DecodingError
from runnerq.persistence.records import Claimed, Stuck
from runnerq.runtime.calls import check_child
from runnerq.runtime.parts import Parts
from runnerq.runtime.registry import Target
from runnerq.workflow.context import Context, Info
from runnerq.workflow.ending import Blocked
from runnerq.workflow.interpreter import Identity, Interpreter
from runnerq.workflow.journal import RULES, Started

FIRST_RETRY = timedelta(minutes=1)


def interpreter_of(claimed: Claimed, parts: Parts) -> Interpreter:
    """An interpreter for the run, that has not begun."""
    identity = Identity(
        info=_info(claimed),
        body=_body(claimed, parts),
        modules=parts.modules,
        may_have_children=claimed.depth < parts.max_depth,
        check_child=partial(check_child, parts),
    )
    return Interpreter(identity, parts.codec)


def open_workflow(interpreter: Interpreter, claimed: Claimed, parts: Parts) -> None:
    """Replay the journal, or start the workflow. Raises Blocked."""
    now = parts.time.now()
    if not claimed.rows:
        started = Started(seed=secrets.token_hex(8), build=parts.build, version=claimed.version)
        interpreter.begin(started, max(now, claimed.created_at))
        return
    started = msgspec.json.decode(claimed.rows[0].value or "{}", type=Started)
    if started.rules > RULES:
        raise Blocked(
            f"its journal was written by rules {started.rules} of runnerq, and this worker knows rules {RULES}: "
            "a newer worker takes it up"
        )
    interpreter.replay(claimed.rows, now)


def timeout_of(claimed: Claimed, target: Target) -> float | None:
    """Seconds from its start after which a workflow is cancelled: as it was started, else as it is declared."""
    options = {} if claimed.options is None else msgspec.json.decode(claimed.options)
    timeout: float | None = options.get("timeout", target.declaration.timeout)
    return timeout


def stuck_by(blocked: Blocked, parts: Parts) -> Stuck:
    """The move of a run that cannot go on: a fault of the worker is tried again, one of the code waits for a build."""
    error = blocked.error
    text = None if error is None else "".join(traceback.format_exception(error))
    return Stuck(
        message=blocked.message,
        build=None if blocked.by_worker else parts.build,
        position=blocked.position,
        recorded=blocked.recorded,
        asked=blocked.asked,
        line=blocked.line,
        traceback=text,
        retry_at=parts.time.now() + FIRST_RETRY if blocked.by_worker else None,
    )


def _body(claimed: Claimed, parts: Parts) -> Callable[[Context], Generator[Any, Any, Any]]:
    def body(ctx: Context) -> Generator[Any, Any, Any]:
        target = parts.registry.get(claimed.kind, claimed.name, claimed.version)
        if target is None:
            raise ConfigurationError(f"workflow {claimed.name}@{claimed.version} is not registered here")
        what = f"the input of workflow {claimed.name!r}, run {claimed.id}"
        try:
            args, kwargs = parts.codec.decode_call(claimed.input, target.signature, what)
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
