"""The pages for those who change the code name files and folders that there are: a newcomer finds the place by them."""

from __future__ import annotations

import re
from functools import cache

from tests.architecture.source import PACKAGE, ROOT

INTERNALS = ROOT / "docs" / "internals"
FLOORS = sorted(path.name for path in PACKAGE.iterdir() if path.is_dir())
_NAMED = re.compile(rf"`((?:[\w.-]+/)*[\w.-]+\.(?:py|sql|js|css|html)|(?:{'|'.join(FLOORS)})(?:/[\w.-]+)*)/?`")
"""In code style, a file with its ending, or a folder of the package."""


def test_the_files_that_these_pages_name_are_there() -> None:
    pages = {page.relative_to(INTERNALS).as_posix(): page.read_text("utf-8") for page in INTERNALS.rglob("*.md")}
    named = {page: _NAMED.findall(text) for page, text in pages.items()}
    assert sum(map(len, named.values())) > 100, "nothing is named like that any more"
    assert {
        page: gone for page, names in named.items() if (gone := [name for name in names if not _is_there(name)])
    } == {}


def _is_there(name: str) -> bool:
    return any(path.endswith(f"/{name}") for path in _paths())


@cache
def _paths() -> frozenset[str]:
    folders = (PACKAGE, *(ROOT / name for name in ("tests", "tools", "benchmarks", "docs")))
    return frozenset(f"/{path.relative_to(ROOT).as_posix()}" for folder in folders for path in folder.rglob("*"))
