from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from runnerq.persistence.postgres import PostgresStorage
from tests.runtime.conftest import memory, plain_stage, shared_database, stage, stage_in_memory
from tests.runtime.stage import Stage

__all__ = ["memory", "plain_stage", "shared_database", "stage", "stage_in_memory"]


@pytest.fixture
async def on_postgres(shared_database: str) -> AsyncIterator[Stage]:
    """Where a behaviour is shown that only a database can have."""
    stage = Stage(PostgresStorage(shared_database))
    async with stage.base:
        yield stage
