"""A worker that was stopped past its lease begins nothing when it wakes, whatever it had in its hands."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import msgspec

from tests.end_to_end.conftest import Processes
from tests.end_to_end.processes import Doomed
from tests.end_to_end.shop import ACTIVITIES, WORKFLOWS, wrap
from tests.end_to_end.test_workers_come_and_go import PATIENCE, ended, line_of
from tests.runtime.stage import Stage


async def test_a_claim_that_a_worker_had_in_its_hands_when_it_was_stopped_past_its_lease_begins_nothing(
    shop: Stage, database: str, log: Path, processes: Processes
) -> None:
    run = await shop.client.start(wrap, "cup")
    plan = Doomed(database, shop.queue, run.id, "claim", "after", 1, signal=signal.SIGSTOP, lease=1.0)
    stopped = processes.start("tests.end_to_end.processes", msgspec.json.encode(plan).decode())
    await line_of(stopped, "ready")
    await asyncio.to_thread(os.waitpid, stopped.pid, os.WUNTRACED)
    async with shop.worker(*WORKFLOWS, *ACTIVITIES, reaper_interval=0.1):
        assert await run.result(timeout=PATIENCE) == "wrapped cup"
        stopped.send_signal(signal.SIGCONT)
        # It ends by itself, having seen the run's end.
        assert await ended(stopped) == 0
    # The result was on record when it woke: the activity may not run again.
    assert len(log.read_text().splitlines()) == 1
