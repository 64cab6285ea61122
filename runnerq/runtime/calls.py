"""What a command becomes when it is carried out: an attempt's call, a child run, a signal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from runnerq.errors import ConfigurationError, UsageError
from runnerq.persistence.records import Attempt, Claimed, NewRun, NewSignal
from runnerq.runtime.current import Current, idempotency_key
from runnerq.runtime.facts import StepFacts
from runnerq.runtime.ground import Ground
from runnerq.runtime.parts import Parts
from runnerq.runtime.registry import Target
from runnerq.runtime.results import Call
from runnerq.runtime.steps import Asking
from runnerq.workflow.commands import Command, SendSpec
from runnerq.workflow.given import check_due, check_name, checked_metadata, checked_priority, checked_time, together
from runnerq.workflow.options import CallOptions
from runnerq.workflow.tree import Leaf


class Lazily:
    """Text for an error message, made only if it is needed."""

    __slots__ = ("_leaf", "_run_id")

    def __init__(self, leaf: Leaf, run_id: str) -> None:
        self._leaf = leaf
        self._run_id = run_id

    def __str__(self) -> str:
        return f"the result of {self._leaf.command!r} (entry {self._leaf.position}) of run {self._run_id}"


def asking_of(leaf: Leaf, facts: StepFacts, current: Current) -> Asking:
    """Which attempt it was that has ended."""
    what = Lazily(leaf, current.run_id)
    details = current.said or current.before
    return Asking(leaf.position, leaf.command.name, what, facts.returns, current.attempt - 1, facts.bounds, details)


def call_of(
    leaf: Leaf, facts: StepFacts, claimed: Claimed, metadata: Mapping[str, Any], parts: Parts, last: Attempt | None
) -> Call:
    """The next attempt of a step, behind its last failed one."""
    command = leaf.command
    timeout = facts.bounds.timeout
    current = Current(
        run_id=claimed.id,
        workflow=claimed.name,
        name=leaf.asked.name,  # as recorded: a renamed step keeps its idempotency key
        entry=leaf.position,
        attempt=1 if last is None else last.number + 1,
        generation=claimed.generation,
        kind=command.kind,
        metadata=metadata,
        timeout=timeout,
        clock=parts.time.now,
        is_async=facts.is_async,
        claimed=claimed,
        means=parts.means,
        before=None if last is None else last.details,
    )
    if command.fn is None:
        raise AssertionError(f"step {leaf.position} has no function")
    return Call(command.fn, command.args, command.kwargs, facts.is_async, timeout, current)


def check_child(ground: Ground, command: Command[Any]) -> None:
    """Raise UsageError or EncodingError, for the user's line, if this can be no child."""
    if command.fn is None:
        raise AssertionError(f"{command!r} starts nothing")
    try:
        target = ground.registry.target(command.fn)
        _check_options(command.options)
    except ConfigurationError as error:
        raise UsageError(f"{command!r} cannot be asked for: {error}") from error
    if target.kind == "workflow" and command.options.retry is not None:
        raise UsageError(
            f"{command!r} takes no retry=: with the same answers the same code fails again. Give it to the steps inside"
        )
    _metadata(command, target, ground)


def _check_options(options: CallOptions) -> None:
    if options.queue is not None:
        check_name(options.queue, "queue=")
    if options.priority is not None:
        checked_priority(options.priority)
    if options.at is not None:
        checked_time(options.at)
    if options.metadata is not None:
        checked_metadata(options.metadata)
    check_due(options.at, options.delay)


def _metadata(command: Command[Any], target: Target, ground: Ground) -> str | None:
    metadata = together(getattr(target.declaration, "metadata", None), command.options.metadata)
    return ground.codec.encode(metadata, f"the metadata of {command!r}") if metadata else None


def child_run(leaf: Leaf, parent: Claimed, parts: Parts) -> NewRun:
    """The run that a ``child`` or ``spawn`` asked for. It inherits the priority, and the queue if it names none.

    A detached one does so too, and is otherwise no child: a root of its own, that nobody waits for and nobody cancels.
    """
    command, options = leaf.command, leaf.command.options
    if command.fn is None or command.payload is None or leaf.asked.child is None:
        raise AssertionError(f"{leaf!r} starts no run")
    target = parts.registry.target(command.fn)
    declared = target.declaration
    stored: dict[str, Any] = {}
    if options.timeout is not None:
        stored["timeout"] = options.timeout
    if options.retry is not None:
        stored["retry"] = msgspec.Raw(options.retry.to_json().encode())
    if options.parent_close is not None and not options.detached:
        stored["parent_close"] = options.parent_close
    priority = options.priority if options.priority is not None else declared.priority
    new = NewRun(
        id=leaf.asked.child,
        kind=target.kind,
        name=target.name,
        version=target.version,
        queue=options.queue or declared.queue or parent.queue,
        input=command.payload,
        priority=parent.priority if priority is None else priority,
        root_id=parent.root_id,
        parent_id=parent.id,
        parent_position=f"{parent.generation}/{leaf.position}",
        depth=parent.depth + 1,
        key=options.key,
        on_duplicate=options.on_duplicate or "return_existing",
        due_at=None if options.at is None else checked_time(options.at),
        due_in=options.delay,
        metadata=_metadata(command, target, parts),
        options=msgspec.json.encode(stored).decode() if stored else None,
        limit=options.limit,
    )
    if options.detached:
        new = msgspec.structs.replace(new, root_id=None, parent_id=None, parent_position=None, depth=0)
    return new


def signal_of(leaf: Leaf, claimed: Claimed) -> NewSignal:
    """The signal that a ``send`` asked for; its idempotency key makes sending it twice count once."""
    spec = leaf.command.spec
    if not isinstance(spec, SendSpec) or leaf.command.payload is None:
        raise AssertionError(f"{leaf!r} sends nothing")
    dedup = idempotency_key(claimed.id, claimed.generation, leaf.position, "send", leaf.asked.name)
    return NewSignal(run_id=spec.run_id, channel=leaf.command.name, value=leaf.command.payload, dedup=dedup)
