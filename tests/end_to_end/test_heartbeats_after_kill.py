"""What an attempt said of itself is there after its process was killed."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from tests.end_to_end.conftest import Processes
from tests.end_to_end.serving import Serving
from tests.end_to_end.telling_steps import ACTIVITIES, HALF, WORKFLOWS, copied, copied_in_a_thread, copying
from tests.end_to_end.watching import PATIENCE, ended
from tests.runtime.stage import Stage


@pytest.mark.parametrize("target", [copying, copied_in_a_thread, copied], ids=lambda target: target.__name__)
async def test_the_next_start_goes_on_where_the_killed_one_was(
    database: str, shop: Stage, processes: Processes, target: Any
) -> None:
    # The last one stands still on its event loop: only the heart's own thread still beats there.
    run = await shop.client.start(target, 2 * HALF)
    first = await processes.serving(Serving(database, shop.queue, module="tests.end_to_end.telling_steps"))
    async with asyncio.timeout(PATIENCE):
        while f'{{"row":{HALF}}}' not in await details_of(shop, run.id):
            await asyncio.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    assert await ended(first) == -signal.SIGKILL
    async with shop.worker(*WORKFLOWS, *ACTIVITIES, reaper_interval=0.1):
        # A crash is no failed attempt.
        assert await run.result(timeout=PATIENCE) == [{"row": HALF}, 1, HALF]
    assert await details_of(shop, run.id) == []


async def details_of(shop: Stage, run_id: str) -> list[str]:
    journal = await shop.storage.journal(run_id)
    assert journal is not None
    return [(attempt.details or "").replace(" ", "") for attempt in journal.attempts]
