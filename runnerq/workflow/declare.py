"""``@workflow`` and ``@activity``: identity decorators that write what a function is into an attribute of it.

Rules
- The decorated function is returned as it came: it stays callable, typed and picklable, and there is no registry.
- None means "not given": call options beat these, these beat the defaults.
- Options travel with the function through ``functools.wraps``, ``partial`` and bound methods.
- A function is refused here if no run of it could ever work; annotations are judged when a worker or client takes it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, TypeAlias, TypeVar, cast, overload

import msgspec

from runnerq.errors import ConfigurationError, UsageError
from runnerq.retry import RetryPolicy, seconds
from runnerq.serialization.signatures import layers, returns_generator, source_line
from runnerq.workflow.given import check_name, checked_metadata, checked_priority

if TYPE_CHECKING:
    from runnerq.workflow.commands import Flow
    from runnerq.workflow.context import Context

FActivity = TypeVar("FActivity", bound=Callable[..., Any])
FWorkflow = TypeVar("FWorkflow", bound="Callable[Concatenate[Context, ...], Flow[Any]]")

_WORKFLOW = "__runnerq_workflow__"
_ACTIVITY = "__runnerq_activity__"
_NOT_GIVEN: Any = object()


class Hook(msgspec.Struct, frozen=True, omit_defaults=True):
    """The activity that is queued when a run becomes a dead letter: its name, and what it is declared with, if that is
    known where it was named."""

    name: str
    queue: str | None = None
    priority: int | None = None


class WorkflowDeclaration(msgspec.Struct, frozen=True):
    """What ``@workflow`` said. ``timeout`` is seconds from the run's start."""

    name: str
    version: int = 1
    timeout: float | None = None
    queue: str | None = None
    priority: int | None = None
    metadata: Mapping[str, str] | None = None
    on_dead_letter: Hook | None = None


class ActivityDeclaration(msgspec.Struct, frozen=True):
    """What ``@activity`` said. ``timeout`` is seconds an attempt."""

    name: str
    retry: RetryPolicy | None = None
    timeout: float | None = None
    queue: str | None = None
    priority: int | None = None
    on_dead_letter: Hook | None = None


Declaration: TypeAlias = WorkflowDeclaration | ActivityDeclaration


@overload
def workflow(fn: FWorkflow, /) -> FWorkflow: ...
@overload
def workflow(
    *,
    name: str | None = None,
    version: int = 1,
    timeout: float | timedelta | None = None,
    queue: str | None = None,
    priority: int | None = None,
    on_dead_letter: Callable[..., Any] | str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Callable[[FWorkflow], FWorkflow]: ...
def workflow(  # the options of a workflow are its arguments
    fn: Any = _NOT_GIVEN,
    /,
    *,
    name: str | None = None,
    version: int = 1,
    timeout: float | timedelta | None = None,
    queue: str | None = None,
    priority: int | None = None,
    on_dead_letter: Callable[..., Any] | str | None = None,
    metadata: Mapping[str, str] | None = None,
    **unknown: Any,
) -> Any:
    """Declare a workflow: a generator function ``(ctx, *args) -> Flow[R]``. Bare, or with options.

    ``timeout`` is a deadline from the run's start. ``version`` tells apart what runs under one name.
    ``on_dead_letter`` is an activity, or the name of one, that is queued with a ``DeadLetter`` when a run becomes one.
    Raises ConfigurationError for what can never run: a coroutine function, a function that makes no generator.
    """
    if "retry" in unknown:
        raise ConfigurationError(
            "@workflow takes no retry=: with the same answers the same code fails again. Give it to the activities, "
            "or to a step with ctx.options(retry=...)"
        )
    _refuse_unknown("workflow", unknown)

    def declare(function: Any) -> Any:
        _check_workflow(function)
        declared = WorkflowDeclaration(
            name=_name(function, name, "workflow"),
            version=_version(version),
            timeout=_timeout(timeout, "workflow"),
            queue=_queue(queue, "workflow"),
            priority=None if priority is None else checked_priority(priority, "@workflow(priority=)"),
            metadata=None if metadata is None else checked_metadata(metadata, "@workflow(metadata=)"),
            on_dead_letter=_hook(on_dead_letter, "workflow"),
        )
        return _attach(function, _WORKFLOW, declared)

    return declare if fn is _NOT_GIVEN else declare(fn)


@overload
def activity(fn: FActivity, /) -> FActivity: ...
@overload
def activity(
    *,
    name: str | None = None,
    retry: RetryPolicy | int | None = None,
    timeout: float | timedelta | None = None,
    queue: str | None = None,
    priority: int | None = None,
    on_dead_letter: Callable[..., Any] | str | None = None,
) -> Callable[[FActivity], FActivity]: ...
def activity(  # the options of an activity are its arguments
    fn: Any = _NOT_GIVEN,
    /,
    *,
    name: str | None = None,
    retry: RetryPolicy | int | None = None,
    timeout: float | timedelta | None = None,
    queue: str | None = None,
    priority: int | None = None,
    on_dead_letter: Callable[..., Any] | str | None = None,
    **unknown: Any,
) -> Any:
    """Declare an activity: a plain function, sync or async, that may touch the world. Bare, or with options.

    ``retry=2`` means two attempts; ``timeout`` is for one attempt. ``on_dead_letter`` is another activity, or the name
    of one, that is queued with a ``DeadLetter`` when a run of this one becomes one; a step's attempts are its
    workflow's affair. Raises ConfigurationError for generator functions.
    """
    _refuse_unknown("activity", unknown)

    def declare(function: Any) -> Any:
        _check_activity(function)
        own_name = _name(function, name, "activity")
        hook = _hook(on_dead_letter, "activity")
        if hook is not None and hook.name == own_name:
            raise ConfigurationError(
                f"activity {own_name!r} names itself as on_dead_letter=: what it failed at would fail for ever. Name "
                "another activity"
            )
        declared = ActivityDeclaration(
            name=own_name,
            retry=None if retry is None else RetryPolicy.of(retry),
            timeout=_timeout(timeout, "activity"),
            queue=_queue(queue, "activity"),
            priority=None if priority is None else checked_priority(priority, "@activity(priority=)"),
            on_dead_letter=hook,
        )
        return _attach(function, _ACTIVITY, declared)

    return declare if fn is _NOT_GIVEN else declare(fn)


def declaration_of(fn: Callable[..., Any]) -> Declaration | None:
    """What the function was declared as, looking through wraps, partial and bound methods; None if it was not."""
    declared = getattr(fn, _ACTIVITY, None) or getattr(fn, _WORKFLOW, None)
    if declared is None and isinstance(fn, partial):
        return declaration_of(fn.func)
    return cast("Declaration | None", declared)


def callable_name(fn: Callable[..., Any]) -> str:
    """What a journal calls this function: its declared name, else ``__name__``. UsageError if it is no function."""
    declared = getattr(fn, _ACTIVITY, None) or getattr(fn, _WORKFLOW, None)
    if declared is not None:
        return cast("str", declared.name)
    name = getattr(fn, "__name__", None)
    if isinstance(name, str) and callable(fn):
        return name
    if isinstance(fn, partial):
        return callable_name(fn.func)
    if callable(fn):
        return type(fn).__name__
    raise UsageError(f"{fn!r} is not a function: give the function itself, and its arguments behind it")


def _check_workflow(fn: Any) -> None:
    if isinstance(fn, staticmethod | classmethod):
        fn = fn.__func__
    if not callable(fn):
        raise ConfigurationError(f"@workflow takes a generator function, not {fn!r}; options are given by keyword")
    found = layers(fn)
    name = callable_name(fn)
    for layer in found:
        if inspect.iscoroutinefunction(layer) or inspect.isasyncgenfunction(layer):
            raise ConfigurationError(
                f"workflow {name} ({source_line(fn)}) is an async function: write it with def and yield, and put what "
                "awaits into activities"
            )
    if not any(inspect.isgeneratorfunction(layer) for layer in found) and not returns_generator(fn):
        raise ConfigurationError(
            f"workflow {name} ({source_line(fn)}) makes no generator: it has no yield. Yield its commands "
            "(`receipt = yield from ctx.step(charge, order)`), or, if it does one thing only, make it an activity"
        )


def _check_activity(fn: Any) -> None:
    if isinstance(fn, staticmethod | classmethod):
        fn = fn.__func__
    if not callable(fn):
        raise ConfigurationError(f"@activity takes a function, not {fn!r}; options are given by keyword")
    for layer in layers(fn):
        if inspect.isgeneratorfunction(layer) or inspect.isasyncgenfunction(layer):
            raise ConfigurationError(
                f"activity {callable_name(fn)} ({source_line(fn)}) is a generator function, and a generator cannot be "
                "stored as a result: return a list, or decorate it with @workflow if it yields commands"
            )


def _attach(fn: Any, attribute: str, declared: Declaration) -> Any:
    try:
        setattr(fn, attribute, declared)
        # A static or class method gives out its function, which must carry the declaration too.
        if isinstance(fn, staticmethod | classmethod):
            setattr(fn.__func__, attribute, declared)
    except (AttributeError, TypeError):
        raise ConfigurationError(
            f"{fn!r} takes no attributes: wrap it in a function of your own and decorate that"
        ) from None
    return fn


def _name(fn: Any, given: str | None, kind: str) -> str:
    name = getattr(fn, "__name__", None) if given is None else given
    if name is None:
        raise ConfigurationError(f"{fn!r} has no name of its own: write @{kind}(name=...)")
    return check_name(name, f"the name of {kind} {getattr(fn, '__qualname__', fn)}")


def _version(version: Any) -> int:
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version < 2**31:
        raise ConfigurationError(f"@workflow(version={version!r}): expected a whole number from 1")
    return version


def _timeout(timeout: float | timedelta | None, kind: str) -> float | None:
    if timeout is None:
        return None
    value = seconds(timeout, f"@{kind}(timeout=)")
    if not value:
        raise ConfigurationError(f"@{kind}(timeout={timeout!r}) leaves no time to run: leave it out, or give more")
    return value


def _queue(queue: str | None, kind: str) -> str | None:
    return None if queue is None else check_name(queue, f"@{kind}(queue=)")


def _hook(given: Any, kind: str) -> Hook | None:
    what = f"@{kind}(on_dead_letter=)"
    if given is None:
        return None
    if isinstance(given, str):
        return Hook(check_name(given, what))
    declared = declaration_of(given) if callable(given) else None
    if not isinstance(declared, ActivityDeclaration):
        raise ConfigurationError(
            f"{what} is {given!r}: expected a function that is decorated with @activity, or the name of one"
        )
    return Hook(declared.name, declared.queue, declared.priority)


def _refuse_unknown(kind: str, unknown: Mapping[str, Any]) -> None:
    if unknown:
        raise ConfigurationError(f"@{kind} has no option {', '.join(sorted(unknown))}")
