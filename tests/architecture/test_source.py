"""What every file of the package keeps to, beyond what a linter sees."""

from __future__ import annotations

import ast
import re

from tests.architecture.source import Module, modules

LONGEST_FILE = 400
LONGEST_FUNCTION = 60
EXCUSED = {
    "runnerq/runtime/shift.py __init__": "the one place that wires a worker's parts",
}
NOT_OUR_WORDS = ("manager", "helper", "utils", "util", "service")
"""DESIGN says what we call things; a name of these says nothing."""


def test_no_file_is_two_ideas_long() -> None:
    lengths = {module.name: len(module.text.splitlines()) for module in modules()}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE and name not in EXCUSED} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    lengths = {name: length for module in modules() for name, length in _functions(module)}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION and name not in EXCUSED} == {}


def _functions(module: Module) -> list[tuple[str, int]]:
    return [
        (f"{module.name} {node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in module.nodes()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_nothing_inside_imports_the_package_itself() -> None:
    assert [found for module in modules() for found in _imports_of_the_package(module)] == []


def _imports_of_the_package(module: Module) -> list[str]:
    found = []
    for node in module.nodes():
        match node:
            case ast.Import(names=names) if any(name.name == "runnerq" for name in names):
                found.append(module.at(node))
            case ast.ImportFrom(module="runnerq"):
                found.append(module.at(node))
            case _:
                pass
    return found


def test_every_module_says_what_it_is_and_defers_its_annotations() -> None:
    silent = [module.name for module in modules() if module.text.strip() and ast.get_docstring(module.tree) is None]
    eager = [
        module.name
        for module in modules()
        if len(module.tree.body) > 1 and "from __future__ import annotations" not in module.text
    ]
    assert (silent, eager) == ([], [])


def test_no_file_or_class_has_a_name_that_says_nothing() -> None:
    named = [module.name for module in modules() if module.path.stem in NOT_OUR_WORDS]
    named += [
        f"{module.at(node)} {node.name}"
        for module in modules()
        for node in module.nodes()
        if isinstance(node, ast.ClassDef) and node.name.lower().endswith(NOT_OUR_WORDS)
    ]
    assert named == []


def test_every_look_away_has_its_reason_beside_it() -> None:
    bare = [
        f"{module.name}:{number}"
        for module in modules()
        for number, line in enumerate(module.text.splitlines(), 1)
        if _BARE.search(line) and not _explained_above(module, number)
    ]
    assert bare == []


_BARE = re.compile(r"# (noqa|type: ignore|pyright: ignore|pragma: no cover)[^#-]*$")
"""The mark is the last on its line: no `` - why`` and no ``# why`` follows."""


def _explained_above(module: Module, number: int) -> bool:
    """A comment just above explains it as well."""
    before = module.text.splitlines()[max(0, number - 3) : number - 1]
    return any(line.strip().startswith("#") for line in before)
