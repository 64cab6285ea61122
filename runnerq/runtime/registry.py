"""Names and functions: what a worker serves, and what a workflow means by a function that it gives to ``ctx.child``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from runnerq.errors import ConfigurationError
from runnerq.persistence.records import DEFAULT_QUEUE, Definition, Kind, served_name
from runnerq.runtime.channels import channels_of
from runnerq.runtime.schemas import input_schema
from runnerq.serialization.codec import check_type
from runnerq.serialization.signatures import Signature, signature_of, workflow_signature_of
from runnerq.workflow.declare import (
    ActivityDeclaration,
    WorkflowDeclaration,
    activity,
    declaration_of,
    workflow,
)


class Target(msgspec.Struct, frozen=True):
    """A function as a thing that can be a run."""

    kind: Kind
    name: str
    version: int
    fn: Callable[..., Any]
    declaration: WorkflowDeclaration | ActivityDeclaration
    signature: Signature

    @property
    def served(self) -> str:
        return served_name(self.kind, self.name, self.version)


def target_of(fn: Callable[..., Any]) -> Target:
    """What a function is, as declared, or else by its kind: a generator function is a workflow.

    Raises ConfigurationError for one that can be neither, and for annotations that cannot be resolved.
    """
    declaration = declaration_of(fn)
    if declaration is None:
        declare: Any = workflow if signature_of(fn).is_generator else activity
        declaration = declaration_of(declare(fn))
    if isinstance(declaration, WorkflowDeclaration):
        signature = workflow_signature_of(fn)
        target = Target("workflow", declaration.name, declaration.version, fn, declaration, signature)
    elif isinstance(declaration, ActivityDeclaration):
        target = Target("activity", declaration.name, 0, fn, declaration, signature_of(fn))
    else:
        raise ConfigurationError(f"{fn!r} cannot be a run: decorate it with @rq.workflow or @rq.activity")
    for parameter in target.signature.parameters():
        check_type(parameter.type, f"parameter {parameter.name!r} of {target.name!r}")
    check_type(target.signature.returns, f"the result of {target.name!r}")
    return target


class Registry:
    """What a worker serves."""

    def __init__(self, workflows: Iterable[Callable[..., Any]], activities: Iterable[Callable[..., Any]]) -> None:
        self._targets: dict[str, Target] = {}
        self._by_fn: dict[Any, Target] = {}
        for fn in workflows:
            self._add(fn, "workflow")
        for fn in activities:
            self._add(fn, "activity")
        for target in self._targets.values():
            self._check_hook(target)

    def _add(self, fn: Callable[..., Any], kind: Kind) -> None:
        target = target_of(fn)
        if target.kind != kind:
            raise ConfigurationError(f"{target.name!r} is no {kind} but a {target.kind}: register it as one")
        same = self._targets.get(target.served)
        if same is not None and same.fn is not fn:
            raise ConfigurationError(
                f"{target.served!r} is registered twice, from {same.signature.source} and {target.signature.source}: "
                "give one of them another name= or version="
            )
        self._targets[target.served] = target
        self._by_fn[fn] = target

    def _check_hook(self, target: Target) -> None:
        """Whether what is queued for its dead letters, and for theirs, comes to an end, as far as it is known here."""
        seen = [target.name] if target.kind == "activity" else []
        hook = target.declaration.on_dead_letter
        while hook is not None:
            if hook.name in seen:
                raise ConfigurationError(
                    f"on_dead_letter= comes round to itself: {' -> '.join([*seen, hook.name])}: dead letters would "
                    "be queued for dead letters without end"
                )
            seen.append(hook.name)
            named = self.get("activity", hook.name, 0)
            if named is None and any(each.name == hook.name for each in self._targets.values()):
                raise ConfigurationError(
                    f"{target.name!r} names {hook.name!r} as on_dead_letter=, which is a workflow: name an activity"
                )
            hook = None if named is None else named.declaration.on_dead_letter

    def __len__(self) -> int:
        return len(self._targets)

    def served(self) -> tuple[str, ...]:
        return tuple(self._targets)

    def get(self, kind: Kind, name: str, version: int) -> Target | None:
        return self._targets.get(served_name(kind, name, version))

    def narrow(self, only: Iterable[Callable[..., Any] | str] | None) -> tuple[str, ...]:
        """The served names that ``only`` leaves; a name or function that is not registered is a ConfigurationError."""
        return self.served() if only is None else self.named(only, "only=")

    def named(self, functions: Iterable[Callable[..., Any] | str], what: str) -> tuple[str, ...]:
        """The served names of functions, given as themselves or by name; ConfigurationError for one that is none."""
        kept: dict[str, None] = {}
        for one in functions:
            found = [t.served for t in self._targets.values() if one in (t.fn, t.name, t.served)]
            if not found:
                name = one if isinstance(one, str) else getattr(one, "__name__", repr(one))
                raise ConfigurationError(
                    f"{what} names {name!r}, which is not registered: registered are {list(self._targets)}"
                )
            kept.update(dict.fromkeys(found))
        return tuple(kept)

    def target(self, fn: Callable[..., Any]) -> Target:
        """What a workflow means by ``fn``, registered here or not."""
        try:
            found = self._by_fn.get(fn)
        except TypeError:
            return target_of(fn)
        if found is None:
            found = self._by_fn[fn] = target_of(fn)
        return found

    def definitions(self, build: str) -> list[Definition]:
        return [
            Definition(
                kind=t.kind,
                name=t.name,
                version=t.version,
                queue=t.declaration.queue or DEFAULT_QUEUE,
                build=build,
                options=_options(t.declaration),
                schema=input_schema(t.signature, channels_of(t.fn) if t.kind == "workflow" else None),
            )
            for t in self._targets.values()
        ]

    def functions(self) -> list[Callable[..., Any]]:
        return [t.fn for t in self._targets.values()]


def _options(declaration: WorkflowDeclaration | ActivityDeclaration) -> str | None:
    options: dict[str, Any] = {}
    if declaration.timeout is not None:
        options["timeout"] = declaration.timeout
    if declaration.priority is not None:
        options["priority"] = int(declaration.priority)
    if declaration.on_dead_letter is not None:
        options["on_dead_letter"] = declaration.on_dead_letter
    if isinstance(declaration, WorkflowDeclaration) and declaration.metadata:
        options["metadata"] = dict(declaration.metadata)
    if isinstance(declaration, ActivityDeclaration) and declaration.retry is not None:
        options["retry"] = msgspec.Raw(declaration.retry.to_json().encode())
    return msgspec.json.encode(options).decode() if options else None
