"""The in-memory storage keeps the storage protocol."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import pytest

from runnerq.clock import ManualClock
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.protocol import Storage
from runnerq.testing.conformance import *  # noqa: F403 - the suite is what is run


class MemoryWorld:
    """A storage whose clock is a test's."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.memory = MemoryStorage(self.clock)

    @property
    def storage(self) -> Storage:
        return self.memory

    async def another(self) -> Storage:
        return self.memory

    def transaction(self) -> AbstractAsyncContextManager[object]:
        return self.memory.transaction()

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    async def lose_wake(self, run_id: str) -> None:
        with self.memory.writing() as (book, now):
            row = book.open[run_id]
            assert row.state == "pending"
            row.state = "waiting"
            row.parked_at = now
            row.needs = row.park.needs

    async def forget_worker(self, worker_id: int) -> None:
        with self.memory.writing() as (book, _):
            del book.workers[worker_id]


@pytest.fixture
def world() -> MemoryWorld:
    return MemoryWorld()
