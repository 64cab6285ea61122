"""What a workload asks of a system that is measured, runnerq and its peers alike, so that one code measures all.

A system is a module with a worker: ``python -m MODULE DSN`` gets it ready, prints READY, waits for a line, and works
until it is terminated. So what a worker takes to start is not measured, and what it does from its first claim on is.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import uvloop

END_PATIENCE = 10.0


class Producer(Protocol):
    """Starts runs. Names: ``trivial``, an activity or the like; ``told``, the same that tells ``Pickup`` of itself
    (a workflow of one step, where the system has such); ``steps``, a workflow of 20 steps."""

    async def one(self, name: str) -> Any:
        """Start one, durably; its id."""
        ...

    async def many(self, name: str, count: int) -> None:
        """Start so many, by the system's own bulk call where there is one."""
        ...

    async def result(self, run: Any) -> None:
        """Return when this run has ended, by the system's own way to wait, or else by asking each millisecond."""
        ...


class System(Protocol):
    """``ended`` is SQL that counts what has ended; ``workers`` says how many processes work beside the producer: none
    where the producer's own process does."""

    name: str
    module: str
    ended: str
    workers: int

    async def prepare(self, dsn: str) -> None:
        """Make the tables."""
        ...

    def producer(self, dsn: str, connections: int) -> AbstractAsyncContextManager[Producer]:
        """Something that starts runs, with so many connections."""
        ...


class FansOut(System, Protocol):
    """A system whose workflows have children."""

    async def fan_out(self, producer: Any, children: int) -> None:
        """Start a parent of so many children that awaits them all; return when it has ended."""
        ...


class Workers:
    """Worker processes that are ready, and begin with ``go``."""

    def __init__(self, processes: list[Process]) -> None:
        self._processes = processes
        self.pids = [process.pid for process in processes]

    def go(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(b"go\n")

    def kill(self, which: int) -> None:
        """SIGKILL, to one."""
        self._processes[which].send_signal(signal.SIGKILL)


@asynccontextmanager
async def workers_of(module: str, dsn: str, count: int) -> AsyncIterator[Workers]:
    """So many worker processes, ended afterwards."""
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-m", module, dsn, stdin=PIPE, stdout=PIPE)
        for _ in range(count)
    ]
    try:
        await asyncio.gather(*(_ready(process) for process in processes))
        yield Workers(processes)
    finally:
        await asyncio.gather(*(_ended(process) for process in processes))


async def _ready(process: Process) -> None:
    assert process.stdout is not None
    async for line in process.stdout:
        if line.strip() == b"READY":
            return
    raise RuntimeError(f"a worker process ended before it was ready, with {await process.wait()}")


async def _ended(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), END_PATIENCE)
    except TimeoutError:
        process.kill()
        await process.wait()


async def told_to_go() -> None:
    """In a worker process: say that it is ready, and wait until it is to begin."""
    print("READY", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def for_ever() -> None:
    """In a worker process: wait to be terminated."""
    await asyncio.get_running_loop().create_future()


def works(worker: Callable[[str], Awaitable[None]]) -> None:
    """Be a worker process of the DSN on the command line until SIGTERM."""

    async def main() -> None:
        task = asyncio.ensure_future(worker(sys.argv[1]))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            return

    uvloop.run(main())
