"""Imported before the tests: pytest shows what an assert compared only in modules that it heard of before their import."""

from __future__ import annotations

import pytest

_TESTS = (
    "cancels", "changes", "children", "claims", "commits", "liveness", "payloads", "reads", "signals", "starts", "upkeep",
    "world",
)  # fmt: skip

pytest.register_assert_rewrite(*(f"runnerq.testing.conformance.{name}" for name in _TESTS))
