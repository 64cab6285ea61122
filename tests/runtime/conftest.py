from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.protocol import Storage
from tests.postgres import fresh_database
from tests.runtime.stage import Stage


@pytest.fixture(scope="session")
def shared_database(postgres_dsn: str) -> Iterator[str]:
    """One database for all tests of the runtime: their runs are in queues of their own."""
    with fresh_database(postgres_dsn) as dsn:
        yield dsn


def _postgres(dsn: str) -> Storage:
    from runnerq.persistence.postgres import PostgresStorage

    return PostgresStorage(dsn)


@pytest.fixture(params=["memory", "memory-replayed", "postgres-replayed"])
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """Where a behaviour is shown: on both backends, with parked generators kept, and with each resumption a replay."""
    backend, _, replayed = request.param.partition("-")
    storage = MemoryStorage() if backend == "memory" else _postgres(request.getfixturevalue("shared_database"))
    stage = Stage(storage, cache=0 if replayed else 100)
    async with stage.base:
        yield stage


@pytest.fixture(params=["kept", "replayed"])
async def stage_in_memory(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """Where a behaviour is shown that no backend can change: with parked generators kept, and with replays."""
    stage = Stage(MemoryStorage(), cache=0 if request.param == "replayed" else 100)
    async with stage.base:
        yield stage


@pytest.fixture(params=["memory", "postgres"])
async def plain_stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """Where a behaviour that has nothing to do with replay is shown, on both backends."""
    storage = MemoryStorage() if request.param == "memory" else _postgres(request.getfixturevalue("shared_database"))
    stage = Stage(storage)
    async with stage.base:
        yield stage


@pytest.fixture
async def memory() -> AsyncIterator[Stage]:
    """Where a fault of the runtime alone is shown."""
    stage = Stage(MemoryStorage())
    async with stage.base:
        yield stage


@pytest.fixture
async def postgres(shared_database: str) -> AsyncIterator[Stage]:
    """Where a behaviour is shown that only a database can show."""
    stage = Stage(_postgres(shared_database))
    async with stage.base:
        yield stage
