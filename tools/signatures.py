"""Signatures as they are written in the source: with their own words for types, and a line for each overload.

What a caller does not give is left out, and a default that is one of our constants is shown as its value.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, ParamSpec, TypeVar, get_overloads

WIDTH = 100
NOT_GIVEN = ("self", "cls", "surroundings")
"""Parameters that no caller gives: Python does, or the testing kit."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def signatures(function: Any, as_declared: Any = None) -> list[str]:
    """Each way to call it. ``as_declared`` is what its class holds: a classmethod, for instance."""
    return [_signature(way, as_declared) for way in get_overloads(function) or [function]]


def making(name: str, init: Callable[..., Any]) -> str:
    """How one of the class ``name`` is made."""
    return _laid_out(name, _shown(_node(init), init), "")


def aliases(function: Any) -> Iterator[tuple[str, str]]:
    """The names that its signatures have for longer types, and what they stand for."""
    for way in get_overloads(function) or [function]:
        node = _node(way)
        for name in _names([argument.annotation for argument in _arguments(node)] + [node.returns]):
            meant = way.__globals__.get(name)
            if not (isinstance(meant, type | ModuleType | TypeVar | ParamSpec | None) or name in typing.__all__):
                yield name, meant if isinstance(meant, str) else spelled(meant)


def spelled(value: object) -> str:
    """A type or a default as a reader of this house's code knows it: no modules, double quotes."""
    text = re.sub(r"(?<!['\w])(?:[a-zA-Z_]\w*\.)+(?=[A-Za-z_])", "", repr(value)).replace("~", "")
    return quoted(re.sub(r"ForwardRef\('([^']*)'\)", r"\1", text).replace("NoneType", "None"))


def quoted(text: str) -> str:
    """Code with double quotes, as this house writes it."""
    return re.sub(r"'([^'\"\\]*)'", r'"\1"', text)


def _signature(way: Callable[..., Any], as_declared: Any) -> str:
    node = _node(way)
    before = f"{'async ' if isinstance(node, ast.AsyncFunctionDef) else ''}def"
    if isinstance(as_declared, classmethod | staticmethod):
        before = f"@{type(as_declared).__name__}\n{before}"
    answer = "" if node.returns is None else f" -> {_unparsed(node.returns)}"
    return _laid_out(f"{before} {node.name}", _shown(node, way), f"{answer}: ...")


def _node(function: Callable[..., Any]) -> Function:
    match ast.parse(textwrap.dedent(inspect.getsource(function))).body:
        case [ast.FunctionDef() | ast.AsyncFunctionDef() as node]:
            return node
        case other:
            raise TypeError(f"{function!r} is written as {other!r}, not as a function")


def _shown(node: Function, function: Callable[..., Any]) -> list[str]:
    """The parameters that a caller gives, as they are written."""
    parts = [part for part in _parameters(node, function) if part.partition(":")[0] not in NOT_GIVEN]
    return parts[1:] if parts[:1] == ["/"] else parts


def _parameters(node: Function, function: Callable[..., Any]) -> list[str]:
    given, known = node.args, function.__globals__
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    parts = [_parameter(one, default, known) for one, default in zip(positional, defaults, strict=True)]
    if given.posonlyargs:
        parts.insert(len(given.posonlyargs), "/")
    if given.vararg is not None:
        parts.append("*" + _parameter(given.vararg, None, known))
    elif given.kwonlyargs:
        parts.append("*")
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    parts += [_parameter(one, default, known) for one, default in named]
    if given.kwarg is not None:
        parts.append("**" + _parameter(given.kwarg, None, known))
    return parts


def _parameter(argument: ast.arg, default: ast.expr | None, known: dict[str, Any]) -> str:
    annotation = "" if argument.annotation is None else f": {_unparsed(argument.annotation)}"
    if default is None:
        return argument.arg + annotation
    return f"{argument.arg}{annotation}{' = ' if annotation else '='}{_default(default, known)}"


def _default(default: ast.expr, known: dict[str, Any]) -> str:
    match default:
        case ast.Name(id=name) if name.startswith("_"):
            return "..."  # a mark of ours for "not given" tells a reader nothing
        case ast.Name(id=name) if name.isupper() and isinstance(known.get(name), int):
            return f"{known[name]:_}"
        case ast.Name(id=name) if name.isupper() and isinstance(known.get(name), str | tuple):
            return spelled(known[name])
        case _:
            return _unparsed(default)


def _arguments(node: Function) -> list[ast.arg]:
    given = node.args
    more = [argument for argument in (given.vararg, given.kwarg) if argument is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *more]


def _names(annotations: list[ast.expr | None]) -> list[str]:
    nodes = [node for annotation in annotations if annotation is not None for node in ast.walk(annotation)]
    return [node.id for node in nodes if isinstance(node, ast.Name)]


def _unparsed(node: ast.expr) -> str:
    return quoted(ast.unparse(node))


def _laid_out(before: str, parameters: list[str], answer: str) -> str:
    line = f"{before}({', '.join(parameters)}){answer}"
    if len(line.splitlines()[-1]) <= WIDTH:
        return line
    return f"{before}(\n" + "".join(f"    {part},\n" for part in parameters) + f"){answer}"
