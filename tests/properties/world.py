"""Plays a case: real workers over a storage, with signals, a cancel and faults, until the run and its children end."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from typing import Any

import msgspec

from runnerq.errors import StorageUnavailable
from runnerq.ids import new_run_id
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import Journal, NewRun, NewSignal, RunFilter, RunRecord, Sent
from runnerq.runtime.current import current
from runnerq.runtime.surroundings import Surroundings
from runnerq.runtime.worker import Worker
from tests.properties.cases import Case
from tests.properties.faults import Faults, FaultyStorage, Ledger
from tests.properties.flows import LOG, SCALE, program
from tests.properties.programs import Block, Group, Step, all_nodes, written
from tests.properties.replays import BUILD, CODEC

WORKERS = 2


class Pace(msgspec.Struct, frozen=True):
    """How fast a case is played: what a program's second is, and how patient workers and the test are, in seconds."""

    second: float = 1.0
    latency: float = 0.05
    lease: float = 6.0
    beat: float = 1.0
    poll: float = 4.0
    top_up: float = 20.0
    patience: float = 900.0


class Began(msgspec.Struct, frozen=True):
    """A step's attempt that began; ``stale``: by a worker that no longer held the run and did not know."""

    at: int
    run_id: str
    generation: int
    position: str
    attempt: int
    n: int
    stale: bool


class Played(msgspec.Struct, frozen=True):
    """What is left of a case, for the checks."""

    case: Case
    root: str
    runs: tuple[RunRecord, ...]
    journals: tuple[Journal, ...]
    sent: dict[str, list[int]]
    cancel: Sent | None
    begun: tuple[Began, ...]
    ledger: Ledger
    happened: dict[str, int]
    seconds: float


class StepLog:
    """What the steps of one worker do, in the ledger's order."""

    def __init__(self, world: World, storage: FaultyStorage) -> None:
        self._world = world
        self._storage = storage
        self._open: list[int] = []

    def began(self, n: int, attempt: int) -> None:
        world, now = self._world, current()
        stale = self._storage.stale or self._storage.dead
        at = world.ledger.tick()
        self._check_limit(n)
        self._open.append(n)
        world.begun.append(Began(at, now.run_id, now.generation, now.entry, attempt, n, stale))
        world.under_way.append(n)

    def _check_limit(self, n: int) -> None:
        """At most so many members of a gather run side by side."""
        limit, siblings = self._world.limits.get(n, (1, frozenset()))
        together = siblings & {*self._open, n}
        if len(together) > limit:
            self._world.ledger.broken.append(f"steps {sorted(together)} ran together, and {limit} may")

    def ended(self, n: int) -> None:
        if n in self._open:
            self._open.remove(n)
        under_way = self._world.under_way
        if n in under_way:
            if under_way.index(n):
                self._world.faults.happened["completions reordered"] += 1
            under_way.remove(n)


class World:
    """One case being played over one storage."""

    def __init__(
        self, case: Case, storage: Storage, pace: Pace, surroundings: Callable[[], Surroundings] = Surroundings
    ) -> None:
        self._surroundings = surroundings
        self.case = case
        self.storage = storage
        self.pace = pace
        self.faults = Faults(case.faults)
        self.ledger = Ledger()
        self.begun: list[Began] = []
        self.under_way: list[int] = []
        self.sent: dict[str, list[int]] = {}
        self.cancel: Sent | None = None
        self.limits = _limits(case.program)
        self.root = new_run_id()
        self.queue = f"q-{self.root}"
        self._chance = random.Random(case.seed)
        self._workers: dict[Worker, asyncio.Task[None]] = {}
        self._ended: list[asyncio.Task[None]] = []

    async def play(self) -> Played:
        loop = asyncio.get_running_loop()
        began = loop.time()
        new = NewRun(id=self.root, kind="workflow", name="program", version=1, queue=self.queue, input=self._input())
        await self.storage.start([new])
        for came in self.case.signals:
            if not came.after:
                await self.signal(came.channel)
        for _ in range(WORKERS):
            self._add_worker()
        outside = [asyncio.create_task(self._send_later()), asyncio.create_task(self._top_up())]
        if self.case.cancel_after is not None:
            outside.append(asyncio.create_task(self._cancel_later(self.case.cancel_after)))
        try:
            async with asyncio.timeout(self.pace.patience):
                runs = await self._all_ended()
        finally:
            for task in outside:
                task.cancel()
            await self._stop_all()
        return await self._left(runs, loop.time() - began)

    def _input(self) -> str:
        return CODEC.encode_call((written(self.case.program),), {}, "the program")

    # --- from outside -------------------------------------------------------------------------------------------------

    async def signal(self, channel: str) -> None:
        """Send the run a value that was not sent before."""
        value = 100_000 + sum(map(len, self.sent.values()))
        signal = NewSignal(run_id=self.root, channel=channel, value=str(value))
        [sent] = await self.waking(lambda: self.storage.send([signal]))
        if sent is Sent.SENT:
            self.sent.setdefault(channel, []).append(value)

    async def _send_later(self) -> None:
        now = 0.0
        for came in sorted(self.case.signals, key=lambda each: each.after):
            if came.after:
                await asyncio.sleep((came.after - now) * self.pace.second)
                now = came.after
                await self.signal(came.channel)

    async def _top_up(self) -> None:
        """However many waits there are, each has its signal in the end."""
        while True:
            await asyncio.sleep(self.pace.top_up)
            for channel in sorted(self.case.channels()):
                await self.signal(channel)

    async def _cancel_later(self, after: float) -> None:
        await asyncio.sleep(after * self.pace.second)
        [self.cancel] = await self.waking(lambda: self.storage.cancel([self.root], "from outside"))

    async def waking(self, act: Callable[[], Awaitable[Any]]) -> Any:
        """Do what may wake a parked run, and lose that wake if that is the fault that is due."""
        storage = self.storage
        if not isinstance(storage, MemoryStorage):
            return await act()
        with storage.writing() as (book, _):
            parked = {run_id: copy.copy(row) for run_id, row in book.open.items() if row.state == "waiting"}
        done = await act()
        with storage.writing() as (book, _):
            for run_id, before in parked.items():
                row = book.open.get(run_id)
                if row is not None and row.state == "pending" and self.faults.at(("wake lost",)):
                    row.state, row.due_at, row.parked_at = "waiting", before.due_at, before.parked_at
        return done

    async def sweep(self, limit: int) -> int:
        """Sweep; a parked run whose wake was there and that nobody had lost is what must not be."""
        storage = self.storage
        if not isinstance(storage, MemoryStorage):
            return await storage.sweep(limit)
        with storage.writing() as (book, _):
            parked = {run_id: row.cancel for run_id, row in book.open.items() if row.state == "waiting"}
        mended = await storage.sweep(limit)
        with storage.writing() as (book, _):
            # A child whose parent has ended is cancelled by the sweep: that is its work.
            woken = [
                run_id
                for run_id, cancel in parked.items()
                if (row := book.open.get(run_id)) is not None and row.state == "pending" and row.cancel == cancel
            ]
            if woken and not self.faults.happened["wake lost"]:
                self.ledger.broken.append(f"the sweep had to wake {woken}")
        return mended

    # --- workers ------------------------------------------------------------------------------------------------------

    def _add_worker(self) -> None:
        pace = self.pace
        storage = FaultyStorage(
            self.storage,
            self.faults,
            self.ledger,
            lambda: self._chance.choice((0, 0.5, 1)) * pace.latency,
            self.waking,
            self.sweep,
        )
        worker = Worker(
            _Client(storage),
            workflows=[program],
            activities=[],
            queues=[self.queue],
            max_workers=4,
            lease=pace.lease,
            beat=pace.beat,
            poll_interval=pace.poll,
            reaper_interval=pace.beat,
            shutdown_grace=2 * pace.second,
            cache=self.case.cache,
            build=BUILD,
            surroundings=self._surroundings,
        )
        context = copy_context()
        context.run(LOG.set, StepLog(self, storage))
        context.run(SCALE.set, pace.second)
        task = asyncio.get_running_loop().create_task(worker.run(), context=context)
        self._workers[worker] = task

        def kill() -> None:
            task.cancel()
            self._replace(worker)

        def stop() -> None:
            self._ended.append(asyncio.create_task(worker.stop()))
            self._replace(worker)

        storage.kill, storage.stop = kill, stop

    def _replace(self, worker: Worker) -> None:
        task = self._workers.pop(worker, None)
        if task is not None:
            self._ended.append(task)
            self._add_worker()

    async def _stop_all(self) -> None:
        for worker in self._workers:
            self._ended.append(asyncio.create_task(worker.stop()))
        results = await asyncio.gather(*self._workers.values(), *self._ended, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(
                result, asyncio.CancelledError | StorageUnavailable
            ):
                raise result

    # --- the end ------------------------------------------------------------------------------------------------------

    async def _all_ended(self) -> Sequence[RunRecord]:
        while True:
            await asyncio.sleep(0.5 * self.pace.second)
            root = await self.storage.run(self.root)
            if root is None or not root.status.ended:
                continue
            listed = (await self.storage.list_runs(RunFilter(root=self.root), 1000)).runs
            if all(run.status.ended for run in listed):
                whole = [await self.storage.run(run.id) for run in listed]
                return [run for run in whole if run is not None]

    async def _left(self, runs: Sequence[RunRecord], seconds: float) -> Played:
        journals = []
        for run in runs:
            for generation in range(1, run.generation + 1):
                journal = await self.storage.journal(run.id, generation)
                if journal is not None:
                    journals.append(journal)
        return Played(
            case=self.case,
            root=self.root,
            runs=tuple(runs),
            journals=tuple(journals),
            sent=self.sent,
            cancel=self.cancel,
            begun=tuple(self.begun),
            ledger=self.ledger,
            happened=dict(self.faults.happened),
            seconds=seconds,
        )


def _limits(program_: Block) -> dict[int, tuple[int, frozenset[int]]]:
    """For each step that is a member of a gather with a limit: the limit, and the steps that share it."""
    found: dict[int, tuple[int, frozenset[int]]] = {}
    for node in all_nodes(program_):
        if isinstance(node, Group) and node.limit is not None:
            steps = frozenset(member.n for member in node.members if isinstance(member, Step))
            found |= dict.fromkeys(steps, (node.limit, steps))
    return found


class _Client:
    """What a worker works for."""

    def __init__(self, storage: Any) -> None:
        self.storage = storage
