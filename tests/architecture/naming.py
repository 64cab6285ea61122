"""The names of all tests, as they are written, so that a document can name the tests that show what it says.

A test is named as pytest does, from the folder ``tests``: ``runtime/test_held.py::test_a_step_...``; one of the
conformance suite, which every storage runs, as ``conformance/commits.py::TestTurns::test_...``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.architecture.source import PACKAGE, ROOT

TESTS = ROOT / "tests"
CONFORMANCE = PACKAGE / "testing" / "conformance"


@cache
def names_of_tests() -> dict[str, bool]:
    """Every test by its name, and whether it is run as it stands: not skipped, and not expected to fail."""
    found: dict[str, bool] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        found |= _tests_in(path, path.relative_to(TESTS))
    for path in sorted(CONFORMANCE.glob("[a-z]*.py")):
        found |= _tests_in(path, Path("conformance") / path.name)
    assert len(found) > 1000, "the tests are somewhere else"
    return found


def missing(names: list[str]) -> list[str]:
    """Those of these names that no test has, or whose test shows nothing."""
    tests = names_of_tests()
    return [name for name in names if not tests.get(name, False)]


def _tests_in(path: Path, shown: Path) -> dict[str, bool]:
    tree = ast.parse(path.read_text())
    return {f"{shown.as_posix()}::{name}": runs for name, runs in _functions(tree, "")}


def _functions(tree: ast.Module | ast.ClassDef, within: str) -> Iterator[tuple[str, bool]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from _functions(node, f"{node.name}::")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            marks = " ".join(ast.unparse(mark) for mark in node.decorator_list)
            yield within + node.name, not ("mark.skip" in marks or "mark.xfail" in marks)
