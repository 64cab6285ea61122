"""The type that a command's answer is decoded into: as its function or channel says, else JSON builtins."""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any

from runnerq.errors import ConfigurationError, UsageError
from runnerq.serialization.annotations import outermost_signature
from runnerq.serialization.signatures import (
    Signature,
    signature_of,
    transaction_signature_of,
    workflow_signature_of,
)
from runnerq.serialization.type_forms import check_type
from runnerq.workflow.commands import ATTEMPTED, Command, SignalSpec
from runnerq.workflow.declare import WorkflowDeclaration, callable_name, declaration_of


def answer_type(command: Command[Any]) -> Any:
    """A type form; Any where nothing is annotated. Raises ConfigurationError for what cannot be resolved."""
    spec = command.spec
    if isinstance(spec, SignalSpec):
        return spec.type
    if command.fn is not None:
        return _signature(command).returns
    if command.kind == "cancel":
        return bool
    return Any


def check_answer_type(command: Command[Any]) -> None:
    """Raise UsageError if this is asked with a function or type that could never answer."""
    try:
        type_ = answer_type(command)
        try:
            _decodable(type_)
        except TypeError:  # a type form that cannot be hashed
            _decodable.__wrapped__(type_)
    except ConfigurationError as error:
        raise UsageError(f"{command!r} cannot be asked for: {error}") from error
    if command.kind == "transaction" and command.fn is not None and not _signature(command).is_async:
        raise UsageError(
            f"{command!r} is given a function that is not async: it is to await what it does on its connection. Write "
            "`async def`, or make it a step"
        )
    if command.kind in ATTEMPTED and command.fn is not None and _signature(command).is_generator:
        raise UsageError(
            f"{command!r} is given a generator function: run it as a part of this workflow with `yield from`, as a "
            "branch with ctx.all, or as a run of its own with ctx.child"
        )


def check_arguments(command: Command[Any]) -> None:
    """Raise UsageError, for the user's line, if its function cannot be called with these arguments at all: each attempt
    could only fail, and its undos would run for a slip of the pen."""
    fn: Any = command.fn
    try:
        takes = _taken_by(fn)
    except TypeError:  # a callable that cannot be hashed
        takes = outermost_signature(fn)
    if takes is None:
        return
    is_workflow = command.kind not in ATTEMPTED and isinstance(declaration_of(fn), WorkflowDeclaration)
    context = (None,) if is_workflow or command.kind == "transaction" else ()
    try:
        takes.bind(*context, *command.args, **command.kwargs)
    except TypeError as error:
        raise UsageError(f"{command!r} is not what {callable_name(fn)}{takes} takes: {error}") from None


def _signature(command: Command[Any]) -> Signature:
    fn: Any = command.fn
    if command.kind == "transaction":
        return transaction_signature_of(fn)
    # A workflow's own reading leaves out its context, whose annotation need not be there at run time.
    if command.kind not in ATTEMPTED and isinstance(declaration_of(fn), WorkflowDeclaration):
        return workflow_signature_of(fn)
    return signature_of(fn)


@lru_cache(maxsize=1024)
def _taken_by(fn: Any) -> inspect.Signature | None:
    return outermost_signature(fn)


@lru_cache(maxsize=1024)
def _decodable(type_: Any) -> None:
    check_type(type_, "its answer")
