"""One fault's scene: a database, two worker processes, a load process, a proxy where one is needed, and a ledger."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import msgspec

from runnerq.client.client import Client
from runnerq.persistence.postgres import PostgresStorage
from tests.faults import load, worker
from tests.faults.ledger import FOLDER_VARIABLE, Ledger, real_time
from tests.faults.proxy import Door, Proxy
from tests.faults.server import Server

ROOT = Path(__file__).parents[2]
HOUR = 3600.0
READY = 60.0
"""Seconds for a process to say that it is ready, on a machine that has a lot to do."""
PARTING = 30.0


class Process:
    """A process of the scene. ``door`` is its way through the proxy, ``worker_id`` what a worker said at first."""

    def __init__(self, process: asyncio.subprocess.Process, door: Door | None) -> None:
        self._process = process
        self.worker_id = 0
        self.door = door

    async def ready(self) -> bool:
        """Whether it came so far as to say so."""
        assert self._process.stdout is not None
        said = (await asyncio.wait_for(self._process.stdout.readline(), READY)).decode().split()
        self.worker_id = int(said[1]) if len(said) > 1 else 0
        return bool(said)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    @property
    def ended(self) -> bool:
        return self._process.returncode is not None

    async def code(self, within: float) -> int | None:
        """How it ended; None if it has not ended in time."""
        try:
            return await asyncio.wait_for(self._process.wait(), within)
        except TimeoutError:
            return None

    async def end(self) -> None:
        if not self.ended:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            if await self.code(PARTING) is None:
                self._process.kill()
                await self._process.wait()


class Missed(msgspec.Struct, frozen=True):
    """Runs whose worker was gone at this time, and how many seconds it may take until others have all of them."""

    runs: frozenset[str]
    since: float
    within: float


class Scene:
    """What a fault can lay hands on."""

    def __init__(self, server: Server, dsn: str, folder: Path) -> None:
        self.server = server
        self.database = dsn
        self.ledger = Ledger(folder / "ledger")
        self.workers: list[Process] = []
        self.load: Process
        self._started: list[Process] = []
        self.proxy: Proxy | None = None
        self.origin: float | None = None
        self.missed: list[Missed] = []
        self.doubts: list[str] = []
        self.said: list[str] = []
        self._folder = folder
        self._lease = 60.0

    def say(self, what: str) -> None:
        """Something to be read beside the fault's line in the table."""
        self.said.append(what)

    def must(self, holds: bool, what: str) -> None:
        """A fault that did not happen proves nothing: then this is a failure of the suite."""
        if not holds:
            self.doubts.append(what)

    def from_now(self) -> None:
        """Recovery counts from now, and not from the end of the fault."""
        self.origin = real_time()

    async def connect(self, **settings: str) -> asyncpg.Connection:
        """A connection of somebody else's, straight to the server."""
        return await asyncpg.connect(self.database, server_settings={"application_name": "somebody", **settings})

    async def ask(self, query: str, *args: object) -> list[asyncpg.Record]:
        connection = await self.connect()
        try:
            rows: list[asyncpg.Record] = await connection.fetch(query, *args)
            return rows
        finally:
            await connection.close()

    async def start(self, *, rate: float, lease: float, through_proxy: bool) -> None:
        self._lease = lease
        if through_proxy:
            self.proxy = Proxy(self._folder, self.database)
        # Side by side, as most of it is importing.
        *self.workers, self.load = await asyncio.gather(
            self._worker("w1", HOUR),
            self._worker("w2", -HOUR),
            self._process("load", load.__name__, lambda dsn: load.Plan(dsn, rate)),
        )

    async def replace(self, gone: Process) -> None:
        """What a supervisor does when a worker has died."""
        self.workers.remove(gone)
        self.workers.append(await self._worker("w3", HOUR))

    def miss(self, runs: set[str], within: float) -> None:
        """These runs' worker is gone as of now; others must have all of them in time."""
        self.missed.append(Missed(frozenset(runs), real_time(), within))

    async def _worker(self, name: str, off: float) -> Process:
        return await self._process(name, worker.__name__, lambda dsn: worker.Plan(dsn, lease=self._lease, off=off))

    async def _process(self, name: str, module: str, plan: Callable[[str], msgspec.Struct]) -> Process:
        door = None if self.proxy is None else await self.proxy.door(name)
        made = plan(self.database if door is None else door.dsn)
        path = self._folder / f"{name}.log"
        with path.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", module, msgspec.json.encode(made).decode()),
                cwd=ROOT,
                env={**os.environ, FOLDER_VARIABLE: str(self._folder / "ledger")},
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        started = Process(process, door)
        self._started.append(started)
        if not await started.ready():
            raise RuntimeError(f"{name} did not begin: {path.read_text()[-2000:]}")
        return started

    async def close(self) -> None:
        await asyncio.gather(*(process.end() for process in self._started))
        if self.proxy is not None:
            await self.proxy.close()


@asynccontextmanager
async def a_scene(server: Server, dsn: str, folder: Path) -> AsyncIterator[Scene]:
    """A scene on an empty database of this server, with its tables made."""
    (folder / "ledger").mkdir(parents=True)
    async with Client(PostgresStorage(dsn)):
        """Its tables are made."""
    scene = Scene(server, dsn, folder)
    try:
        yield scene
    finally:
        await scene.close()
