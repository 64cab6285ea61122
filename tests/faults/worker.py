"""A worker process under faults. ``python -m tests.faults.worker PLAN`` (JSON of ``Plan``); SIGTERM drains it.

It says ``ready`` and its worker id when it can claim. What it claims, and what its sweeps mend, is in the ledger.
On SIGUSR1 its clock is put off by what the plan says.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from typing import Any

import msgspec

from runnerq.client.client import Client
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.records import Claim, ClaimRequest
from runnerq.runtime.collector import look_less_often
from runnerq.runtime.worker import Worker
from tests.faults.clocks import put_off
from tests.faults.flows import ACTIVITIES, WORKFLOWS
from tests.faults.ledger import Ledger


class Plan(msgspec.Struct, frozen=True):
    """How this worker is made. ``off`` is what SIGUSR1 adds to its clock, in seconds."""

    dsn: str
    lease: float = 60.0
    slots: int = 50
    off: float = 0.0


class Noted:
    """The storage of a worker that notes what it claims and mends."""

    def __init__(self, storage: PostgresStorage, ledger: Ledger) -> None:
        self._storage = storage
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    async def claim(self, request: ClaimRequest) -> Claim:
        claim = await self._storage.claim(request)
        lines: list[tuple[object, ...]] = [(request.worker_id, run.id, run.token, run.crashes) for run in claim.runs]
        self._ledger.write_all("claimed", lines)
        return claim

    async def sweep(self, limit: int) -> int:
        mended = await self._storage.sweep(limit)
        if mended:
            self._ledger.write("mended", os.getpid(), mended)
        return mended


async def serve(plan: Plan) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    loop.add_signal_handler(signal.SIGUSR1, put_off, plan.off)
    storage: Any = Noted(PostgresStorage(plan.dsn, migrate=False), Ledger.of_environment())
    async with Client(storage) as client:
        worker = Worker(
            client,
            workflows=WORKFLOWS,
            activities=ACTIVITIES,
            max_workers=plan.slots,
            lease=plan.lease,
            shutdown_grace=5,
            build="faults",
        )
        async with worker:
            print(f"ready {worker.worker_id}", flush=True)
            await stopped.wait()


def worth_a_line(record: logging.LogRecord) -> bool:
    """Attempts fail by the thousand here, and are to."""
    return "no answer the first time" not in record.getMessage()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger().handlers[0].addFilter(worth_a_line)
    look_less_often()
    asyncio.run(serve(msgspec.json.decode(sys.argv[1], type=Plan)))
