from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from runnerq.client.client import Client
from runnerq.persistence.memory import MemoryStorage
from tests.client.serving import a_worker
from tests.client.shop import Player


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of a storage in memory."""
    async with Client(MemoryStorage()) as client:
        yield client


@pytest.fixture
async def player(client: Client) -> Player:
    """The worker of that client's runs."""
    return await Player.of(client.storage)


@pytest.fixture(scope="module")
def served(module_database: str) -> Iterator[str]:
    """A database with a worker of the queue ``default``."""
    with a_worker(module_database):
        yield module_database
