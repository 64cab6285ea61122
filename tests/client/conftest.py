from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from runnerq.client.client import Client
from runnerq.persistence.memory import MemoryStorage
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
