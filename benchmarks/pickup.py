"""How a run tells the process that started it, at once, that it runs: a datagram."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

VARIABLE = "RUNNERQ_BENCH_PICKUP"


class Pickup:
    def __init__(self, receiver: socket.socket) -> None:
        self._receiver = receiver

    async def told(self) -> None:
        """Return when a run has told."""
        async with asyncio.timeout(30):
            await asyncio.get_running_loop().sock_recv(self._receiver, 16)


@asynccontextmanager
async def pickup() -> AsyncIterator[Pickup]:
    """Hear what runs tell, also those of worker processes that are made meanwhile."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        path = str(Path(folder) / "pickup")
        receiver.bind(path)
        receiver.setblocking(False)
        os.environ[VARIABLE] = path
        _sender.cache_clear()
        yield Pickup(receiver)


def tell() -> None:
    """In a run: it runs."""
    _sender().send(b"here")


@cache
def _sender() -> socket.socket:
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.connect(os.environ[VARIABLE])
    return sender
