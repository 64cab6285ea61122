"""Two worker processes and one schedule: each tick is run once, also when one of the two is killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from runnerq.client.schedule import Schedule
from runnerq.client.values import Event
from runnerq.persistence.records import Missed, RunFilter, ScheduleRow, Status
from tests.end_to_end.conftest import Processes
from tests.end_to_end.serving import Serving
from tests.end_to_end.shop import label
from tests.end_to_end.watching import PATIENCE, ended
from tests.runtime.stage import Stage

STEP = timedelta(seconds=0.1)


async def test_two_processes_run_each_tick_once_and_one_goes_on_when_the_other_is_killed(
    shop: Stage, database: str, processes: Processes
) -> None:
    client = shop.client
    first = await processes.serving(Serving(database, shop.queue))
    await processes.serving(Serving(database, shop.queue))
    made = Schedule(
        "often", "label", ("Ada",), every=STEP, missed="all", overlap="allow", options={"queue": shop.queue}
    )
    events = client.events()
    await client.schedules.put(made)
    await _completed(events, 12)
    first.kill()
    await ended(first)
    await _completed(events, 12)
    await client.schedules.pause("often")
    info = await client.schedules.get("often")
    assert info is not None
    runs = (await client.list(RunFilter(metadata={"schedule": "often"}), limit=1000)).items
    ticks = sorted(datetime.fromisoformat(run.metadata["scheduled_for"]) for run in runs)
    # No tick is there twice, and none is missing.
    assert [tick - ticks[0] for tick in ticks] == [n * STEP for n in range(len(ticks))]
    assert info.started == len(ticks) >= 24
    assert ticks[0] == info.changed_at + STEP


async def test_ticks_that_no_worker_was_up_for_are_run_as_the_schedule_says_when_one_starts(shop: Stage) -> None:
    client, hour = shop.client, timedelta(hours=1)
    now = await client.storage.now()
    policies: tuple[Missed, ...] = ("skip", "once", "all")
    for missed in policies:
        row = ScheduleRow(
            name=missed,
            workflow="label",
            input='["Ada"]',
            every=3600.0,
            missed=missed,
            overlap="skip",
            queue=shop.queue,
        )
        assert await client.storage.put_schedule(row, None, now - 5.5 * hour, now - 4.5 * hour)
    async with shop.worker(label):
        async with asyncio.timeout(PATIENCE):
            while await client.count(RunFilter(status=Status.COMPLETED)) < 6:
                await asyncio.sleep(0.01)
            # It starts nothing, so nothing tells that it was looked at.
            while (skipping := await client.schedules.get("skip")) is None or skipping.last_at is None:
                await asyncio.sleep(0.01)
    found = {each.name: each for each in await client.schedules.list()}
    assert {name: each.started for name, each in found.items()} == {"skip": 0, "once": 1, "all": 5}
    assert {each.last_at for each in found.values()} == {now - 0.5 * hour}
    assert {each.next_at for each in found.values()} == {now + 0.5 * hour}
    for name, ticks in {
        "once": [now - 0.5 * hour],
        "all": [now - (n + 0.5) * hour for n in reversed(range(5))],
    }.items():
        infos = [await client.info(run_id) for run_id in found[name].runs]
        assert [datetime.fromisoformat(info.metadata["scheduled_for"]) for info in infos] == ticks


async def _completed(events: AsyncIterator[Event], count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        async for event in events:
            count -= event.kind == Status.COMPLETED
            if count == 0:
                return
