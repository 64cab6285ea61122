"""How a blocking verb is made of an awaitable one: the same arguments, the same answer, the same words about it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from runnerq.client.sync.loops import Loop

Asked_co = TypeVar("Asked_co", covariant=True)
A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
T = TypeVar("T")


class Blocking(Generic[Asked_co]):
    """What is asked, and the loop that it is asked on."""

    __slots__ = ("_asked", "_loop")

    def __init__(self, asked: Asked_co, loop: Loop) -> None:
        self._asked = asked
        self._loop = loop


def blocking(
    verb: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Blocking[A], P], T]:
    """This verb, for a thread that waits for its answer."""

    @functools.wraps(verb)
    def wait(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._loop.call(lambda: verb(self._asked, *args, **kwargs))

    return wait


def told_as(verb: Callable[..., Any]) -> Callable[[F], F]:
    """With the words of this verb, for one that is written out because of its types."""

    def tell(fn: F) -> F:
        fn.__doc__ = verb.__doc__
        return fn

    return tell
