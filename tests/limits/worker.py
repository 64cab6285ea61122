"""A worker process of the limits' load: ``python -m tests.limits.worker '<Working as JSON>'``.

It says ``ready`` once it can claim, and notes each claim in the book ``claimed``: when it was sent, run id, token; the
line's own time is when it was answered.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import Any

import msgspec

from runnerq.client.client import Client
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.records import Claim, ClaimRequest
from runnerq.runtime.worker import Worker
from tests.faults.ledger import Ledger, real_time
from tests.limits.flows import ACTIVITIES, WORKFLOWS


class Working(msgspec.Struct, frozen=True):
    """What to serve."""

    dsn: str
    queues: tuple[str, ...]
    slots: int


class NotedClaims:
    """A storage whose claims are noted."""

    def __init__(self, storage: PostgresStorage) -> None:
        self._storage = storage
        self._ledger = Ledger.of_environment()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    async def claim(self, request: ClaimRequest) -> Claim:
        sent = real_time()
        claim = await self._storage.claim(request)
        self._ledger.write_all("claimed", [(f"{sent:.6f}", run.id, run.token) for run in claim.runs])
        return claim


async def work(working: Working) -> None:
    storage: Any = NotedClaims(PostgresStorage(working.dsn, migrate=False))
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with Client(storage) as client:
        worker = Worker(
            client,
            workflows=WORKFLOWS,
            activities=ACTIVITIES,
            queues=working.queues,
            max_workers=working.slots,
            beat=0.2,
            reaper_interval=0.2,
            build="limits",
        )
        async with worker:
            print("ready", flush=True)
            await told.wait()


if __name__ == "__main__":
    logging.getLogger("runnerq").setLevel(logging.ERROR)  # failed attempts and crashes are meant
    asyncio.run(work(msgspec.json.decode(sys.argv[1], type=Working)))
