"""A worker process whose settings a test chooses: ``python -m tests.end_to_end.serving '<Serving as JSON>'``.

It says ``ready`` once it can claim, ``stopping`` when SIGTERM has reached it and it claims no more, and ``stopped``.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time

import msgspec

from runnerq import ids
from runnerq.cli.modules import find
from runnerq.client.client import Client
from runnerq.persistence.postgres import PostgresStorage
from runnerq.runtime.worker import Worker


class Serving(msgspec.Struct, frozen=True):
    """What to serve, and how. ``clock_off`` is by how many seconds the process's clock is ahead of the real one."""

    dsn: str
    queue: str
    module: str = "tests.end_to_end.shop"
    max_workers: int = 10
    max_steps: int = 100
    lease: float = 60.0
    beat: float = 0.2
    poll_interval: float = 5.0
    reaper_interval: float = 0.2
    shutdown_grace: float = 30.0
    clock_off: float = 0.0


async def serve(serving: Serving) -> None:
    found = find([serving.module])
    async with Client(PostgresStorage(serving.dsn, migrate=False)) as client:
        worker = Worker(
            client,
            workflows=found.workflows,
            activities=found.activities,
            queues=(serving.queue,),
            max_workers=serving.max_workers,
            max_steps=serving.max_steps,
            lease=serving.lease,
            beat=serving.beat,
            poll_interval=serving.poll_interval,
            reaper_interval=serving.reaper_interval,
            shutdown_grace=serving.shutdown_grace,
            build="tests",
        )
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
        async with worker:
            print(f"ready {worker.worker_id}", flush=True)
            await told.wait()
            stopping = asyncio.create_task(worker.stop())
            await asyncio.sleep(0)
            print("stopping", flush=True)
            await stopping
    print("stopped", flush=True)


def set_clock_off(seconds: float) -> None:
    """Have every wall clock that Python code of this process can read be off by so much; monotonic ones go on."""
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + seconds
    time.time_ns = ids.time_ns = lambda: real_ns() + int(seconds * 1e9)


def main() -> None:
    serving = msgspec.json.decode(sys.argv[1], type=Serving)
    if serving.clock_off:
        set_clock_off(serving.clock_off)
    asyncio.run(serve(serving))


if __name__ == "__main__":
    main()
