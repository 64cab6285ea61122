"""How often the fleet's queues are read for gauges."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from runnerq.errors import StorageUnavailable
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import QueueRecord
from runnerq.runtime.gauging import INTERVAL, SHARE, Gauging
from runnerq.runtime.reading import DatabaseTime
from runnerq.runtime.reporter import Reporter
from runnerq.telemetry.events import QueuesRead, WorkerRead
from runnerq.telemetry.listeners import Telemetry
from tests.telemetry.hearing import SOON, Ear


class Timers:
    """Time passes at once, and every wait is kept."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> asyncio.Handle:
        self.waits.append(delay)
        self.now += delay + 0.5
        return asyncio.get_running_loop().call_soon(callback, *args)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> asyncio.Handle:
        return self.call_later(when - self.now, callback, *args)


class Queues(MemoryStorage):
    """Its queues take their time to be read."""

    def __init__(self, timers: Timers, seconds: float | None) -> None:
        super().__init__()
        self._timers = timers
        self._seconds = seconds

    async def queues(self) -> list[QueueRecord]:
        if self._seconds is None:
            raise StorageUnavailable("no answer")
        self._timers.now += self._seconds
        return [QueueRecord(name="default", ready=1, workers=3), QueueRecord(name="other", workers=2)]


@pytest.mark.parametrize(
    ("seconds", "wait"),
    [(0.01, INTERVAL), (2.0, 2.0 * 3 / SHARE), (None, INTERVAL)],
    ids=["at once", "slowly", "not at all"],
)
async def test_the_longer_the_queues_take_to_be_read_the_more_seldom_that_is(
    seconds: float | None, wait: float
) -> None:
    ear, timers = Ear(), Timers()

    def read(late: float) -> WorkerRead:
        return WorkerRead(
            worker_id=1, slots=1, slots_taken=0, attempts_running=0, attempts_waiting=0, stuck=0, waiting_turns=0,
            parked_in_memory=0, loop_lag_seconds=late,
        )  # fmt: skip

    reporter = Reporter(Telemetry([ear]), 1, DatabaseTime())
    gauging = asyncio.create_task(Gauging(Queues(timers, seconds), reporter=reporter, read=read, timers=timers).run())
    await ear.until(WorkerRead, lambda event: len(ear.of(WorkerRead)) > 2)
    gauging.cancel()
    await asyncio.wait({gauging}, timeout=SOON)
    assert all(0.8 * wait <= each <= 1.2 * wait for each in timers.waits)
    assert [each.loop_lag_seconds for each in ear.of(WorkerRead)][:2] == [0.0, pytest.approx(0.5)]
    assert bool(ear.of(QueuesRead)) is (seconds is not None)
