"""What a run knows of itself, and what its interpreter needs to know of it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from runnerq.workflow.commands import Command
    from runnerq.workflow.context import Context


class Info(msgspec.Struct, frozen=True):
    """What a run knows of itself. ``entries`` counts the rows of the present generation's journal."""

    id: str
    workflow: str
    version: int
    key: str | None
    queue: str
    parent_id: str | None
    root_id: str
    generation: int
    metadata: Mapping[str, str]
    created_at: datetime
    entries: int


def accept(command: Command[Any]) -> None:
    """Any child will do."""


class Identity(msgspec.Struct, frozen=True):
    """What the interpreter needs to know of the run.

    ``body`` calls the workflow's function with its arguments. ``modules`` were loaded when the worker started.
    ``check_child`` raises UsageError or EncodingError for a child that could never be started.
    """

    info: Info
    body: Callable[[Context], Generator[Any, Any, Any]]
    modules: frozenset[str]
    may_have_children: bool = True
    check_child: Callable[[Command[Any]], None] = accept
