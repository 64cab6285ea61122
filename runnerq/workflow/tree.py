"""What a run is waiting for, as a tree: branches wait for leaves or composites, composites have members.

A node is alive from its ask until its answer has been delivered to its parent; then nothing refers to it any more.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from random import Random
from typing import Any, TypeAlias

from runnerq.workflow.commands import AllSpec, Command
from runnerq.workflow.journal import Asked


class Leaf:
    """A command that something outside answers: a step, a sleep, a signal, a child, an effect."""

    __slots__ = ("asked", "command", "index", "parent")

    def __init__(self, command: Command[Any], asked: Asked, parent: Branch | Composite, index: int) -> None:
        self.command = command
        self.asked = asked
        self.parent = parent
        self.index = index

    @property
    def position(self) -> str:
        return self.asked.position

    def __repr__(self) -> str:
        return f"<Leaf {self.asked.position} {self.command!r}>"


class Decision:
    """How a composite was decided: by which member, and with what."""

    __slots__ = ("index", "ok", "value")

    def __init__(self, ok: bool, value: Any, index: int | None) -> None:
        self.ok = ok
        self.value = value
        self.index = index


class Composite:
    """An ``all``, ``gather`` or ``race``: ``open`` counts the members that are started and have not ended."""

    __slots__ = ("cancelled", "command", "decision", "done", "index", "members", "next", "open", "parent", "position", "values")

    def __init__(self, command: Command[Any], position: str, parent: Branch | Composite, index: int) -> None:
        self.command = command
        self.position = position
        self.parent = parent
        self.index = index
        self.members: list[Leaf | Composite | Branch | None] = [None] * len(command.members)
        self.values: list[Any] = [None] * len(command.members)
        self.open = 0
        self.done = 0
        self.next = 0
        self.decision: Decision | None = None
        self.cancelled = False

    @property
    def limit(self) -> int | None:
        return self.command.spec.limit if isinstance(self.command.spec, AllSpec) else None


class Branch:
    """A generator that advances on its own, with a numbering of its own."""

    __slots__ = ("cancelled", "count", "draws", "generator", "index", "parent", "pending_cancel", "prefix", "rng", "waiting")

    def __init__(self, generator: Generator[Any, Any, Any], prefix: str, parent: Composite | None, index: int) -> None:
        self.generator = generator
        self.prefix = prefix
        self.parent = parent
        self.index = index
        self.count = 0
        self.draws = 0
        self.rng: Random | None = None
        self.waiting: Leaf | Composite | None = None
        self.cancelled = False
        self.pending_cancel: str | None = None

    @property
    def position(self) -> str:
        return self.prefix[:-1]


Node: TypeAlias = Leaf | Composite | Branch


def branches(root: Branch) -> Iterator[Branch]:
    """Every live branch, innermost first."""
    yield from _below(root.waiting)
    yield root


def _below(node: Node | None) -> Iterator[Branch]:
    if isinstance(node, Composite):
        for member in node.members:
            if isinstance(member, Branch):
                yield from branches(member)
            else:
                yield from _below(member)


def parked_line(generator: Any) -> str | None:
    """Where a suspended generator stands: ``file:line in function`` of its innermost frame in user code."""
    found = None
    while generator is not None:
        frame = getattr(generator, "gi_frame", None)
        if frame is None or frame.f_globals.get("__name__") == Command.__module__:
            break
        found = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
        generator = generator.gi_yieldfrom
    return found
