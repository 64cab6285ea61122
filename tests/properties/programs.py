"""Workflows as data: a small tree of commands that one generator workflow carries out, and one plain model predicts.

Rules
- A program is JSON: it is the input of the run that carries it out, and a child's part of it is the input of the child.
- ``n`` is a node's number, unique within a program; a step answers with it, so that no two answers are alike.
- Whatever is here is deterministic but for time: who wins a race, which wait times out, where a cancel hits.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec

CHANNELS = ("blue", "red")


class Step(msgspec.Struct, frozen=True, tag=True):
    """A step that fails on its first ``fails`` attempts of ``attempts``; a ``fatal`` one fails for good at once."""

    n: int = 0
    fails: int = 0
    attempts: int = 1
    fatal: bool = False
    takes: float = 0.0


class Sleep(msgspec.Struct, frozen=True, tag=True):
    n: int = 0
    seconds: float = 0.0


class Wait(msgspec.Struct, frozen=True, tag=True):
    """A wait for a signal."""

    n: int = 0
    channel: str = CHANNELS[0]
    timeout: float | None = None
    default: bool = False
    latest: bool = False


class Tell(msgspec.Struct, frozen=True, tag=True):
    """A signal that the run sends to itself; its number is what it says."""

    n: int = 0
    channel: str = CHANNELS[0]


class Publish(msgspec.Struct, frozen=True, tag=True):
    n: int = 0


class Raise(msgspec.Struct, frozen=True, tag=True):
    """The workflow's own code raises."""

    n: int = 0


class Child(msgspec.Struct, frozen=True, tag=True):
    n: int
    body: Block


class Spawn(msgspec.Struct, frozen=True, tag=True):
    """A child that is started, something between, and what is then done with its handle."""

    n: int
    body: Block
    between: Block
    then: Literal["result", "cancel", "tell", "leave"] = "result"


class Group(msgspec.Struct, frozen=True, tag=True):
    """A composite; a member that is a Block is a branch."""

    n: int
    kind: Literal["all", "gather", "race"]
    members: tuple[Node | Block, ...]
    limit: int | None = None
    return_errors: bool = False


class Try(msgspec.Struct, frozen=True, tag=True):
    """``try``, ``except`` of what it catches, and ``finally`` with its cleanup."""

    n: int
    body: Block
    cleanup: Block
    catches: Literal["nothing", "errors", "cancel"] = "nothing"


class Compensate(msgspec.Struct, frozen=True, tag=True):
    """An undo is registered."""

    n: int = 0
    fails: bool = False


class Patch(msgspec.Struct, frozen=True, tag=True):
    """A part of the code that came later."""

    n: int
    body: Block


class Continue(msgspec.Struct, frozen=True, tag=True):
    """The run goes on in its next generation, with this; even if its own code has ``swallowed`` what that raises."""

    n: int
    body: Block
    swallowed: bool = False


class Block(msgspec.Struct, frozen=True, tag=True):
    """Commands one after the other."""

    nodes: tuple[Node, ...] = ()


Node: TypeAlias = (
    Step | Sleep | Wait | Tell | Publish | Raise | Child | Spawn | Group | Try | Compensate | Patch | Continue
)

_decoder = msgspec.json.Decoder(Block)


def written(block: Block) -> str:
    """A program as the text that a run is given."""
    return msgspec.json.encode(block).decode()


@lru_cache(maxsize=512)
def read(text: str) -> Block:
    """The program that this text is."""
    return _decoder.decode(text)


def parts(node: Node | Block) -> tuple[Node | Block, ...]:
    """What a node is made of, in the order in which it would be carried out."""
    match node:
        case Block(nodes):
            return nodes
        case Child(_, body) | Patch(_, body) | Continue(_, body):
            return (body,)
        case Spawn(_, body, between):
            return (body, between)
        case Group(_, _, members):
            return members
        case Try(_, body, cleanup):
            return (body, cleanup)
        case _:
            return ()


def nodes_of(part: Node | Block) -> Iterator[Node]:
    """Every node in it, itself included, without what children and later generations are given."""
    if not isinstance(part, Block):
        yield part
    for inner in parts(part):
        if not (isinstance(part, Child | Continue) or (isinstance(part, Spawn) and inner is part.body)):
            yield from nodes_of(inner)


def reachable(part: Node | Block) -> Iterator[Node]:
    """Every node that the run itself may come to, in later generations too."""
    for node in nodes_of(part):
        yield node
        if isinstance(node, Continue):
            yield from reachable(node.body)


def all_nodes(part: Node | Block) -> Iterator[Node]:
    """Every node in it, children's too."""
    if not isinstance(part, Block):
        yield part
    for inner in parts(part):
        yield from all_nodes(inner)


def numbered(block: Block) -> Block:
    """The same program, each node with a number of its own."""
    count = 0

    def number(part: Any) -> Any:
        nonlocal count
        if not isinstance(part, Block):
            count += 1
            part = msgspec.structs.replace(part, n=count)
        changed = {
            name: tuple(map(number, value)) if isinstance(value, tuple) else number(value)
            for name in part.__struct_fields__
            if isinstance(value := getattr(part, name), msgspec.Struct | tuple)
        }
        return msgspec.structs.replace(part, **changed)

    numbered_block: Block = number(block)
    return numbered_block
