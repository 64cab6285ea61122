"""``runnerq limits``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

Call = Callable[..., Result]
Answer = Callable[..., Any]


def test_a_limit_is_set_listed_changed_and_ended(runnerq: Call, answer: Answer) -> None:
    assert "limited 'stripe'" in runnerq("limits", "set", "stripe", "--concurrency", "5", "--rate", "100/1m").stderr
    [stripe] = answer("limits", "list", "-o", "json")
    assert (stripe["concurrency"], stripe["rate"], stripe["per_key"]) == (5, [100, 60.0], False)
    assert "100 in 60 s" in runnerq("limits", "list").stdout
    changed = answer("limits", "set", "stripe", "--rate", "5/s", "--per-key", "-o", "json")
    assert (changed["concurrency"], changed["rate"], changed["per_key"]) == (None, [5, 1.0], True)
    assert answer("limits", "delete", "stripe", "-o", "json") == {"changed": True}
    assert "nothing changed" in runnerq("limits", "delete", "stripe").stderr
    assert answer("limits", "list", "-o", "json") == []


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["--rate", "often"],
        ["--rate", "5"],
        ["--rate", "5/never"],
        ["--rate", "0/1s"],
        ["--concurrency", "-1"],
    ],
)
def test_what_can_be_no_limit_is_wrong_usage(runnerq: Call, wrong: list[str]) -> None:
    refused = runnerq("limits", "set", "stripe", *wrong)
    assert (refused.exit_code, refused.stdout) == (2, "")
