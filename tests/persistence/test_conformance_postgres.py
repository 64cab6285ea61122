"""The Postgres storage keeps the storage protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from runnerq.testing.conformance import *  # noqa: F403 - the suite is what is run
from tests.persistence.postgres.backend import PostgresWorld, a_world

# One storage for all tests of the module: connecting and planning would cost more than they do.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(module_database: str) -> AsyncIterator[PostgresWorld]:
    async with a_world(module_database) as world:
        yield world


@pytest_asyncio.fixture(loop_scope="module")
async def world(opened: PostgresWorld) -> PostgresWorld:
    await opened.wipe()
    return opened
