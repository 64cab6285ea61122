"""From a function or a name, arguments and options to the NewRun that is stored."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never

import msgspec

from runnerq.client.options import StartOptions
from runnerq.errors import ConfigurationError, DecodingError
from runnerq.ids import new_run_id
from runnerq.persistence.protocol import Reads
from runnerq.persistence.records import DEFAULT_QUEUE, Definition, Kind, NewRun, Priority
from runnerq.serialization.codec import Codec
from runnerq.serialization.signatures import Signature, signature_of, workflow_signature_of
from runnerq.workflow.declare import ActivityDeclaration, WorkflowDeclaration, declaration_of
from runnerq.workflow.given import checked_key


class Target(msgspec.Struct, frozen=True):
    """What is to be started, as declared; an activity has version 0. ``takes`` is None where it is not known."""

    kind: Kind
    name: str
    version: int
    queue: str
    priority: int
    metadata: Mapping[str, str]
    returns: Any
    takes: inspect.Signature | None = None
    signature: Signature | None = None

    def check_arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """TypeError if the function does not take these; a run of them could only fail."""
        if self.takes is None:
            return
        context = (None,) if self.kind == "workflow" else ()
        try:
            self.takes.bind(*context, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name} cannot be started with these arguments: {error}") from None

    def check_input(self, text: str, codec: Codec) -> None:
        """TypeError if what is stored cannot be read back as the function is annotated: the run would block."""
        if self.signature is not None:
            try:
                codec.decode_call(text, self.signature, f"the input of {self.name}")
            except DecodingError as error:
                raise TypeError(f"{self.name} cannot be started with these arguments: {error}") from error


def target_of(fn: Callable[..., Any]) -> Target:
    """The declared workflow or activity. ConfigurationError for a function that is neither."""
    declared = declaration_of(fn)
    match declared:
        case WorkflowDeclaration():
            return Target(
                kind="workflow",
                name=declared.name,
                version=declared.version,
                queue=declared.queue or DEFAULT_QUEUE,
                priority=Priority.NORMAL if declared.priority is None else declared.priority,
                metadata=declared.metadata or {},
                returns=workflow_signature_of(fn).returns,
                takes=_takes(fn),
                signature=workflow_signature_of(fn),
            )
        case ActivityDeclaration():
            return Target(
                kind="activity",
                name=declared.name,
                version=0,
                queue=declared.queue or DEFAULT_QUEUE,
                priority=Priority.NORMAL if declared.priority is None else declared.priority,
                metadata={},
                returns=signature_of(fn).returns,
                takes=_takes(fn),
                signature=signature_of(fn),
            )
        case None:
            raise ConfigurationError(
                f"{getattr(fn, '__qualname__', fn)!r} cannot be started: decorate it with @workflow (a generator "
                "function) or @activity, or give the name of one"
            )
        case _:
            assert_never(declared)


async def target_named(name: str, reads: Reads) -> Target:
    """What workers registered under this name: its highest version; a workflow of version 1 if nothing is known."""
    if not name:
        raise ValueError("the name of what is to be started is a non-empty str")
    known = await reads.definitions(name)
    if not known:
        return Target("workflow", name, 1, DEFAULT_QUEUE, Priority.NORMAL, {}, Any)
    return _defined(known[0])


def _defined(definition: Definition) -> Target:
    options = {} if definition.options is None else msgspec.json.decode(definition.options, type=dict[str, Any])
    return Target(
        kind=definition.kind,
        name=definition.name,
        version=definition.version,
        queue=definition.queue,
        priority=options.get("priority", Priority.NORMAL),
        metadata=options.get("metadata", {}),
        returns=Any,
    )


def _takes(fn: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(fn)
    except ValueError:
        return None  # written in C: its parameters are not known before it is called


class Template(msgspec.Struct, frozen=True):
    """Everything of a NewRun that does not change from one run of a bulk start to the next."""

    target: Target
    options: StartOptions
    metadata: str | None
    stored: str | None


def template(target: Target, options: StartOptions) -> Template:
    """The target under these options."""
    if target.kind == "workflow" and options.retry is not None:
        raise ConfigurationError(
            f"{target.name} is a workflow, and retry= is for activities: with the same answers the same code fails "
            "again. Give it to the steps with ctx.options(retry=...)"
        )
    metadata = {**target.metadata, **(options.metadata or {})}
    return Template(target, options, msgspec.json.encode(metadata).decode() if metadata else None, options.stored())


def new_run(of: Template, codec: Codec, args: Sequence[Any], kwargs: Mapping[str, Any], key: str | None) -> NewRun:
    """A run with an id of its own. EncodingError names the argument that cannot be stored."""
    target, options = of.target, of.options
    target.check_arguments(args, kwargs)
    text = codec.encode_call(tuple(args), dict(kwargs), f"the input of {target.name}")
    target.check_input(text, codec)
    return NewRun(
        id=new_run_id(),
        kind=target.kind,
        name=target.name,
        version=target.version,
        queue=options.queue or target.queue,
        input=text,
        priority=target.priority if options.priority is None else options.priority,
        key=None if key is None else checked_key(key),
        on_duplicate=options.on_duplicate or "return_existing",
        due_at=options.at,
        due_in=options.delay,
        metadata=of.metadata,
        options=of.stored,
    )
