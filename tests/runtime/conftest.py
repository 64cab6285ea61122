from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.protocol import Storage
from tests.runtime.stage import Stage


@asynccontextmanager
async def _postgres(dsn: str) -> AsyncIterator[Storage]:
    from runnerq.persistence.postgres import PostgresStorage

    storage = PostgresStorage(dsn)
    await storage.open()
    try:
        yield storage
    finally:
        await storage.close()


@pytest.fixture(params=["memory", "memory, replayed", "postgres, replayed"])
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """Where a behaviour is shown: on both backends, with parked generators kept and with each resumption a replay."""
    cache = 0 if request.param.endswith("replayed") else 100
    if request.param.startswith("memory"):
        async with Stage(MemoryStorage(), cache).base as base:
            stage = Stage(base.storage, cache)
            yield stage
    else:
        async with _postgres(request.getfixturevalue("module_database")) as storage:
            yield Stage(storage, cache)


@pytest.fixture
async def memory() -> Stage:
    """Where a fault of the runtime alone is shown."""
    return Stage(MemoryStorage())
