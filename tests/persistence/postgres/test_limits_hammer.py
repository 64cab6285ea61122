"""A short hammering on limits; the long one is ``python -m tests.persistence.postgres.limits_hammer``."""

from __future__ import annotations

import pytest

from tests.persistence.postgres.limits_hammer import EVENTS, hammer


@pytest.mark.timeout(120)
async def test_limits_hold_and_nothing_is_forgotten_whatever_goes_wrong(database: str) -> None:
    report = await hammer(database, runs=300, workers=4, seconds=100, seed=1)
    assert report.faults == []
    assert all(report.counts[event] for event in EVENTS)
