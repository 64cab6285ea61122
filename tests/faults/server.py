"""The server that faults happen to: an embedded one of its own, durable as in earnest."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import psutil

from runnerq.persistence.embedded import EmbeddedPostgres

PATIENCE = 60.0

SETTINGS = {
    "max_connections": "80",  # so that it can be exhausted
    # Says when an entry became durable, which a step that ran again is compared with.
    "track_commit_timestamp": "on",
    # What was committed without waiting for the disk stays there as long as can be, to be lost in a crash.
    "wal_writer_delay": "10s",
}


class Server:
    """A server that can be crashed, killed, frozen and started again; its data stays."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._postgres = EmbeddedPostgres(folder, settings=SETTINGS)
        self.dsn = ""

    async def start(self) -> None:
        self.dsn = await self._postgres.open()

    async def stop(self) -> None:
        await self._postgres.close()

    async def crash(self) -> None:
        """``pg_ctl stop -m immediate``: no checkpoint, the log is replayed at the next start."""
        await self._end(signal.SIGQUIT, [self._postmaster()])

    async def kill(self) -> None:
        """SIGKILL to all of it, with whatever was not written to the disk in its memory."""
        await self._end(signal.SIGKILL, self._processes())

    def freeze(self) -> None:
        """Nothing of it moves until ``thaw``, and its sockets stay open."""
        self._postmaster().suspend()
        for process in self._processes():
            process.suspend()

    def thaw(self) -> None:
        for process in reversed(self._processes()):
            process.resume()

    def _postmaster(self) -> psutil.Process:
        return psutil.Process(int((self._folder / "data" / "postmaster.pid").read_text().split()[0]))

    def _processes(self) -> list[psutil.Process]:
        postmaster = self._postmaster()
        return [postmaster, *postmaster.children(recursive=True)]

    async def _end(self, how: signal.Signals, processes: list[psutil.Process]) -> None:
        pids = [process.pid for process in [*processes, *self._processes()]]
        for process in processes:
            os.kill(process.pid, how)
        until = time.monotonic() + PATIENCE
        while any(_alive(pid) for pid in pids):
            if time.monotonic() > until:
                raise TimeoutError(f"the server has not ended {PATIENCE:g} s after {how.name}")
            await asyncio.sleep(0.005)
        await self._postgres.close()


def _alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
