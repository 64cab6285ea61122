"""Recorded answers as values, and recorded failures as new exceptions; Blocked where today's code cannot take them."""

from __future__ import annotations

from typing import Any

from runnerq.errors import ConfigurationError, DecodingError
from runnerq.serialization.codec import Codec
from runnerq.serialization.failures import CannotRebuild, read, rebuild, rebuild_in_any_case
from runnerq.workflow.commands import SignalSpec
from runnerq.workflow.ending import Blocked
from runnerq.workflow.tree import Leaf, Thrown, line_of
from runnerq.workflow.types import answer_type


def decoded(leaf: Leaf, text: str | None, codec: Codec) -> Any:
    """A recorded answer as its command's type. Raises Blocked if it does not fit any more."""
    if text is None or leaf.command.kind == "undo":
        return None
    try:
        return codec.decode(text, answer_type(leaf.command), leaf)
    except (DecodingError, ConfigurationError) as error:
        raise Blocked(
            f"position {leaf.position}: the recorded answer of {leaf.command!r} no longer fits: {error}",
            position=leaf.position,
            line=line_of(leaf),
            error=error,
        ) from error


def failed(leaf: Leaf, text: str, modules: frozenset[str]) -> Any:
    """What a recorded failure raises, as Thrown; or a wait's default, where that is how it timed out.

    Raises Blocked if the class that it was raised as cannot be had here.
    """
    spec = leaf.command.spec
    failure = read(text)
    if leaf.command.kind == "undo":
        return Thrown(rebuild_in_any_case(failure, modules))  # no code catches it
    if isinstance(spec, SignalSpec) and spec.has_default and failure.type == "SignalTimeout":
        return spec.default
    try:
        return Thrown(rebuild(failure, modules))
    except CannotRebuild as cannot:
        raise Blocked(
            f"position {leaf.position}: the recorded failure of {leaf.command!r} cannot be rebuilt here: {cannot}",
            position=leaf.position,
            line=line_of(leaf),
            error=ImportError(str(cannot)),
        ) from cannot
