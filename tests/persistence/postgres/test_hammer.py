"""A short hammering; the long one is ``python -m tests.persistence.postgres.hammer``."""

from __future__ import annotations

import pytest

from tests.persistence.postgres.hammer.processes import hammer


@pytest.mark.timeout(300)
async def test_several_processes_keep_the_rules_whatever_goes_wrong_with_them(database: str) -> None:
    report = await hammer(database, runs=20, workers=3, seconds=240)
    assert report.faults == []
    # That it hammered at all: turns were sent again, were too late, and found rows held.
    assert min(report.counts[each] for each in ("done", "repeated", "again", "busy", "sent", "killed")) > 0
