"""The same random workflows on Postgres: dozens, in real time, side by side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from runnerq.persistence.postgres import PostgresStorage
from tests.properties.cases import Case
from tests.properties.census import Census
from tests.properties.checks import check
from tests.properties.many import collected
from tests.properties.playing import quiet
from tests.properties.world import Pace, World

CASES = 24
SIDE_BY_SIDE = 6
PACE = Pace(second=0.1, latency=0.002, lease=1.5, beat=0.1, poll=0.5, top_up=1.0, patience=60)


@pytest.fixture
async def storage(database: str) -> AsyncIterator[PostgresStorage]:
    storage = PostgresStorage(database)
    await storage.open()
    yield storage
    await storage.close()


@pytest.mark.timeout(300)
async def test_a_random_workflow_under_faults_on_postgres_ends_as_the_model_says(storage: PostgresStorage) -> None:
    census = Census()
    places = asyncio.Semaphore(SIDE_BY_SIDE)

    async def play(case: Case) -> None:
        async with places:
            try:
                played = await World(case, storage, PACE).play()
                census.add(played, check(played, PACE.second))
            except BaseException as error:
                error.add_note(f"in memory: python -m tests.properties --case '{case.shown()}'")
                raise

    with quiet():
        async with asyncio.TaskGroup() as group:
            for case in await asyncio.to_thread(collected, CASES, 3):
                group.create_task(play(case))
    print(census.table())
    assert census.cases == CASES
