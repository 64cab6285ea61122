"""What a run is waiting for, as a tree: branches wait for leaves or composites, composites have members.

A node is alive from its ask until its answer has been delivered to its parent; then nothing refers to it any more.
"""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from types import FrameType
from typing import Any, TypeAlias

import msgspec

from runnerq.workflow.commands import AllSpec, Command
from runnerq.workflow.journal import Asked

_OURS = "runnerq.workflow."


class Leaf:
    """A command that something outside answers: a step, a sleep, a signal, a child, an effect, an undo."""

    __slots__ = ("asked", "command", "index", "parent")

    def __init__(self, command: Command[Any], asked: Asked, parent: Parent, index: int) -> None:
        self.command = command
        self.asked = asked
        self.parent = parent
        self.index = index

    @property
    def position(self) -> str:
        return self.asked.position

    def __repr__(self) -> str:
        return f"<Leaf {self.asked.position} {self.command!r}>"


class Thrown:
    """An answer that is raised.

    It gives its error away once. A finished generator's frame keeps the frames of all who called it alive, for as long
    as an error that came through it lives; if one of these held the error, only the garbage collector would end it.
    """

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def take(self) -> BaseException:
        error = self.error
        del self.error
        return error


class Decision(msgspec.Struct, frozen=True):
    """How a composite was decided: by which member (None: by all of them), and with what, a value or Thrown."""

    answer: Any
    index: int | None


class Composite:
    """An ``all``, ``gather`` or ``race``.

    ``next`` is the first member that is not started; ``open`` counts those that are started and have not ended. It is
    over once it is decided, cancelled, or ``closed``: lost by the composite that it is a member of.
    """

    __slots__ = (
        "cancelled", "closed", "command", "decision", "index", "limit", "members", "next", "open", "parent", "position",
        "reason", "starting", "values",
    )  # fmt: skip

    def __init__(self, command: Command[Any], position: str, parent: Branch | Composite, index: int) -> None:
        count = len(command.members)
        self.command = command
        self.position = position
        self.parent = parent
        self.index = index
        self.members: list[Leaf | Composite | Branch | None] = [None] * count
        self.values: list[Any] = [None] * count
        self.limit = command.spec.limit or count if isinstance(command.spec, AllSpec) else count
        self.next = 0
        self.open = 0
        self.starting = False
        self.decision: Decision | None = None
        self.closed = False
        self.cancelled = False
        self.reason: str | None = None

    @property
    def over(self) -> bool:
        return self.decision is not None or self.cancelled or self.closed


class Branch:
    """A generator that advances on its own, with a numbering of its own.

    ``waiting`` is what it waits for when it does not advance. ``pending`` says that a cancel waits for the answer of an
    effect, or that the workflow has continued as new: whatever it yields now is not asked for. ``drawn_at`` is the
    command behind which ``draws`` counts and ``rng`` was made.
    """

    __slots__ = (
        "cancelled", "count", "drawn_at", "draws", "generator", "index", "parent", "pending", "prefix", "reason", "rng",
        "waiting",
    )  # fmt: skip

    generator: Generator[Any, Any, Any]

    def __init__(self, prefix: str, parent: Composite | None, index: int) -> None:
        self.prefix = prefix
        self.parent = parent
        self.index = index
        self.count = 0
        self.drawn_at = 0
        self.draws = 0
        self.rng: Random | None = None
        self.waiting: Leaf | Composite | None = None
        self.cancelled = False
        self.pending = False
        self.reason: str | None = None

    @property
    def position(self) -> str:
        return self.prefix[:-1]

    @property
    def place(self) -> str:
        """The position of the last command that it asked for."""
        return f"{self.prefix}{self.count}"


class Undoing:
    """The undos of a run that is about to end with ``error``, asked for one after another, last registered first.

    ``last`` is the one that was asked for last, ``open`` counts those that are not answered, ``failed`` is what the
    last of those that failed raised.
    """

    __slots__ = ("count", "error", "failed", "last", "left", "open")

    def __init__(self, error: BaseException, undos: list[Command[Any]]) -> None:
        self.error = error
        self.left = undos
        self.last = undos[-1]
        self.count = 0
        self.open = 0
        self.failed: BaseException | None = None


Node: TypeAlias = Leaf | Composite | Branch
Parent: TypeAlias = Branch | Composite | Undoing


def take_apart(node: Node | None) -> None:
    """Let a composite forget its members, which know it, and what they answered: an error's frames may know it, too."""
    if isinstance(node, Composite):
        members, node.members = node.members, []
        node.decision, node.values = None, []
        for member in members:
            take_apart(member)


def line_of(node: Node | Undoing | None) -> str | None:
    """Where the branch that this node belongs to stands, in the user's code; of undos, where the last was made."""
    while node is not None and not isinstance(node, Branch):
        if isinstance(node, Undoing):
            return node.last.place
        node = node.parent
    frames = [] if node is None else parked_frames(node.generator)
    return frames[-1] if frames else None


def parked_frames(generator: Any) -> list[str]:
    """Where a suspended generator stands, outermost first: ``file:line in function`` of each frame in user code."""
    found = []
    while (frame := getattr(generator, "gi_frame", None)) is not None:
        if frame.f_globals.get("__name__") == Command.__module__:
            break
        found.append(stands_at(frame))
        generator = generator.gi_yieldfrom
    return found


def stands_at(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def raised_at(error: BaseException) -> str | None:
    """The innermost line of user code that an exception came through."""
    found, at = None, error.__traceback__
    while at is not None:
        if not str(at.tb_frame.f_globals.get("__name__")).startswith(_OURS):
            found = f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno} in {at.tb_frame.f_code.co_name}"
        at = at.tb_next
    return found


def closed(generator: Generator[Any, Any, Any]) -> bool:
    """Close it, and before it what it yields from: an outer one that is closed lets go of an inner one that refuses."""
    chain = [generator]
    while isinstance(inner := getattr(chain[-1], "gi_yieldfrom", None), Generator):
        chain.append(inner)
    return all(_closed_alone(each) for each in reversed(chain))


def _closed_alone(generator: Generator[Any, Any, Any]) -> bool:
    for _ in range(3):
        try:
            generator.close()
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001, S112 - whatever user code does while it is closed, it is to be closed
            continue
        return True
    return getattr(generator, "gi_frame", None) is None
