"""What the tests look at: a database that is seeded, the server that shows it, and a client that acts beside it."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from runnerq.client.client import Client
from runnerq.client.connect import connect
from tests.browser.seed import Seeded, seed

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0
"""Seconds in which a server must answer."""


@dataclass(frozen=True)
class World:
    """``sites`` are addresses by the names in ``tests/browser/server.py``, without a slash at the end."""

    dsn: str
    client: Client
    sites: Mapping[str, str]
    seeded: Seeded

    def url(self, path: str, site: str = "open") -> str:
        """The address of a page."""
        return self.sites[site] + path


@asynccontextmanager
async def living_world(dsn: str, *, shown_as: str | None = None) -> AsyncIterator[World]:
    """Seed an empty database, and serve it with a worker beside. ``shown_as`` is the file that stacks then name."""
    async with connect(dsn) as client:
        seeded = await seed(client, dsn)
        async with process("-m", "tests.browser.server", dsn, *([shown_as] if shown_as else [])) as server:
            yield World(dsn, client, json.loads(await first_line(server)), seeded)


@asynccontextmanager
async def process(
    *arguments: str, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> AsyncIterator[Process]:
    """A Python process, which is killed at the end if it has not ended by then."""
    surroundings = None if environment is None else dict(environment)
    started = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=PIPE, cwd=folder or ROOT, env=surroundings
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


async def first_line(started: Process) -> str:
    """What a process prints first: it is ready then."""
    assert started.stdout is not None
    line = await asyncio.wait_for(started.stdout.readline(), PATIENCE)
    assert line, f"the process ended with {await started.wait()} before it was ready"
    return line.decode()
