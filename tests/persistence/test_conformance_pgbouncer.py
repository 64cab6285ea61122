"""The Postgres storage keeps the storage protocol through PgBouncer in transaction mode.

Two server connections serve all of it, so that no statement may rely on what an earlier one left in its session; the
wake-ups come over the direct DSN.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from runnerq.persistence.postgres import PostgresStorage
from runnerq.testing.conformance import *  # noqa: F403 - the suite is what is run
from tests.persistence.postgres.backend import PostgresWorld, a_world
from tests.pgbouncer import pgbouncer

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(module_database: str) -> AsyncIterator[PostgresWorld]:
    with pgbouncer(module_database, pool_size=2) as pooled:
        async with a_world(module_database, lambda: PostgresStorage(pooled, direct_dsn=module_database)) as world:
            yield world


@pytest_asyncio.fixture(loop_scope="module")
async def world(opened: PostgresWorld) -> PostgresWorld:
    await opened.wipe()
    return opened
