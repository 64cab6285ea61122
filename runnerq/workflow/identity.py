"""What a run knows of itself, and what its interpreter needs to know of it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextvars import copy_context
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

import msgspec

P = ParamSpec("P")
R = TypeVar("R")

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


class Drive(Protocol):
    """Where workflow code is called: a ``contextvars.Context``, or what a test watches it from."""

    def copy(self) -> Drive: ...

    def run(self, callable: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...  # noqa: A002 - Context's word


NEVER = datetime.min.replace(tzinfo=UTC)
"""Before anything was recorded."""


def accept(command: Command[Any]) -> None:
    """Any child will do."""


def accept_arguments(arguments: str) -> None:
    """Any arguments will do."""


class Identity(msgspec.Struct, frozen=True):
    """What the interpreter needs to know of the run.

    ``body`` calls the workflow's function, with these arguments (JSON of a call), or with the run's own input if they
    are None. ``modules`` were loaded when the worker started. ``check_child`` raises UsageError or EncodingError for a
    child that could never be started, ``check_arguments`` UsageError for arguments that do not fit the function.
    ``drive`` makes the context in which user code is called. ``build`` is the worker's, ``build_seen`` when the
    database first saw it.
    """

    info: Info
    body: Callable[[Context, str | None], Generator[Any, Any, Any]]
    modules: frozenset[str]
    may_have_children: bool = True
    check_child: Callable[[Command[Any]], None] = accept
    drive: Callable[[], Drive] = copy_context
    check_arguments: Callable[[str], None] = accept_arguments
    build: str = ""
    build_seen: datetime = NEVER
