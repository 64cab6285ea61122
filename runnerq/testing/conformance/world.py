"""What a conformance test stands on: a backend, and plain ways of driving it.

Rules
- A test gets a ``World`` whose storage is open and empty, and uses nothing of the backend but the protocol.
- ``Holder`` is a worker without a runtime: it registers, claims, and commits the turns that the test writes.
- Tests take times from ``storage.now()`` and move on with ``World.advance``; none waits for time.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from runnerq.ids import new_run_id, new_token
from runnerq.persistence.protocol import Heart, Storage
from runnerq.persistence.records import (
    Ask,
    Claim,
    Claimed,
    ClaimRequest,
    Definition,
    Details,
    End,
    Inbox,
    Load,
    Move,
    NewRun,
    NewSignal,
    Pulse,
    RunRecord,
    Turn,
    Verdict,
    WorkerRow,
)
from runnerq.workflow.journal import Row, RowKind

T = TypeVar("T")

QUEUE = "q"
PAIRS = ((QUEUE, "order@1"), (QUEUE, "child@1"), (QUEUE, "work"))
"""What a ``Holder`` claims unless told otherwise: all that the builders here make."""

AT = datetime(2025, 6, 1, 12, 0, 0, 123456, tzinfo=UTC)
"""A time for what a test writes and does not judge by its time."""

COMPLETED = End(status="completed", result="1")
_NO_LOAD = Load()


class World(Protocol):
    """One backend, empty, and what a test must do to it that the protocol has no verb for. Supplied by a fixture."""

    @property
    def storage(self) -> Storage: ...

    async def another(self) -> Storage:
        """Another open storage object on the same data, as a second process has it; the world closes it. A backend
        that lives in one process MAY answer with the same object."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[object]:
        """A connection in a transaction, which is committed when it is left, and rolled back by an exception."""
        ...

    async def advance(self, seconds: float) -> None:
        """Let so much time pass, by a clock or by moving all stored times back."""
        ...

    async def lose_wake(self, run_id: str) -> None:
        """Park a run that was woken again, with what it waited for, as if its wake had been missed."""
        ...

    async def forget_worker(self, worker_id: int) -> None:
        """Make a worker's row go away while it holds runs."""
        ...


# --- builders ---------------------------------------------------------------------------------------------------------


def a_run(name: str = "order", **given: Any) -> NewRun:
    """A workflow to start."""
    usual: dict[str, Any] = {"id": new_run_id(), "kind": "workflow", "version": 1, "queue": QUEUE, "input": "[]"}
    return NewRun(name=name, **usual | given)


def an_activity(**given: Any) -> NewRun:
    """An activity to start."""
    return a_run("work", **{"kind": "activity"} | given)


def a_child(parent: Claimed, position: str = "1", **given: Any) -> NewRun:
    """A child that this run's journal asks for at this position."""
    of = {"parent_id": parent.id, "root_id": parent.root_id, "depth": parent.depth + 1, "parent_position": position}
    return a_run("child", **of | given)


def a_row(place: int, position: str = "1", value: str | None = "1", kind: RowKind = "answered") -> Row:
    return Row(place=place, kind=kind, position=position, at=AT, value=value)


def a_signal(run_id: str, channel: str = "go", value: str = "1", dedup: str | None = None) -> NewSignal:
    return NewSignal(run_id=run_id, channel=channel, value=value, dedup=dedup)


def a_turn(run: Claimed, move: Move, **given: Any) -> Turn:
    """A turn of this claimed run, whose holder has read no further than the claim."""
    usual: dict[str, Any] = {"run_id": run.id, "token": run.token, "seen": run.seen, "move": move}
    return Turn(**usual | given)


def details_of(run: Claimed, text: str, position: str = "1", **given: Any) -> Details:
    """What an attempt at this position says of itself."""
    usual: dict[str, Any] = {"run_id": run.id, "token": run.token, "generation": run.generation, "position": position}
    return Details(text=text, **usual | given)


# --- workers ----------------------------------------------------------------------------------------------------------


class Holder:
    """A registered worker, driven by hand."""

    def __init__(self, storage: Storage, worker_id: int) -> None:
        self.storage = storage
        self.id = worker_id

    async def claim(
        self,
        limit: int = 100,
        pairs: tuple[tuple[str, str], ...] = PAIRS,
        held: dict[str, int] | None = None,
        token: int | None = None,
    ) -> Claim:
        """One claim, under a token of its own."""
        token = new_token() if token is None else token
        request = ClaimRequest(worker_id=self.id, token=token, pairs=pairs, limit=limit, held=held or {})
        return await self.storage.claim(request)

    async def take(self, new: NewRun) -> Claimed:
        """Claim until this run is held; it must be ready."""
        return await self._take(new.id)

    async def take_again(self, run: Claimed) -> Claimed:
        """Claim until this run is held anew; it must be ready."""
        return await self._take(run.id)

    async def start(self, new: NewRun) -> Claimed:
        """Start this run and hold it."""
        await self.storage.start([new])
        return await self.take(new)

    async def _take(self, run_id: str) -> Claimed:
        for run in (await self.claim()).runs:
            if run.id == run_id:
                return run
        raise AssertionError(f"run {run_id} was not ready to be claimed")

    async def commit(self, run: Claimed, move: Move, **given: Any) -> Verdict:
        """One turn of this run."""
        [verdict] = await self.storage.commit([a_turn(run, move, **given)])
        return verdict

    async def inbox(self, run: Claimed, children: Sequence[str] = ()) -> Inbox:
        [box] = await self.storage.inbox([Ask(run_id=run.id, children=tuple(children))])
        return box

    async def ready(self) -> list[str]:
        """Claim all that is ready, and say what it was."""
        return [run.id for run in (await self.claim()).runs]


async def a_holder(
    storage: Storage, *, lease: float = 60.0, definitions: Sequence[Definition] = (), build: str = "b1"
) -> Holder:
    """Register a worker."""
    holder = Holder(storage, secrets.randbits(62) + 1)
    await storage.register(
        WorkerRow(
            id=holder.id,
            lease=lease,
            host="here",
            pid=os.getpid(),
            build=build,
            queues=(QUEUE,),
            served=tuple(served for _, served in PAIRS),
            slots=10,
            library="1.2.3",
        ),
        definitions,
    )
    return holder


class Beating:
    """A heart in a thread and an event loop of its own, as a worker has it."""

    def __init__(self, storage: Storage, holder: Holder) -> None:
        self._storage = storage
        self._holder = holder
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._runner = asyncio.Runner()
        self._heart: Heart | None = None

    async def __aenter__(self) -> Self:
        self._heart = self._storage.heart()
        await self._there(self._heart.open())
        return self

    async def beat(self, *details: Details, load: Load = _NO_LOAD) -> Pulse:
        assert self._heart is not None, "beat inside of async with"
        return await self._there(self._heart.beat(self._holder.id, load, details))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._heart is not None, "entered before it is left"
        await self._there(self._heart.close())
        await asyncio.get_running_loop().run_in_executor(self._thread, self._runner.close)
        self._thread.shutdown()

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._runner.run, work)


# --- looking ----------------------------------------------------------------------------------------------------------


async def look(storage: Storage, run_id: str) -> RunRecord:
    """The run, which must be known."""
    record = await storage.run(run_id)
    assert record is not None, f"run {run_id} is not there"
    return record


async def rows_of(storage: Storage, run_id: str) -> list[Row]:
    """Its present journal."""
    journal = await storage.journal(run_id)
    assert journal is not None, f"run {run_id} is not there"
    return list(journal.rows)


async def swept(world: World) -> int:
    """Sweep until all open runs were looked at; how many were mended."""
    return sum([await world.storage.sweep(1000) for _ in range(3)])
