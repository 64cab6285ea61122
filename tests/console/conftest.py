"""Fixtures of the console's tests: most run over a storage in memory, in this process, without a server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from runnerq.client.client import Client
from runnerq.console.models.context import Context
from runnerq.persistence.memory import MemoryStorage
from runnerq.runtime.worker import Worker
from tests.console.browsing import Browser, console_of
from tests.console.seeing import context_of
from tests.console.shop import ACTIVITIES, WORKFLOWS


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of a storage in memory."""
    async with Client(MemoryStorage()) as client:
        yield client


@pytest.fixture
def context(client: Client) -> Context:
    """Somebody who may do everything, and sees what everybody sees."""
    return context_of(client)


@pytest.fixture
async def worker(client: Client) -> AsyncIterator[Worker]:
    """A worker of that client's runs."""
    async with Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES, build="tests") as worker:
        yield worker


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
