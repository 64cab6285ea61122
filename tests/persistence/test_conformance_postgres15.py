"""The Postgres storage keeps the storage protocol on PostgreSQL 15, too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from runnerq.testing.conformance import *  # noqa: F403 - the suite is what is run
from tests.persistence.postgres.backend import PostgresWorld, a_world
from tests.postgres import fresh_database

# One storage for all tests of the module: connecting and planning would cost more than they do.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def module_database15(postgres15_dsn: str) -> Iterator[str]:
    with fresh_database(postgres15_dsn) as dsn:
        yield dsn


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(module_database15: str) -> AsyncIterator[PostgresWorld]:
    async with a_world(module_database15) as world:
        yield world


@pytest_asyncio.fixture(loop_scope="module")
async def world(opened: PostgresWorld) -> PostgresWorld:
    await opened.wipe()
    return opened
