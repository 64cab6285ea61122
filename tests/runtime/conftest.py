from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext

import pytest
import pytest_asyncio

from runnerq.persistence.memory import MemoryStorage
from tests.postgres import fresh_database
from tests.runtime.stage import Stage


def pytest_itemcollected(item: pytest.Item) -> None:
    """What uses a storage that is opened once for a module runs on the event loop that it was opened on."""
    if not {"made_stage", "made_plain_stage", "module_stage"}.isdisjoint(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest.fixture(scope="session")
def shared_database(migrated_template: str, postgres_dsn: str) -> Iterator[str]:
    """One database for all tests of the runtime: their runs are in queues of their own."""
    with fresh_database(postgres_dsn, template=migrated_template) as dsn:
        yield dsn


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_stage(shared_database: str) -> AsyncIterator[Stage]:
    """Where the Postgres tests of a module come from: to connect and to plan would cost each several times itself."""
    from runnerq.persistence.postgres import PostgresStorage

    stage = Stage(PostgresStorage(shared_database))
    async with stage.base:
        yield stage


def _of(request: pytest.FixtureRequest) -> Stage:
    backend, _, replayed = request.param.partition("-")
    cache = 0 if replayed else 100
    if backend == "memory":
        return Stage(MemoryStorage(), cache)
    opened: Stage = request.getfixturevalue("module_stage")
    return opened.beside(cache)


@asynccontextmanager
async def _open(stage: Stage) -> AsyncIterator[Stage]:
    async with stage.base if isinstance(stage.storage, MemoryStorage) else nullcontext():
        yield stage


# A fixture that is a coroutine cannot ask for another by name: so these are made by one that is none.
@pytest.fixture(params=["memory", "memory-replayed", "postgres-replayed"])
def made_stage(request: pytest.FixtureRequest) -> Stage:
    return _of(request)


@pytest.fixture(params=["memory", "postgres"])
def made_plain_stage(request: pytest.FixtureRequest) -> Stage:
    return _of(request)


@pytest_asyncio.fixture(loop_scope="module")
async def stage(made_stage: Stage) -> AsyncIterator[Stage]:
    """Where a behaviour is shown: on both backends, with parked generators kept, and with each resumption a replay."""
    async with _open(made_stage) as stage:
        yield stage


@pytest_asyncio.fixture(loop_scope="module")
async def plain_stage(made_plain_stage: Stage) -> AsyncIterator[Stage]:
    """Where a behaviour that has nothing to do with replay is shown, on both backends."""
    async with _open(made_plain_stage) as stage:
        yield stage


@pytest.fixture(params=["kept", "replayed"])
async def stage_in_memory(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """Where a behaviour is shown that no backend can change: with parked generators kept, and with replays."""
    stage = Stage(MemoryStorage(), cache=0 if request.param == "replayed" else 100)
    async with stage.base:
        yield stage


@pytest.fixture
async def memory() -> AsyncIterator[Stage]:
    """Where a fault of the runtime alone is shown."""
    stage = Stage(MemoryStorage())
    async with stage.base:
        yield stage


@pytest.fixture
def postgres(module_stage: Stage) -> Stage:
    """Where a behaviour is shown that only a database can show."""
    return module_stage.beside()
