"""What the tests look at: a database that is seeded, the server that shows it, and a client that acts beside it."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TypeVar

import httpx
import msgspec

from runnerq.client.client import Client
from runnerq.client.connect import connect
from tests.browser.patience import PATIENCE
from tests.browser.seed import Seeded, seed
from tests.browser.walks import PAGES

ROOT = Path(__file__).parents[2]

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """``sites`` are addresses by the names in ``tests/browser/server.py``, without a slash at the end.

    ``pages`` are the paths of all pages, by their names in ``tests/browser/walks.py``.
    """

    dsn: str
    client: Client
    sites: Mapping[str, str]
    seeded: Seeded
    pages: Mapping[str, str]

    def url(self, path: str, site: str = "open") -> str:
        """The address of a page."""
        return self.sites[site] + path


@asynccontextmanager
async def living_world(dsn: str, *, shown_as: str | None = None) -> AsyncIterator[World]:
    """Seed an empty database, and serve it with a worker beside. ``shown_as`` is the file that stacks then name."""
    async with connect(dsn) as client:
        seeded = await seed(client, dsn)
        async with process("-m", "tests.browser.server", dsn, *([shown_as] if shown_as else [])) as server:
            sites = json.loads(await server.first_line())
            names = {
                **msgspec.structs.asdict(seeded),
                "worker": next(worker.id for worker in await client.storage.workers() if worker.alive),
                "batch": await _batch(sites["open"], seeded),
            }
            pages = {name: path.format_map(names) for name, path in PAGES.items()}
            yield World(dsn, client, sites, seeded, pages)


async def _batch(site: str, seeded: Seeded) -> str:
    """A batch that has met a run which it could not change."""
    async with httpx.AsyncClient() as asking:
        body = {"action": "redrive", "ids": [seeded.done, seeded.failed], "reason": "the warehouse is back"}
        answer = await asking.post(f"{site}/api/v1/runs/batch", json=body, timeout=PATIENCE)
        return str(answer.raise_for_status().json()["batch"]["id"])


class Started:
    """A Python process that was started, and what it prints: ``said`` is its stderr so far."""

    def __init__(self, process: Process, stderr: IO[bytes]) -> None:
        """``stderr`` is appended to: to read it here does not move where the process writes."""
        self.process = process
        self._stderr = stderr

    def said(self) -> str:
        """What it has written to stderr."""
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")

    async def first_line(self) -> str:
        """What it prints first: it is ready then."""
        assert self.process.stdout is not None
        line = await self.within(self.process.stdout.readline(), "print a line")
        if not line:
            raise AssertionError(f"the process ended with {await self.ended()} before it was ready; {self._told()}")
        return line.decode()

    async def ended(self) -> int:
        """Its exit code, once it has ended."""
        return await self.within(self.process.wait(), "end")

    async def within(self, work: Awaitable[T], what: str) -> T:
        """The answer; an AssertionError with what the process has said where that takes too long."""
        try:
            return await asyncio.wait_for(work, PATIENCE)
        except TimeoutError as late:
            raise AssertionError(f"the process did not {what} in {PATIENCE:.0f} s; {self._told()}") from late

    def _told(self) -> str:
        return f"it said:\n{self.said()}" if self.said() else "it said nothing"


@asynccontextmanager
async def process(
    *arguments: str, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> AsyncIterator[Started]:
    """A Python process, which is killed at the end if it has not ended by then."""
    surroundings = None if environment is None else dict(environment)
    with TemporaryFile("a+b") as stderr:
        begun = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stdout=PIPE, stderr=stderr, cwd=folder or ROOT, env=surroundings
        )
        try:
            yield Started(begun, stderr)
        finally:
            if begun.returncode is None:
                begun.kill()
            await begun.wait()
