"""The type that a command's answer is decoded into: what its function or channel is annotated with, else JSON builtins."""

from __future__ import annotations

from typing import Any

from runnerq.serialization.signatures import signature_of
from runnerq.workflow.commands import Command, SignalSpec


def answer_type(command: Command[Any]) -> Any:
    """A type form; Any where nothing is annotated, None where nothing is answered."""
    spec = command.spec
    if isinstance(spec, SignalSpec):
        return spec.type
    if command.fn is not None:
        return signature_of(command.fn).returns
    if command.kind == "cancel":
        return bool
    return Any
