"""Imported before the tests, because pytest shows what an assert compared only in modules it heard of before."""

from __future__ import annotations

import pytest

_MODULES = (
    "cancels changes children claims commits liveness payloads reads renewing reopening signals starts terminating "
    "upkeep world"
)

pytest.register_assert_rewrite(*(f"runnerq.testing.conformance.{name}" for name in _MODULES.split()))
