"""The processes of a hammering: started, killed, stopped, judged."""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import time
from multiprocessing.process import BaseProcess
from typing import Any, Literal

import asyncpg

from runnerq.ids import new_run_id
from runnerq.persistence.records import NewRun
from tests.persistence.postgres.backend import a_storage, wipe
from tests.persistence.postgres.hammer.checks import judge
from tests.persistence.postgres.hammer.counts import EVENTS, FAULTS, NAMES_COUNTED, Counts, Report
from tests.persistence.postgres.hammer.others import Sender, Watcher
from tests.persistence.postgres.hammer.turns import NAMES, QUEUE
from tests.persistence.postgres.hammer.worker import HammerWorker

STALLED = 120.0
"""Seconds without any progress after which the run is given up."""

KILL_EVERY = 1500
"""Journal rows between two SIGKILLs, so that a slow machine does not kill more than it gets done."""

PAIRS = tuple((QUEUE, f"{name}@1") for name in NAMES)
SERVED = tuple(served for _, served in PAIRS)


Role = Literal["worker", "sender", "watcher"]


def _process(role: Role, dsn: str, seed: int, numbers: Any, stop: Any) -> None:
    counts = Counts(numbers)
    player: HammerWorker | Sender | Watcher
    match role:
        case "worker":
            player = HammerWorker(dsn, seed, counts)
        case "sender":
            player = Sender(dsn, seed, counts)
        case "watcher":
            player = Watcher(dsn, seed, counts)
    try:
        asyncio.run(player.run(lambda: bool(stop.value)))
    except BaseException:
        counts.add("a process fell over")
        raise


class Hands:
    """The processes, and what they counted."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._spawn = multiprocessing.get_context("spawn")
        # Shared numbers and no Event or Queue: a process that is killed while it uses one leaves it locked.
        self._stop = self._spawn.RawValue(ctypes.c_bool, False)
        self._counts: list[Counts] = []
        self._workers: list[BaseProcess] = []
        self._others: list[BaseProcess] = []
        self.killed = 0

    def begin(self, workers: int) -> None:
        self._workers = [self._started("worker") for _ in range(workers)]
        self._others = [self._started("sender"), self._started("sender"), self._started("watcher")]

    def kill_one(self) -> None:
        """SIGKILL the oldest worker, and start another."""
        victim = self._workers.pop(0)
        victim.kill()
        victim.join()
        self.killed += 1
        self._workers.append(self._started("worker"))

    def end(self) -> dict[str, int]:
        """Stop all; what they counted."""
        self._stop.value = True
        for process in (*self._workers, *self._others):
            process.join(60)
            if process.is_alive():
                process.kill()
                self._counts[0].add("a process fell over")
        return self.counted()

    def counted(self) -> dict[str, int]:
        """What they have counted so far."""
        found = {name: sum(counts.of(name) for counts in self._counts) for name in NAMES_COUNTED}
        return found | {"killed": self.killed}

    def _started(self, role: Role) -> BaseProcess:
        numbers = self._spawn.RawArray(ctypes.c_longlong, len(NAMES_COUNTED))
        self._counts.append(Counts(numbers))
        given = (role, self._dsn, len(self._counts), numbers, self._stop)
        process = self._spawn.Process(target=_process, args=given)
        process.start()
        return process


class Progress:
    """How far the hammering has come."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._since = time.monotonic()
        self.open = 0
        self.rows = 0

    async def look(self) -> None:
        self.open, rows = await self._connection.fetchrow(
            "select (select count(*) from runnerq.live), (select count(*) from runnerq.journal)"
        )
        if rows != self.rows:
            self.rows, self._since = rows, time.monotonic()

    @property
    def has_stalled(self) -> bool:
        """Whether nothing has moved for so long that nothing will."""
        return time.monotonic() - self._since > STALLED


async def hammer(dsn: str, *, runs: int, workers: int, seconds: float) -> Report:
    """Hammer on a fresh schema until everything has happened and all runs have ended, or time is up."""
    storage = a_storage(dsn)
    await storage.open()
    connection: asyncpg.Connection = await asyncpg.connect(dsn)
    await wipe(connection)
    await storage.start(_some(runs))
    hands = Hands(dsn)
    hands.begin(workers)
    began, more = time.monotonic(), 0
    progress = Progress(connection)
    while time.monotonic() - began < seconds and not progress.has_stalled:
        await progress.look()
        if not progress.open:
            counted = hands.counted()
            if all(counted[event] for event in EVENTS):
                break
            await storage.start(_some(runs))
            more += runs
        await asyncio.sleep(0.25)
        if progress.rows > KILL_EVERY * (hands.killed + 1):
            hands.kill_one()
    took = time.monotonic() - began
    counts = hands.end()
    counts["started"] += runs + more
    report = Report(took, counts, [f"{name}: {counts[name]}" for name in FAULTS if counts[name]])
    await judge(connection, report)
    await connection.close()
    await storage.close()
    return report


def _some(runs: int) -> list[NewRun]:
    return [
        NewRun(id=new_run_id(), kind="workflow", name=NAMES[number % 2], version=1, queue=QUEUE, input="[]")
        for number in range(runs)
    ]
