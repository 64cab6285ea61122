"""Each corner case of the list has its tests: edge_cases.toml says which, in the order of the list."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.naming import missing

INDEX = Path(__file__).with_name("edge_cases.toml")
CASES = tomllib.loads(INDEX.read_text())["case"]
LINES = [*range(1, 49), "48a", "48b", "48c", "48d", *range(49, 66)]


def test_the_list_is_whole_and_in_order() -> None:
    assert [case["line"] for case in CASES] == LINES


def test_every_case_says_its_rule_in_a_sentence() -> None:
    assert [case["line"] for case in CASES if not case["rule"].endswith(".")] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"line {case['line']}")
def test_every_case_is_shown_by_tests_that_are_there(case: dict[str, Any]) -> None:
    assert case["tests"], "no test shows it"
    assert missing(case["tests"]) == []
