from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from runnerq.client.client import Client
from runnerq.console.console import Console
from runnerq.runtime.worker import Worker
from tests.console.api.flows import ACTIVITIES, WORKFLOWS
from tests.console.browsing import PLACE, Browser, browsing

ROOT = f"{PLACE}/api/v1"


@asynccontextmanager
async def api_of(client: Client, **options: Any) -> AsyncIterator[Browser]:
    """A program at the API of a console of this client, which has no pages."""
    console = Console(client, api_only=True, **options)
    async with console.lifespan(), browsing(console.app(), ROOT) as api:
        yield api


@pytest.fixture
async def api(client: Client) -> AsyncIterator[Browser]:
    """A program on this machine, at the API of a console without auth: it may do everything."""
    async with api_of(client) as api:
        yield api


@pytest.fixture
async def worker(client: Client) -> AsyncIterator[Worker]:
    """A worker of that client's runs."""
    async with Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES, build="tests") as worker:
        yield worker
