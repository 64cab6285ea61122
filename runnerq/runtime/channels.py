"""The signals that a workflow's code names: whoever sends one from outside is told what it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from runnerq.serialization.signatures import layers
from runnerq.workflow.commands import Signal
from runnerq.workflow.declare import declaration_of


def channels_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """The type forms of payloads by channel, of each ``Signal`` that the code of a workflow names, or of a plain
    function of its module that it calls. A channel that has several types is left out."""
    types: dict[str, list[Any]] = {}
    for signal in _signals_of(layers(fn)[-1], set()):
        types.setdefault(signal.name, []).append(signal.type)
    return {name: found[0] for name, found in types.items() if all(each == found[0] for each in found)}


def _signals_of(fn: Any, seen: set[CodeType]) -> Iterator[Signal[Any]]:
    if not isinstance(fn, FunctionType) or fn.__code__ in seen:
        return
    seen.add(fn.__code__)
    for value in _named_by(fn):
        if isinstance(value, Signal):
            yield value
        # A run of its own takes its own signals.
        elif isinstance(value, FunctionType) and value.__module__ == fn.__module__ and declaration_of(value) is None:
            yield from _signals_of(value, seen)


def _named_by(fn: FunctionType) -> Iterator[Any]:
    """What a function's code names outside itself: globals, what encloses it, and what stands in modules and classes
    that it names."""
    names = set(_names(fn.__code__))
    for name in names & fn.__globals__.keys():
        value = fn.__globals__[name]
        yield value
        if isinstance(value, ModuleType | type):
            yield from (vars(value)[each] for each in names & vars(value).keys())
    for cell in fn.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inside in code.co_consts:
        if isinstance(inside, CodeType):
            yield from _names(inside)
