"""The loop that fires schedules, in virtual time, against a storage in memory whose clock is the loop's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from runnerq.errors import StorageUnavailable
from runnerq.persistence.coded import coded
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import DueSchedule, DueSchedules, Fired, Firing, RunFilter, ScheduleRecord, ScheduleRow
from runnerq.runtime.ticker import AT_ONCE, PICKED, Ticker
from runnerq.serialization.chains import chain_of
from runnerq.serialization.compression import Compression
from runnerq.testing.conformance.schedules import a_schedule
from runnerq.testing.conformance.world import a_run
from tests.runtime.virtual_time import in_virtual_time, settle

START = datetime(2026, 1, 1, tzinfo=UTC)


class LoopClock:
    """Database time that is the loop's."""

    def now(self) -> datetime:
        return START + timedelta(seconds=asyncio.get_running_loop().time())


class Watched(MemoryStorage):
    """Writes down when what was fired. The firing of those in ``held`` waits, of those in ``lost`` it is somebody
    else's; ``error`` is raised instead of a look."""

    def __init__(self) -> None:
        super().__init__(LoopClock())
        self.looks = 0
        self.read: list[str] = []
        self.fired: list[tuple[str, float]] = []
        self.held: dict[str, asyncio.Event] = {}
        self.lost: set[str] = set()
        self.error: Exception | None = None

    async def due_schedules(self, limit: int, after: DueSchedule | None = None) -> DueSchedules:
        self.looks += 1
        if self.error is not None:
            raise self.error
        return await super().due_schedules(limit, after)

    async def schedule(self, name: str) -> ScheduleRecord | None:
        self.read.append(name)
        return await super().schedule(name)

    async def fire(self, firing: Firing) -> Fired | None:
        if firing.name in self.held:
            await self.held[firing.name].wait()
        if firing.name in self.lost:
            return None
        fired = await super().fire(firing)
        assert fired is not None
        self.fired.append((firing.name, asyncio.get_running_loop().time()))
        return fired

    async def put(self, row: ScheduleRow, due_in: float) -> None:
        now = await self.now()
        assert await self.put_schedule(row, None, now, now + timedelta(seconds=due_in))

    def times(self) -> list[float]:
        return [round(at, 2) for _, at in self.fired]


@asynccontextmanager
async def ticking(storage: Watched) -> AsyncIterator[None]:
    task = asyncio.create_task(Ticker(storage, interval=5.0, timers=asyncio.get_running_loop()).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


@in_virtual_time
async def test_it_sleeps_until_a_tick_and_fires_it_then() -> None:
    storage = Watched()
    await storage.put(a_schedule("a", every=60.0, overlap="allow"), 60)
    async with ticking(storage):
        await asyncio.sleep(200)
        assert storage.times() == [60.0, 120.0, 180.0]
        # A look a poll interval, and a few around each tick.
        assert storage.looks < 70


@in_virtual_time
async def test_it_hears_of_what_is_put_and_resumed() -> None:
    storage = Watched()
    async with ticking(storage):
        await asyncio.sleep(0.1)
        await storage.put(a_schedule("a", every=1.0, overlap="allow"), 0.5)
        await asyncio.sleep(1)
        assert storage.times() == [0.6]
        await storage.pause_schedule("a")
        await asyncio.sleep(3)
        assert storage.times() == [0.6]
        record = await storage.schedule("a")
        assert record is not None
        await storage.resume_schedule("a", record.serial, await storage.now())
        await settle()
        assert storage.times() == [0.6, 4.1]


@in_virtual_time
async def test_one_that_cannot_be_fired_now_holds_up_no_other() -> None:
    storage = Watched()
    storage.held["stuck"] = asyncio.Event()
    await storage.put(a_schedule("stuck", every=60.0), 0)
    await storage.put(a_schedule("free", every=1.0, overlap="allow"), 1)
    async with ticking(storage):
        await asyncio.sleep(3.5)
        assert {name for name, _ in storage.fired} == {"free"}
        assert storage.times() == [1.0, 2.0, 3.0]
        storage.held["stuck"].set()
        await settle()
        assert storage.fired[-1][0] == "stuck"


@in_virtual_time
async def test_one_that_somebody_else_fires_again_and_again_is_left_alone_ever_longer() -> None:
    storage = Watched()
    storage.lost.add("a")
    await storage.put(a_schedule("a", every=60.0), 0)
    async with ticking(storage):
        await asyncio.sleep(60)
        assert 10 < storage.looks < 60
        storage.lost.clear()
        await asyncio.sleep(7)
        assert len(storage.fired) >= 1


@in_virtual_time
async def test_a_schedule_whose_rule_this_code_cannot_read_is_told_and_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = Watched()
    await storage.put(a_schedule("bad", every=None, cron="@hourly"), 0)
    await storage.put(a_schedule("good", every=1.0, overlap="allow"), 1)
    with caplog.at_level(logging.ERROR, "runnerq"):
        async with ticking(storage):
            await asyncio.sleep(2.5)
    assert storage.times() == [1.0, 2.0]
    assert "schedule 'bad' cannot be fired by this worker" in caplog.text
    assert "has 1 field" in caplog.text


@in_virtual_time
async def test_any_number_that_cannot_be_fired_hold_up_no_other_and_are_each_told_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runnerq.runtime.ticker.SEEN", 10)
    monkeypatch.setattr("runnerq.runtime.ticker.PICKED", 3)
    bad = [f"bad{number}" for number in range(40)]
    storage = Watched()
    for name in bad:
        await storage.put(a_schedule(name, every=None, cron="@hourly"), -3600)
    await storage.put(a_schedule("good", every=1.0, overlap="allow"), 1)
    with caplog.at_level(logging.ERROR, "runnerq"):
        async with ticking(storage):
            await asyncio.sleep(60.5)
    assert storage.times() == [float(second) for second in range(1, 61)]
    assert caplog.text.count("cannot be fired by this worker") == len(bad)
    # Ever more seldom, and not at each tick of the good one.
    assert max(storage.read.count(name) for name in bad) < 10


@in_virtual_time
async def test_one_that_nothing_is_known_against_goes_before_those_that_are_tried_again() -> None:
    storage = Watched()
    for number in range(50):
        await storage.put(a_schedule(f"bad{number}", every=None, cron="@hourly"), -3600)
    async with ticking(storage):
        await settle()
        assert len(storage.read) == 50
        # While it cannot look, the time of all of them comes.
        storage.error = StorageUnavailable("away")
        await storage.put(a_schedule("good", every=60.0), 0)
        await asyncio.sleep(4)
        storage.error = None
        await asyncio.sleep(6)
    assert "good" in storage.read[50 : 50 + PICKED]


@in_virtual_time
async def test_one_that_others_fire_is_told_once_and_not_at_each_tick(caplog: pytest.LogCaptureFixture) -> None:
    storage = Watched()
    keyed: Any = coded(storage, chain_of(Compression(min_size=0)))
    now = await storage.now()
    row = a_schedule("a", every=1.0, overlap="allow", input=f'["{"x" * 200}"]')
    assert await keyed.put_schedule(row, None, now, now + timedelta(seconds=1))
    with caplog.at_level(logging.ERROR, "runnerq"):
        async with ticking(storage), ticking(keyed):
            await asyncio.sleep(30.5)
    assert len(storage.fired) == 30
    assert caplog.text.count("cannot be fired by this worker") == 1


@in_virtual_time
async def test_of_those_that_are_due_only_what_is_fired_is_read() -> None:
    storage = Watched()
    for number in range(50):
        await storage.put(a_schedule(f"a{number}", every=60.0), 0)
        storage.held[f"a{number}"] = asyncio.Event()
    async with ticking(storage):
        await settle()
        assert len(storage.read) == AT_ONCE
        for event in storage.held.values():
            event.set()
        await settle()
    assert len(storage.fired) == 50
    assert sorted(storage.read) == sorted(name for name, _ in storage.fired)


@in_virtual_time
async def test_where_the_storage_does_not_answer_it_looks_again() -> None:
    storage = Watched()
    storage.error = StorageUnavailable("away")
    await storage.put(a_schedule("a", every=60.0), 0)
    async with ticking(storage):
        await asyncio.sleep(20)
        assert storage.fired == []
        storage.error = None
        await asyncio.sleep(7)
        assert len(storage.fired) == 1


@in_virtual_time
async def test_a_schedule_by_name_starts_what_is_known_then() -> None:
    storage = Watched()
    await storage.put(a_schedule("a", kind=None, version=0, every=60.0), 1)
    async with ticking(storage):
        await asyncio.sleep(2)
    record = await storage.schedule("a")
    assert record is not None
    run = await storage.run(record.runs[0])
    assert run is not None
    assert (run.version, msgspec.json.decode(run.metadata or "{}")["schedule"]) == (0, "a")


@in_virtual_time
async def test_what_was_missed_beyond_one_firing_follows_at_once() -> None:
    storage = Watched()
    row = a_schedule("a", every=1.0, missed="all", overlap="skip")
    since = START - timedelta(seconds=2500)
    assert await storage.put_schedule(row, None, since, since + timedelta(seconds=1))
    async with ticking(storage):
        await settle()
        await asyncio.sleep(0.01)
    record: Any = await storage.schedule("a")
    assert (record.started, record.skipped, record.behind) == (2500, 0, False)


@in_virtual_time
async def test_what_was_missed_beyond_one_firing_is_passed_over_too_while_a_run_is_open() -> None:
    storage = Watched()
    row = a_schedule("a", every=1.0, missed="all", overlap="skip")
    since = START - timedelta(seconds=2500)
    assert await storage.put_schedule(row, None, since, since + timedelta(seconds=1))
    assert await storage.trigger("a", a_run()) is not None
    async with ticking(storage):
        await settle()
        await asyncio.sleep(0.01)
    record: Any = await storage.schedule("a")
    assert (record.started, record.skipped, record.behind) == (0, 2500, False)


@in_virtual_time
async def test_a_schedule_whose_arguments_are_sealed_is_left_to_a_worker_that_can_open_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = Watched()
    keyed: Any = coded(storage, chain_of(Compression(min_size=0)))
    now = await storage.now()
    row = a_schedule("a", every=60.0, input=f'["{"x" * 200}"]')
    assert await keyed.put_schedule(row, None, now, now + timedelta(seconds=1))
    with caplog.at_level(logging.ERROR, "runnerq"):
        async with ticking(storage):
            await asyncio.sleep(10)
    assert storage.fired == []
    assert "the input of schedule 'a'" in caplog.text
    async with ticking(keyed):
        await asyncio.sleep(1)
    [listed] = (await keyed.list_runs(RunFilter(), 10)).runs
    run = await keyed.run(listed.id)
    assert run is not None
    assert run.input == row.input
    assert await keyed.schedule("a") != await storage.schedule("a")
