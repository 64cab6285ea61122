"""Plays a load of the limits: worker processes, starts, changes of rules, and SIGKILLs of one that holds places."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from runnerq.client.client import Client
from runnerq.client.handle import Handle
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.records import Priority, RunFilter, Status
from runnerq.workflow.options import Limit
from tests.faults.ledger import FOLDER_VARIABLE, Ledger
from tests.limits.checks import Judged, judged, observed
from tests.limits.flows import KINDS
from tests.limits.plan import QUEUES, Plan, Planned, Rule
from tests.limits.worker import Working

ROOT = Path(__file__).parents[2]
PATIENCE = 150.0
"""Seconds after the last start after which a run that has not ended is taken to be starved."""
COMPLETED = RunFilter(status=Status.COMPLETED)
OPEN = RunFilter(status=tuple(status for status in Status if not status.ended))
HELD = 2
"""Limited places that a process holds at least when it is killed."""


class Played(msgspec.Struct, frozen=True):
    """What came of it. ``held`` is how many limited runs each killed process had inside when it was killed."""

    judged: Judged
    runs: int
    held: tuple[int, ...]
    seconds: float


class Workers:
    """The worker processes of a plan, by their number."""

    def __init__(self, dsn: str, plan: Plan, folder: Path) -> None:
        self._dsn = dsn
        self._plan = plan
        self._folder = folder
        self._ledger = Ledger(folder)
        self._processes: dict[int, Process] = {}
        self.held: list[int] = []

    async def start(self, number: int) -> None:
        working = Working(self._dsn, self._plan.served[number], self._plan.slots[number])
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.limits.worker", msgspec.json.encode(working).decode(),
            cwd=ROOT, env={**os.environ, FOLDER_VARIABLE: str(self._folder)}, stdout=PIPE,
        )  # fmt: skip
        self._processes[number] = process
        assert process.stdout is not None
        assert (await process.stdout.readline()).strip() == b"ready"

    async def kill(self, number: int, after: int, more: Callable[[], Awaitable[None]]) -> None:
        """SIGKILL, once so much has begun, and this process holds limited places.

        ``more`` sees to it that there are runs which hold some: all that there were may have ended meanwhile.
        """
        process = self._processes[number]
        async with asyncio.timeout(PATIENCE):
            while sum(line.words[0] == "in" for line in self._ledger.read("inside")) < after:
                await asyncio.sleep(0.05)
            while True:
                # It stands still while the log is read: what is inside then is inside when it is killed.
                process.send_signal(signal.SIGSTOP)
                held = self._inside(process.pid)
                if len(held) >= HELD:
                    break
                process.send_signal(signal.SIGCONT)
                await more()
                await asyncio.sleep(0.01)
        # First the log, then the signal: from here on what it has inside is not taken to be inside any longer.
        self._ledger.write("killed", process.pid)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        del self._processes[number]
        self.held.append(len(held))

    def _inside(self, pid: int) -> set[tuple[str, ...]]:
        """What this process has inside a limit now, by its log."""
        inside: set[tuple[str, ...]] = set()
        for line in self._ledger.read("inside"):
            side, *words = line.words
            if words[-1] == str(pid) and self._plan.rules.get(words[0], Rule()).is_one:
                (inside.add if side == "in" else inside.discard)(tuple(words))
        return inside

    async def stop(self) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            assert await process.wait() == 0

    async def end(self) -> None:
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()


@asynccontextmanager
async def workers_of(dsn: str, plan: Plan, folder: Path) -> AsyncIterator[Workers]:
    workers = Workers(dsn, plan, folder)
    try:
        async with asyncio.TaskGroup() as starting:
            for number in range(2):
                starting.create_task(workers.start(number))
        yield workers
        await workers.stop()
    finally:
        await workers.end()


class Load:
    """Starts the runs and changes the rules of a plan, each at its time."""

    def __init__(self, client: Client, plan: Plan, ledger: Ledger) -> None:
        self._client = client
        self._plan = plan
        self._ledger = ledger
        self._began = time.monotonic()
        self.planned = plan.runs
        self.runs: list[tuple[Handle[str], str]] = []

    async def set(self, scope: str, rule: Rule) -> None:
        text = msgspec.json.encode(rule).decode()
        self._ledger.write("rules", "asked", scope, text)
        if rule.is_one:
            await self._client.limits.set(
                scope, concurrency=rule.concurrency, rate=rule.rate, per_key=rule.per_key
            )  # fmt: skip
        else:
            await self._client.limits.delete(scope)
        self._ledger.write("rules", "answered", scope, text)

    async def play(self) -> None:
        """Everything; returns when all of it is asked for."""
        self._began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._change())
            group.create_task(self._start())

    async def _change(self) -> None:
        for change in self._plan.changes:
            await self._at(change.at)
            await self.set(change.scope, change.rule)

    async def _start(self) -> None:
        for planned in self._plan.starts:
            await self._at(planned.at)
            await self._start_some(planned)

    async def _start_some(self, planned: Planned) -> None:
        limit = Limit(planned.scope, planned.key) if planned.scope else None
        client = self._client.options(
            queue=planned.queue, limit=limit, priority=planned.priority, delay=planned.delay or None
        )
        args = [(planned.scope, planned.key, seconds) for seconds in planned.seconds]
        runs = await client.start_many(KINDS[planned.kind], args)
        self.runs += [(run, planned.key) for run in runs]

    async def hold_some(self) -> None:
        """Start runs that hold limited places for a moment, unless some are open."""
        if not await self._client.count(OPEN, cap=1):
            await self._start_some(Planned(0.0, "hold", QUEUES[1], "crowd", "", Priority.NORMAL, 0.0, (0.05,) * 40))

    async def use_up_a_rate(self) -> None:
        """Start some more than may be let in at once."""
        await self.set("rated", Rule(rate=(2, 0.5)))
        await self._start_some(Planned(0.0, "hold", QUEUES[0], "rated", "", Priority.HIGH, 0.0, (0.0,) * 5))

    async def _at(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, self._began + seconds - time.monotonic()))


async def play(dsn: str, plan: Plan, folder: Path, *, kills: int = 1, replaced: bool = False) -> Played:
    """Play it on this database, which is fresh; raises for a run that does not end as it must.

    The second process is killed, ``kills`` times; where it is ``replaced``, another takes its place each time.
    """
    ledger = Ledger(folder)
    began = time.monotonic()
    async with Client(PostgresStorage(dsn)) as client, workers_of(dsn, plan, folder) as workers:
        load = Load(client, plan, ledger)
        for scope, rule in plan.rules.items():
            await load.set(scope, rule)
        async with asyncio.TaskGroup() as group:
            group.create_task(load.play())
            group.create_task(_kill(workers, load, kills, replaced=replaced))
        await _all_end_well(client, load)
        while not judged(observed(ledger)).rates_used_up:
            # Its claims came one after the other too slowly to tell, as where the machine stood still.
            await load.use_up_a_rate()
            await _all_end_well(client, load)
        assert await client.count() == await client.count(COMPLETED)
        assert {(each.running, each.waiting) for each in await client.limits.list()} == {(0, 0)}
    found = judged(observed(ledger))
    return Played(found, len(load.runs), tuple(workers.held), time.monotonic() - began)


async def _all_end_well(client: Client, load: Load) -> None:
    """Each of the runs with the result that it must have; an AssertionError names those that starve."""
    try:
        async with asyncio.timeout(PATIENCE):
            answers = await asyncio.gather(*(run.result() for run, _ in load.runs))
    except TimeoutError:
        left = (await client.list(OPEN, limit=1000)).items
        shown = Counter((each.workflow, each.status.value, each.limit, each.waiting_for) for each in left)
        lines = [f"{count} x {what}" for what, count in shown.most_common(20)]
        raise AssertionError("\n".join(["starved:", *lines, *map(str, await client.limits.list())])) from None
    wrong = [run.id for (run, key), answer in zip(load.runs, answers, strict=True) if answer != key]
    assert wrong == []


async def _kill(workers: Workers, load: Load, kills: int, *, replaced: bool) -> None:
    """The last one when about two thirds of the runs have begun."""
    for nth in range(1, kills + 1):
        await workers.kill(1, load.planned * 2 * nth // (3 * kills), load.hold_some)
        if replaced:
            await workers.start(1)
