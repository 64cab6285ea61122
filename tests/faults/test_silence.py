"""A connection that looks alive and answers nothing: what waits for no lock is given up soon."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from runnerq.errors import StorageUnavailable
from runnerq.ids import new_run_id
from runnerq.persistence.postgres import PostgresStorage, connections
from runnerq.persistence.records import Ask, ClaimRequest
from tests.faults.proxy import Fate, Proxy
from tests.faults.server import Server
from tests.faults.wire import OTHER
from tests.postgres import fresh_database, open_folder

PROMPT = 0.5
WELL_BEFORE = connections.COMMAND_TIMEOUT / 4

NEVER_WAIT: dict[str, Callable[[PostgresStorage], Awaitable[object]]] = {
    "claim": lambda storage: storage.claim(
        ClaimRequest(worker_id=1, token=2, pairs=(("default", "order@1"),), limit=1)
    ),
    "wake_due": lambda storage: storage.wake_due(10),
    "release": lambda storage: storage.release(1, []),
    "reap": lambda storage: storage.reap(1, 2, 10),
    "sweep": lambda storage: storage.sweep(10),
    "unblock": lambda storage: storage.unblock("build", ["order@1"], 10),
    "inbox": lambda storage: storage.inbox([Ask(run_id=new_run_id())]),
    "outcomes": lambda storage: storage.outcomes([new_run_id()]),
}


@pytest.fixture
async def cut_off(server: Server, template: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PostgresStorage]:
    """A storage whose every statement is done and never answered."""
    monkeypatch.setattr(connections, "PROMPT_TIMEOUT", PROMPT)
    with fresh_database(server.dsn, template=template) as dsn, open_folder() as folder:
        proxy = Proxy(folder, dsn)
        storage = PostgresStorage((await proxy.door("storage")).dsn)
        await storage.open()
        proxy.set(lambda _, name: Fate.PASS if name == OTHER else Fate.UNANSWERED)
        yield storage
        await proxy.close()
        await storage.close()


@pytest.mark.parametrize("verb", NEVER_WAIT)
async def test_what_a_worker_does_all_the_time_does_not_wait_long_for_a_silent_connection(
    cut_off: PostgresStorage, verb: str
) -> None:
    began = time.monotonic()
    async with asyncio.timeout(WELL_BEFORE):
        with pytest.raises(StorageUnavailable, match="did not answer"):
            await NEVER_WAIT[verb](cut_off)
    assert time.monotonic() - began >= PROMPT
