"""What code a worker runs, in one short text."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runnerq.runtime.builds import build_of
from runnerq.workflow.journal import RULES


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with two modules, to be changed."""
    folder = tmp_path / "rqtest_shop"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "orders.py").write_text("def order(): return 1\n")
    (folder / "prices.py").write_text("PRICE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("RUNNERQ_BUILD", raising=False)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "rqtest_shop"]:
        del sys.modules[name]


def order_of(package: Path) -> Any:
    return importlib.import_module(f"{package.name}.orders").order


def test_a_given_build_comes_first_then_the_environment_then_the_sources(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = order_of(package)
    digest = build_of([order], None)
    monkeypatch.setenv("RUNNERQ_BUILD", "from-the-environment")
    assert build_of([order], None) == f"from-the-environment/{RULES}"
    assert build_of([order], "given") == f"given/{RULES}"
    assert digest.endswith(f"/{RULES}")
    assert len(digest) < 40


def test_sources_of_the_whole_package_count_and_nothing_else_does(package: Path) -> None:
    order = order_of(package)
    before = build_of([order], None)
    assert build_of([order], None) == before
    (package / "notes.txt").write_text("no source")
    assert build_of([order], None) == before
    (package / "prices.py").write_text("PRICE = 2\n")
    changed = build_of([order], None)
    assert changed != before
    (package / "more").mkdir()
    (package / "more" / "rates.py").write_text("RATE = 3\n")
    assert build_of([order], None) not in (before, changed)


def test_a_function_without_a_file_stands_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNNERQ_BUILD", raising=False)

    def typed(source: str) -> Any:
        space: dict[str, Any] = {"__name__": "typed_at_a_prompt"}
        exec(source, space)  # noqa: S102 - a prompt does that
        return space["order"]

    one = build_of([typed("def order(): return first()")], None)
    same = build_of([typed("def order(): return first()")], None)
    other = build_of([typed("def order(): return second()")], None)
    two = build_of([typed("def order(): return first(2)")], None)
    three = build_of([typed("def order(): return first(3)")], None)
    assert one == same
    assert len({one, other, two, three}) == 4


def test_several_functions_typed_at_a_prompt_all_count(monkeypatch: pytest.MonkeyPatch, package: Path) -> None:
    order = order_of(package)

    def typed(source: str) -> Any:
        space: dict[str, Any] = {"__name__": "typed_at_a_prompt"}
        exec(source, space)  # noqa: S102 - as above
        return space["order"]

    one = build_of([order, typed("def order(): return first()")], None)
    other = build_of([order, typed("def order(): return second()")], None)
    assert one != other
