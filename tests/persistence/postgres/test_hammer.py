"""A short hammering; the long one is ``python -m tests.persistence.postgres.hammer``."""

from __future__ import annotations

import pytest

from tests.persistence.postgres.hammer.counts import EVENTS
from tests.persistence.postgres.hammer.processes import hammer


@pytest.mark.timeout(300)
async def test_several_processes_keep_the_rules_whatever_goes_wrong_with_them(database: str) -> None:
    report = await hammer(database, runs=20, workers=3, seconds=240)
    assert report.faults == []
    assert all(report.counts[event] for event in EVENTS)
