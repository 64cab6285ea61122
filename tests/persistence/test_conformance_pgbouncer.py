"""The Postgres storage keeps the storage protocol through PgBouncer in transaction mode.

Two server connections serve all of it, so that no statement may rely on what an earlier one left in its session; the
wake-ups come over the direct DSN. The whole suite takes a minute and more: what is run is what goes another way through
a pooler, and with RUNNERQ_TEST_POOLED=all the rest as well.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from runnerq.persistence.postgres import PostgresStorage
from runnerq.testing import conformance
from tests.persistence.postgres.backend import PostgresWorld, a_world
from tests.pgbouncer import pgbouncer

pytestmark = pytest.mark.asyncio(loop_scope="module")

OF_SEVERAL_STATEMENTS = (
    "TestStartOrSend", "TestDelete", "TestRetain", "TestPurge", "TestKeys", "TestChildKeys", "TestTransactions",
)  # fmt: skip
"""Transactions of ours, and turns that claim keys."""

WITH_SETTINGS = (
    "TestClaimOrder",
    "TestClaimedOnce",
    "TestTimers",
    "TestSweep",
    "TestReap",
    "TestGivingBack",
    "TestAdopt",
    "TestSignals",
    "TestCancel",
    "TestTerminate",
    "TestRunNow",
    "TestPriority",
    "TestReopenFamily",
    "TestChildrenFromOutside",
    "TestJoined",
)
"""Claims and upkeep, and what may wait for a run's row: one statement in a transaction of its own."""

AS_THEY_ARE = ("TestTurns", "TestPayloads", "TestStarts", "TestLists", "TestChanges", "TestBeat", "TestDetails")
"""Statements under no name, for each kind of parameter; wake-ups and beats, which go past the pooler."""

ALL = os.environ.get("RUNNERQ_TEST_POOLED") == "all"
RUN = conformance.__all__ if ALL else (*OF_SEVERAL_STATEMENTS, *WITH_SETTINGS, *AS_THEY_ARE)
globals().update({name: getattr(conformance, name) for name in RUN})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(module_database: str) -> AsyncIterator[PostgresWorld]:
    with pgbouncer(module_database, pool_size=2) as pooled:
        async with a_world(module_database, lambda: PostgresStorage(pooled, direct_dsn=module_database)) as world:
            yield world


@pytest_asyncio.fixture(loop_scope="module")
async def world(opened: PostgresWorld) -> PostgresWorld:
    await opened.wipe()
    return opened
