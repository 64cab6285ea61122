"""Fixtures of the console's tests: most run over a storage in memory, in this process, without a server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from runnerq.client.client import Client
from runnerq.persistence.memory import MemoryStorage
from tests.console.browsing import Browser, console_of


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of a storage in memory."""
    async with Client(MemoryStorage()) as client:
        yield client


@pytest.fixture
async def browser(client: Client) -> AsyncIterator[Browser]:
    """A browser on this machine, at a console of that client that has no auth: it may do everything."""
    async with console_of(client) as browser:
        yield browser


@pytest.fixture
async def reader(client: Client) -> AsyncIterator[Browser]:
    """The same at a console that is read only."""
    async with console_of(client, read_only=True) as browser:
        yield browser
