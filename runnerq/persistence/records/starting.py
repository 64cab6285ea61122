"""Records of runs that are to be: started, or opened again."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from runnerq.persistence.records.base import Kind, OnDuplicate, Struct
from runnerq.persistence.records.limits import Limit
from runnerq.workflow.journal import Row


class NewRun(Struct, frozen=True, kw_only=True):
    """A run to create. ``input`` and ``options`` are JSON objects' text; ``metadata`` too.

    ``due_at`` (database time) or ``due_in`` (seconds from the commit) delay it. A child names its parent and the
    position in the parent's journal that asked for it. ``rows`` is the journal that it begins with, in generation 1, as
    a fork does; a child that a turn creates has none. ``limit`` is what it counts against while it is held.
    """

    id: str
    kind: Kind
    name: str
    version: int
    queue: str
    input: str
    priority: int = 2
    root_id: str | None = None
    parent_id: str | None = None
    parent_position: str | None = None
    depth: int = 0
    key: str | None = None
    on_duplicate: OnDuplicate = "return_existing"
    due_at: datetime | None = None
    due_in: float | None = None
    metadata: str | None = None
    options: str | None = None
    rows: tuple[Row, ...] = ()
    limit: Limit | None = None

    @property
    def served(self) -> str:
        return served_name(self.kind, self.name, self.version)


def served_name(kind: Kind, name: str, version: int) -> str:
    """What a worker claims by: ``name@version`` for a workflow, the bare name for an activity.

    A workflow that was started by name while nobody knew the name has version 0: nobody claims ``name@?``.
    """
    return f"{name}@{version or '?'}" if kind == "workflow" else name


def named(served: str) -> tuple[str, int]:
    """The name and version that a worker claims by ``served``; 1 for an activity, 0 where nobody knew the name."""
    name, at, version = served.rpartition("@")
    if not at:
        return served, 1
    return name, 0 if version == "?" else int(version)


class Parent(Struct, frozen=True, kw_only=True):
    """The run whose children a client within a step starts.

    ``position`` is the journal's place that they are asked from, ``generation/entry``. ``key`` is what theirs are made
    of, where none is given; ``max_depth`` how deep below its root a run may start others.
    """

    run_id: str
    root_id: str
    depth: int
    priority: int
    queue: str
    position: str
    key: str
    max_depth: int = 32


class StartReply(Struct, frozen=True, kw_only=True):
    """What became of one NewRun. ``id`` is the run that stands for it: the new one, or the holder of its key; where it
    is the given one and refused, its parent is not open."""

    id: str
    created: bool
    refused: bool = False


class Reopen(Struct, frozen=True, kw_only=True):
    """A run to open again: one that ended as failed, dead-lettered or cancelled, or one that is blocked.

    ``status`` and ``generation`` are what the caller saw, and must still hold. ``row`` is the next of its journal.
    ``children`` are opened in the same commit: all are, or nothing is.
    """

    run_id: str
    generation: int
    status: Literal["failed", "dead_letter", "cancelled", "blocked"]
    row: Row | None = None
    children: tuple[Reopen, ...] = ()
