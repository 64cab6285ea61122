"""The in-memory storage of a test: it serves every queue, and has its turns looked at as they are written."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

import msgspec

from runnerq.clock import Clock
from runnerq.ids import new_token
from runnerq.persistence.memory import MemoryStorage, limits, reading, upkeep
from runnerq.persistence.records import (
    DEFAULT_QUEUE,
    BlockRecord,
    Claim,
    Claimed,
    ClaimRequest,
    Turn,
    Verdict,
    Wake,
)
from runnerq.workflow.journal import Row

T = TypeVar("T")


class Looker(Protocol):
    """Looks at a written turn: of which run, and which rows its generation has now."""

    def __call__(self, claimed: Claimed, turn: Turn, rows: Sequence[Row]) -> None: ...


class StageStorage(MemoryStorage):
    """``look`` is called for each turn of a workflow that was written."""

    look: Looker | None = None

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._claims: dict[str, Claimed] = {}

    async def claim(self, request: ClaimRequest) -> Claim:
        served = {name for _, name in request.pairs}
        with self.writing() as (book, _):
            queues = {run.new.queue for run in book.runs.values()}
        pairs = tuple((queue, name) for queue in queues for name in served)
        claim = await super().claim(msgspec.structs.replace(request, pairs=pairs))
        for run in claim.runs:
            # The rows are the worker's to follow; what is kept here is who the run is.
            self._claims[run.id] = msgspec.structs.replace(run, rows=())
        return claim

    async def commit(self, turns: Sequence[Turn]) -> list[Verdict]:
        verdicts = await super().commit(turns)
        for turn, verdict in zip(turns, verdicts, strict=True):
            claimed = self._claims.get(turn.run_id)
            if self.look is None or verdict is Verdict.LOST or claimed is None or claimed.kind != "workflow":
                continue
            with self.writing() as (book, _):
                rows = reading.rows(book, turn.run_id, turn.generation)
            self.look(claimed, turn, rows)
        return verdicts

    def subscribe(self, hear: Callable[[Wake], None]) -> Callable[[], None]:
        def heard(wake: Wake) -> None:
            hear(msgspec.structs.replace(wake, queues=frozenset({DEFAULT_QUEUE})) if wake.queues else wake)

        return super().subscribe(heard)

    # --- what only a test asks ----------------------------------------------------------------------------------------

    def next_due(self, now: datetime) -> datetime | None:
        """When something is due after now but a schedule: a delayed, waiting or retrying run, the next try of a blocked
        one, or the next that a limit's rate lets in."""
        with self.writing() as (book, _):
            due = [row.due_at for row in book.open.values()] + [block.retry_at for block in book.blocks.values()]
            due.append(limits.next_open(book, now))
        return min((at for at in due if at is not None and at > now), default=None)

    def is_due(self, now: datetime) -> bool:
        """Whether something is due that was not made ready yet, or fired."""
        with self.writing() as (book, _):
            if any(row.due_at is not None and row.due_at <= now for row in book.open.values()):
                return True
        ticks = self._ticks()
        return bool(ticks) and min(ticks) <= now

    def next_tick(self, now: datetime) -> datetime | None:
        """When the next schedule is due, if there is a worker that would fire it."""
        return min((at for at in self._ticks() if at > now), default=None)

    def _ticks(self) -> list[datetime]:
        with self.writing() as (book, _):
            if all(worker.reaped for worker in book.workers.values()):
                return []
            kept = book.schedules.values()
            return [each.next_at for each in kept if each.next_at is not None and each.paused_at is None]

    def blocked_in(self, root_id: str) -> BlockRecord | None:
        """The first blocked run of this tree."""
        with self.writing() as (book, _):
            found = (block for run_id, block in book.blocks.items() if book.runs[run_id].root_id == root_id)
            return next((block for block in found if book.open[block.run_id].state == "blocked"), None)

    def run_ids(self) -> list[str]:
        """Every run, in the order in which they were made."""
        with self.writing() as (book, _):
            return list(book.runs)

    def crash(self, worker_id: int) -> None:
        """The worker is gone, and everybody knows: its runs are ready for another, one crash older."""
        with self.writing() as (book, now):
            book.workers[worker_id].reaped_at = now
            upkeep.reap(book, worker_id, new_token(), len(book.open), now)


def at_once(asked: Generator[Any, Any, T] | Any) -> T:
    """The answer of an in-memory storage's coroutine, which waits for nothing, without an event loop."""
    try:
        asked.send(None)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
    raise AssertionError("an in-memory storage had to wait")
