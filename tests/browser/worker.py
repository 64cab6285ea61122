"""A worker to be killed: ``python -m tests.browser.worker DSN``. It prints its pid once it can claim."""

from __future__ import annotations

import asyncio
import os
import sys

from runnerq.client.connect import connect
from runnerq.runtime.worker import Worker
from tests.browser import shop


async def main(dsn: str) -> None:
    async with (
        connect(dsn, migrate=False) as client,
        Worker(client, workflows=[shop.ask], queues=["killed"], lease=3, beat=0.5, build="killed"),
    ):
        print(os.getpid(), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
