"""The short form of the fault suite; the long one is ``make faults``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.faults import SHORT, Fault
from tests.faults.playing import Pace, play
from tests.faults.server import Server

PACE = Pace(rate=20, warm_up=0.5, before=1.0, lasts=1.0, after=1.0)


@pytest.mark.parametrize("fault", SHORT, ids=lambda fault: fault.name)
async def test_faults_under_load_lose_nothing_and_repeat_nothing_that_is_on_record(
    server: Server, fault: Fault, tmp_path: Path
) -> None:
    played = await play(server, fault, PACE, tmp_path / "scene")
    assert played.faults == []
    assert played.found.runs > 0
