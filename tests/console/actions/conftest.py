from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from runnerq.client.client import Client
from runnerq.console.models.context import Context, context_of
from runnerq.runtime.worker import Worker
from tests.console.shop import ACTIVITIES, WORKFLOWS


@pytest.fixture
def context(client: Client) -> Context:
    """Somebody who may do everything, and sees what everybody sees."""
    return context_of(client, "ada")


@pytest.fixture
async def worker(client: Client) -> AsyncIterator[Worker]:
    """A worker of that client's runs."""
    async with Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES, build="tests") as worker:
        yield worker
