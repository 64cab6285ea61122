"""The workflow floor is pure. import-linter sees what it imports; this sees what it calls."""

from __future__ import annotations

import ast

from tests.architecture.source import Module, modules

IMPURE_MODULES = {"asyncio", "os", "secrets", "socket", "subprocess", "threading", "time"}
IMPURE_BUILTINS = {"breakpoint", "exec", "eval", "input", "open", "print"}
CLOCKS = {"now", "utcnow", "today"}
PURE_OF_RANDOM = {"Random"}
"""A generator that is seeded from the journal; the module's own functions share one that is not."""
PURE_OF_UUID = {"UUID", "uuid5"}


def test_the_workflow_floor_imports_no_io_no_clock_and_no_chance() -> None:
    assert [found for module in modules("workflow") for found in _impure_imports(module)] == []


def test_the_workflow_floor_reads_no_clock_and_opens_nothing() -> None:
    assert [found for module in modules("workflow") for found in _impure_calls(module)] == []


def _impure_imports(module: Module) -> list[str]:
    found = []
    for node in module.nodes():
        match node:
            case ast.Import(names=names):
                # `import random` would hand out its functions as well; only names out of it can be judged.
                impure = IMPURE_MODULES | {"random", "uuid"}
                found += [f"{module.at(node)} import {name.name}" for name in names if _top(name.name) in impure]
            case ast.ImportFrom(module=str(source), names=names):
                allowed = {"random": PURE_OF_RANDOM, "uuid": PURE_OF_UUID}.get(_top(source))
                if _top(source) in IMPURE_MODULES:
                    found.append(f"{module.at(node)} from {source}")
                if allowed is not None:
                    found += [f"{module.at(node)} {source}.{name.name}" for name in names if name.name not in allowed]
            case _:
                pass
    return found


def _impure_calls(module: Module) -> list[str]:
    found = []
    for node in module.nodes():
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_BUILTINS:
                found.append(f"{module.at(node)} {name}()")
            case ast.Call(func=ast.Attribute(value=ast.Name(id="datetime" | "date" as kind), attr=name)) if (
                name in CLOCKS
            ):
                found.append(f"{module.at(node)} {kind}.{name}()")
            case _:
                pass
    return found


def _top(name: str) -> str:
    return name.partition(".")[0]
