"""What the behaviour tests of the runtime stand on: a storage, a client with a queue of its own, and workers.

Rules
- A test's runs are in a queue of its own, so that tests can share a database.
- Workers poll once a minute: what is not woken by an event is late, and the test times out.
- ``Tapped`` sees what crosses to a storage, and lets a test hold or break it; it is no storage of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from runnerq.client.client import Client
from runnerq.client.handle import Handle
from runnerq.ids import new_run_id
from runnerq.persistence.protocol import Heart, Storage
from runnerq.persistence.records import Ask, Claim, ClaimRequest, Details, Inbox, Load, Pulse, Status, Turn, Verdict
from runnerq.runtime.heart import HeartThread
from runnerq.runtime.surroundings import Surroundings
from runnerq.runtime.worker import Worker
from runnerq.workflow.declare import WorkflowDeclaration, declaration_of

SOON = 20.0
"""Seconds after which what a test waits for is taken to be lost."""


class Stage:
    """A storage and a queue, and how workers of it are made. ``cache`` is what its workers keep of parked runs."""

    def __init__(self, storage: Storage, cache: int = 100) -> None:
        self.storage = storage
        self.cache = cache
        self.queue = f"q-{new_run_id()}"
        self.base = Client(storage)
        self.client = self.base.options(queue=self.queue)

    def on(self, storage: Any) -> Stage:
        """The same queue through another storage object."""
        other = Stage(storage, self.cache)
        other.queue = self.queue
        other.client = other.base.options(queue=self.queue)
        return other

    def worker(self, *functions: Callable[..., Any], **options: Any) -> Worker:
        """A worker of these workflows and activities."""
        usual: dict[str, Any] = {
            "queues": (self.queue,), "cache": self.cache, "poll_interval": 60, "beat": 0.1, "shutdown_grace": 5,
            # A digest of all tests' sources for every worker would take longer than most tests.
            "build": "tests",
        }  # fmt: skip
        flows = [fn for fn in functions if isinstance(declaration_of(fn), WorkflowDeclaration)]
        acts = [fn for fn in functions if not isinstance(declaration_of(fn), WorkflowDeclaration)]
        return Worker(self.client, workflows=flows, activities=acts, **usual | options)

    def beside(self, cache: int = 100) -> Stage:
        """Another queue by the same client, which this one has opened."""
        other = Stage(self.storage, cache)
        other.base, other.client = self.base, self.base.options(queue=other.queue)
        return other

    @asynccontextmanager
    async def serving(self, *functions: Callable[..., Any], **options: Any) -> AsyncIterator[Client]:
        """The client, with a worker of these functions."""
        async with self.worker(*functions, **options):
            yield self.client

    async def answer(self, workflow: Callable[..., Any], *args: Any, serving: Sequence[Any] = ()) -> Any:
        """The result of one run of this workflow, by a worker that serves it and these."""
        async with self.serving(workflow, *serving) as client:
            run = await client.start(workflow, *args)
            return await run.result(timeout=SOON)

    async def holds(self, run: Handle[Any]) -> bool:
        """Whether a worker holds the run now."""
        return await run.status() is Status.RUNNING

    async def no_gaps(self, run_id: str) -> None:
        """The journal's places are 0, 1, 2, ..."""
        journal = await self.storage.journal(run_id)
        assert journal is not None
        assert [row.place for row in journal.rows] == list(range(len(journal.rows)))


class Tapped:
    """A storage whose traffic a test sees, and can hold or break.

    ``before(turns)`` and ``after(turns, verdicts)`` are awaited around each commit; ``beaten()`` is called before each
    beat, in the heart's own thread.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.commits = 0
        self.turns: list[Turn] = []
        self.claims: list[Claim] = []
        self.asks: list[Ask] = []
        self.cancels: list[tuple[str, ...]] = []
        self.beats = 0
        self.details: list[Details] = []
        self.loads: list[Load] = []
        self.before: Callable[[Sequence[Turn]], Awaitable[None]] | None = None
        self.after: Callable[[Sequence[Turn], list[Verdict]], Awaitable[None]] | None = None
        self.beaten: Callable[[], None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    async def commit(self, turns: Sequence[Turn]) -> list[Verdict]:
        if self.before is not None:
            await self.before(turns)
        self.commits += 1
        self.turns += turns
        verdicts = await self._storage.commit(turns)
        if self.after is not None:
            await self.after(turns, verdicts)
        return verdicts

    async def claim(self, request: ClaimRequest) -> Claim:
        claim = await self._storage.claim(request)
        self.claims.append(claim)
        return claim

    async def inbox(self, asks: Sequence[Ask]) -> list[Inbox]:
        found = await self._storage.inbox(asks)
        self.asks += asks
        return found

    async def cancel(self, run_ids: Sequence[str], reason: str | None = None) -> Any:
        self.cancels.append(tuple(run_ids))
        return await self._storage.cancel(run_ids, reason)

    def heart(self) -> Heart:
        return _TappedHeart(self, self._storage.heart())

    def claimed(self, run_id: str) -> int:
        """How often this run was claimed."""
        return sum(run.id == run_id for claim in self.claims for run in claim.runs)

    def asked(self, run_id: str) -> int:
        """How often this run's mailbox was read."""
        return sum(ask.run_id == run_id for ask in self.asks)

    def turns_of(self, run_id: str) -> list[Turn]:
        return [turn for turn in self.turns if turn.run_id == run_id]


class _TappedHeart:
    def __init__(self, tapped: Tapped, heart: Heart) -> None:
        self._tapped = tapped
        self._heart = heart

    async def open(self) -> None:
        await self._heart.open()

    async def beat(self, worker_id: int, load: Load, details: Sequence[Details]) -> Pulse:
        if self._tapped.beaten is not None:
            self._tapped.beaten()
        self._tapped.beats += 1
        pulse = await self._heart.beat(worker_id, load, details)
        # Once it is written: who sees it here finds it in the storage.
        self._tapped.loads.append(load)
        self._tapped.details += details
        return pulse

    async def close(self) -> None:
        await self._heart.close()


class HeartClock:
    """The clock of the hearts of workers that get these surroundings.

    A test puts it on, so that a lease runs out when the test says so, and not because a machine stood still.
    """

    def __init__(self) -> None:
        self.ahead = 0.0

    def surroundings(self) -> Surroundings:
        return _Jumping(self)


class _Jumping(Surroundings):
    def __init__(self, clock: HeartClock) -> None:
        super().__init__()
        self._clock = clock

    def heart(self, make: Callable[[], Heart], **options: Any) -> HeartThread:
        return HeartThread(make, clock=lambda: time.monotonic() + self._clock.ahead, **options)


class Gate:
    """Somebody comes to it and is held until it is opened; the test waits until somebody has come."""

    def __init__(self) -> None:
        self.come = asyncio.Event()
        self._opened = asyncio.Event()

    def open(self) -> None:
        self._opened.set()

    async def pass_through(self) -> None:
        self.come.set()
        await self._opened.wait()

    async def somebody(self) -> None:
        async with asyncio.timeout(SOON):
            await self.come.wait()


class Holding(Tapped):
    """Holds the first commit whose turn fits, until its gate is opened."""

    def __init__(self, storage: Storage, fits: Callable[[Turn], bool]) -> None:
        super().__init__(storage)
        self.gate = Gate()
        self._fits = fits
        self.before = self._hold

    async def _hold(self, turns: Sequence[Turn]) -> None:
        if not self.gate.come.is_set() and any(self._fits(turn) for turn in turns):
            await self.gate.pass_through()


async def soon(holds: Callable[[], object]) -> None:
    """Return once it holds; looks at each turn of the event loop. For what sends no event."""
    async with asyncio.timeout(SOON):
        while not holds():
            await asyncio.sleep(0.001)
