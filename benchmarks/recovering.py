"""``python -m benchmarks.recovering DSN``: a worker process whose activities last."""

from __future__ import annotations

import logging

import runnerq as rq
from benchmarks.recovery import HELD
from benchmarks.systems import for_ever, told_to_go, works
from benchmarks.workflows import held


async def work(dsn: str) -> None:
    logging.disable()  # of each run that is taken over, and of those that are cut off at the end
    async with rq.connect(dsn, migrate=False) as client:
        await told_to_go()
        async with rq.Worker(
            client, workflows=[], activities=[held], max_workers=HELD, max_steps=HELD, shutdown_grace=0.1
        ):
            await for_ever()


if __name__ == "__main__":
    works(work)
