"""The product's source, as trees, for tests about how it is built."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "runnerq"


class Module(msgspec.Struct, frozen=True):
    """A file of the package."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    def at(self, node: ast.stmt | ast.expr) -> str:
        return f"{self.name}:{node.lineno}"

    def nodes(self) -> Iterator[ast.AST]:
        return ast.walk(self.tree)


@cache
def modules(under: str = "") -> list[Module]:
    """The modules below this folder of the package; there must be some, else a test of them would test nothing."""
    found = [
        Module(path, text := path.read_text(), ast.parse(text)) for path in sorted((PACKAGE / under).rglob("*.py"))
    ]
    assert found, f"there is nothing in runnerq/{under}"
    return found
