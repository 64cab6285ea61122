"""Each corner case of the list has its tests: edge_cases.toml says which, in the order of the list."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import runnerq
from tests.architecture.naming import missing

INDEX = Path(__file__).with_name("edge_cases.toml")
CASES = tomllib.loads(INDEX.read_text())["case"]
LINES = [*range(1, 49), "48a", "48b", "48c", "48d", *range(49, 66)]

LATER = {58: "schedules"}
"""Cases of what is not there yet, by what it is."""


def test_the_list_is_whole_and_in_order() -> None:
    assert [case["line"] for case in CASES] == LINES


def test_every_case_says_its_rule_in_a_sentence() -> None:
    assert [case["line"] for case in CASES if not case["rule"].endswith(".")] == []


def test_only_cases_of_what_is_not_there_yet_are_left_for_later() -> None:
    assert {case["line"]: case["later"] for case in CASES if "later" in case} == LATER
    assert "Schedule" not in runnerq.__all__, "schedules are there: line 58 needs its tests"


@pytest.mark.parametrize(
    "case", [case for case in CASES if "later" not in case], ids=lambda case: f"line {case['line']}"
)
def test_every_case_is_shown_by_tests_that_are_there(case: dict[str, Any]) -> None:
    assert case["tests"], "no test shows it"
    assert missing(case["tests"]) == []
