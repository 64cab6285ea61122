"""What the API can be asked: a table of operations, each made where its function is written.

Rules
- An operation is a function of a ``Context``, the names in its path, and at most one query and one body, each a Struct.
- It knows nothing of HTTP: it answers a value, or raises what the library raises.
- The routes, the OpenAPI document and the reference page are made from this table, and a test walks it for permissions.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_args, get_origin

import msgspec

Method: TypeAlias = Literal["GET", "POST", "PUT", "DELETE"]
Do: TypeAlias = Callable[..., Awaitable[Any]]
T = TypeVar("T")

ROOT = "/api/v1"
IN_PATH = re.compile(r"{(\w+)}")


class Reply(msgspec.Struct, Generic[T], frozen=True):
    """An answer that says by which of the operation's statuses it goes out, and where what was made is."""

    value: T
    status: int
    location: str | None = None


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the API can be asked. ``name`` is its operation id, ``path`` is below ``/api/v1``.

    ``permission`` is what it takes to do it, None for what everybody may who may look. ``statuses`` are those it
    answers with, the usual one first. ``once`` is the field of its body that ``Idempotency-Key`` fills in where it is
    empty. ``waits`` says that it may take long to answer, and is called off when the server is to stop.
    """

    method: Method
    path: str
    permission: str | None
    statuses: tuple[int, ...]
    once: str | None
    waits: bool
    do: Do
    query: type[msgspec.Struct] | None
    body: type[msgspec.Struct] | None
    answer: Any

    @property
    def name(self) -> str:
        return self.do.__name__

    @property
    def summary(self) -> str:
        """The first paragraph of what its function says."""
        return _paragraphs(self.do)[0]

    @property
    def description(self) -> str:
        """The rest of it."""
        return "\n\n".join(_paragraphs(self.do)[1:])

    @property
    def in_path(self) -> list[str]:
        """The names in its path, in order."""
        return IN_PATH.findall(self.path)


def reads(path: str, *, waits: bool = False) -> Callable[[Do], Operation]:
    """Make a function the operation that is asked by ``GET``."""
    return lambda do: _operation("GET", path, do, permission=None, statuses=(200,), once=None, waits=waits)


def acts(
    permission: str, path: str, *, method: Method = "POST", statuses: tuple[int, ...] = (200,), once: str | None = None
) -> Callable[[Do], Operation]:
    """Make a function the operation that changes something, for those who have the permission."""
    return lambda do: _operation(method, path, do, permission=permission, statuses=statuses, once=once, waits=False)


def _operation(method: Method, path: str, do: Do, **more: Any) -> Operation:
    hints = typing.get_type_hints(do)
    answer = hints["return"]
    operation = Operation(
        method=method,
        path=path,
        do=do,
        query=hints.get("query"),
        body=hints.get("body"),
        answer=get_args(answer)[0] if get_origin(answer) is Reply else answer,
        **more,
    )
    _check(operation)
    return operation


def _check(operation: Operation) -> None:
    """A function that cannot be called as its path says is found when it is written, not when it is asked."""
    takes = set(inspect.signature(operation.do).parameters)
    given = (each for each in ("query", "body") if getattr(operation, each) is not None)
    gets = {"context", *operation.in_path, *given}
    if takes != gets:
        raise TypeError(f"{operation.name} takes {sorted(takes)}, and {operation.path} has {sorted(gets)}")


def _paragraphs(do: Do) -> list[str]:
    text = inspect.getdoc(do)
    if not text:
        raise TypeError(f"{do.__name__} has no docstring: it is what the API's document says of it")
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
