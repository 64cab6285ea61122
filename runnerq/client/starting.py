"""From a function or a name, arguments and options to the NewRun that is stored."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, assert_never

import msgspec

from runnerq.client.options import StartOptions
from runnerq.errors import ConfigurationError, DecodingError, DepthExceeded
from runnerq.ids import new_run_id
from runnerq.persistence.protocol import Reads
from runnerq.persistence.records import DEFAULT_QUEUE, Definition, Kind, NewRun, OnDuplicate, Parent, Priority
from runnerq.serialization.codec import Codec
from runnerq.serialization.signatures import Signature, signature_of, workflow_signature_of
from runnerq.workflow.declare import ActivityDeclaration, WorkflowDeclaration, declaration_of
from runnerq.workflow.given import checked_key, together

UNKNOWN_VERSION = 0
"""Of a workflow that was started by name before any worker had registered the name."""


class Input:
    """What is being encoded, as text only when it is needed: a start's arguments, or one tuple of ``start_many``."""

    __slots__ = ("index", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.index: int | None = None

    def __str__(self) -> str:
        return f"the input of {self.name}" + ("" if self.index is None else f", args[{self.index}] of start_many,")

    def refused(self, reason: object) -> TypeError:
        """These arguments cannot work."""
        which = "these arguments" if self.index is None else f"args[{self.index}] of start_many"
        return TypeError(f"{self.name} cannot be started with {which}: {reason}")


class Target(msgspec.Struct, frozen=True):
    """What is to be started, as declared; an activity has version 0, and so has a workflow that nobody knows yet.

    ``fn`` is None where it is known by name alone; ``queue`` and ``priority`` are where nothing is declared.
    """

    kind: Kind
    name: str
    version: int
    queue: str | None
    priority: int | None
    metadata: Mapping[str, str]
    returns: Any
    fn: Callable[..., Any] | None = None
    signature: Signature | None = None

    def encoded(self, args: tuple[Any, ...], kwargs: dict[str, Any], codec: Codec, what: Input) -> str:
        """The arguments as they are stored. TypeError if the function does not take them, or could not read them back:
        a run of them could only fail or block."""
        # What is read back at once, as all that the function takes by position, needs no other check.
        plain = not kwargs and self.signature is not None and self.signature.arguments is not None
        if not plain:
            self._bind(args, kwargs, what)
        text = codec.encode_call(args, kwargs, what)
        if self.signature is not None:
            try:
                codec.decode_call(text, self.signature, what)
            except DecodingError as error:
                if plain:
                    self._bind(args, kwargs, what)
                raise what.refused(str(error).removeprefix(f"{what}: ")) from error
        return text

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any], what: Input) -> None:
        takes = None if self.fn is None else _takes(self.fn)
        if takes is None:
            return
        context = (None,) if self.kind == "workflow" else ()
        try:
            takes.bind(*context, *args, **kwargs)
        except TypeError as error:
            raise what.refused(error) from None


def target_of(fn: Callable[..., Any]) -> Target:
    """The declared workflow or activity. ConfigurationError for a function that is neither."""
    declared = declaration_of(fn)
    match declared:
        case WorkflowDeclaration():
            return Target(
                kind="workflow",
                name=declared.name,
                version=declared.version,
                queue=declared.queue,
                priority=declared.priority,
                metadata=declared.metadata or {},
                returns=workflow_signature_of(fn).returns,
                fn=fn,
                signature=workflow_signature_of(fn),
            )
        case ActivityDeclaration():
            return Target(
                kind="activity",
                name=declared.name,
                version=0,
                queue=declared.queue,
                priority=declared.priority,
                metadata={},
                returns=signature_of(fn).returns,
                fn=fn,
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
    """What workers registered under this name: the highest version that a living one serves, else the highest.

    Where nothing is known it is a workflow without a version, which waits until a worker that knows the name adopts it.
    """
    if not name:
        raise ValueError("the name of what is to be started is a non-empty str")
    known = await reads.definitions(name)
    if not known:
        return Target("workflow", name, UNKNOWN_VERSION, None, None, {}, Any)
    return _defined(next((each for each in known if each.served), known[0]))


def _defined(definition: Definition) -> Target:
    options = {} if definition.options is None else msgspec.json.decode(definition.options, type=dict[str, Any])
    return Target(
        kind=definition.kind,
        name=definition.name,
        version=definition.version,
        # A definition names a queue also where none was declared.
        queue=None if definition.queue == DEFAULT_QUEUE else definition.queue,
        priority=options.get("priority"),
        metadata=options.get("metadata", {}),
        returns=Any,
    )


def _takes(fn: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(fn)
    except ValueError:
        return None  # written in C: its parameters are not known before it is called


class Family:
    """A parent, and how many children its client has started: each has a key of its own, the same at each attempt."""

    __slots__ = ("_started", "parent")

    def __init__(self, parent: Parent) -> None:
        self.parent = parent
        self._started = 0

    def keys(self, count: int) -> list[str]:
        """The keys of the next children, whether others are given to them or not.

        Drawn before anything is awaited: starts that go on side by side are to be numbered in the order of their calls.
        """
        first = self._started + 1
        self._started += count
        return [f"{self.parent.key}:{number}" for number in range(first, self._started + 1)]


class Template(msgspec.Struct, frozen=True):
    """Everything of a NewRun that does not change from one run of a bulk start to the next."""

    target: Target
    options: StartOptions
    metadata: str | None
    stored: str | None
    queue: str
    priority: int
    on_duplicate: OnDuplicate
    parent: Parent | None


def template(target: Target, options: StartOptions, parent: Parent | None = None) -> Template:
    """The target under these options, as a child of a run or not."""
    # What nobody knows yet may turn out to be an activity.
    if target.kind == "workflow" and target.version != UNKNOWN_VERSION and options.retry is not None:
        raise ConfigurationError(
            f"{target.name} is a workflow, and retry= is for activities: with the same answers the same code fails "
            "again. Give it to the steps with ctx.options(retry=...)"
        )
    if parent is not None and parent.depth >= parent.max_depth:
        raise DepthExceeded(parent.run_id, target.name)
    metadata = together(target.metadata, options.metadata)
    given = (options.priority, target.priority, None if parent is None else parent.priority)
    return Template(
        target=target,
        options=options,
        metadata=msgspec.json.encode(metadata).decode() if metadata else None,
        # What a step has started goes on when its run ends: an activity that hands out work returns before it is done.
        stored=options.stored() if parent is None else options.stored(parent_close="abandon"),
        queue=options.queue or target.queue or (DEFAULT_QUEUE if parent is None else parent.queue),
        priority=next((each for each in given if each is not None), Priority.NORMAL),
        on_duplicate=options.on_duplicate or "return_existing",
        parent=parent,
    )


def new_run(of: Template, codec: Codec, args: tuple[Any, ...], kwargs: dict[str, Any], key: str | None) -> NewRun:
    """A run with an id of its own. EncodingError names the argument that cannot be stored."""
    text = of.target.encoded(args, kwargs, codec, Input(of.target.name))
    return _new_run(of, text, key)


def inputs_of(of: Template, codec: Codec, every: Iterable[tuple[Any, ...]]) -> list[str]:
    """The arguments of many runs as they are stored. EncodingError and TypeError name the tuple by its index."""
    encoded, what = of.target.encoded, Input(of.target.name)
    inputs = []
    for index, args in enumerate(every):
        what.index = index
        if not isinstance(args, tuple | list):
            raise what.refused(f"each start has a tuple of arguments, not {args!r}")
        inputs.append(encoded(tuple(args), {}, codec, what))
    return inputs


def keys_of(keys: Iterable[str], count: int) -> list[str]:
    """A key for each of so many runs. ValueError for what can be none."""
    checked = [checked_key(key) for key in keys]
    if len(checked) != count:
        raise ConfigurationError(f"start_many got {count} tuples of arguments and {len(checked)} keys")
    return checked


def new_runs(of: Template, inputs: Sequence[str], keys: Sequence[str] | None, size: int) -> Iterator[list[NewRun]]:
    """The runs in order, so many at a time, made when they are asked for."""
    for first in range(0, len(inputs), size):
        texts = inputs[first : first + size]
        if keys is None:
            yield [_new_run(of, text, None) for text in texts]
        else:
            yield [_new_run(of, text, key) for text, key in zip(texts, keys[first:], strict=False)]


def _new_run(of: Template, text: str, key: str | None) -> NewRun:
    target, options = of.target, of.options
    run = NewRun(
        id=new_run_id(),
        kind=target.kind,
        name=target.name,
        version=target.version,
        queue=of.queue,
        input=text,
        priority=of.priority,
        key=key,
        on_duplicate=of.on_duplicate,
        due_at=options.at,
        due_in=options.delay,
        metadata=of.metadata,
        options=of.stored,
        limit=options.limit,
    )
    return run if of.parent is None else _child(run, of.parent)


def _child(run: NewRun, parent: Parent) -> NewRun:
    return msgspec.structs.replace(
        run,
        root_id=parent.root_id,
        parent_id=parent.run_id,
        parent_position=parent.position,
        depth=parent.depth + 1,
    )
