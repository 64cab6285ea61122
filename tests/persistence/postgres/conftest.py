from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.persistence.postgres.backend import PostgresWorld, a_world


@pytest.fixture
def database(migrated_database: str) -> str:
    """With the library's tables in it: few tests here are about how they are made."""
    return migrated_database


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(module_database: str) -> AsyncIterator[PostgresWorld]:
    """One for all tests of a module."""
    async with a_world(module_database) as world:
        yield world


@pytest_asyncio.fixture(loop_scope="module")
async def world(opened: PostgresWorld) -> PostgresWorld:
    """The module's world, with nothing in it."""
    await opened.wipe()
    return opened
