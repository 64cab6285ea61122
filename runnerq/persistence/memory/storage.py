"""The storage protocol in memory: plain dicts behind one lock, with a clock that can be set; gone with its process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from runnerq.persistence.memory import (
    charting,
    counting,
    deleting,
    finding,
    reading,
    reopening,
    sending,
    starting,
    upkeep,
    verbs,
)
from runnerq.persistence.memory.auditing import Audits
from runnerq.persistence.memory.book import Worker
from runnerq.persistence.memory.checks import check_names, check_row, check_run, check_signal, check_turn
from runnerq.persistence.memory.core import Core
from runnerq.persistence.memory.limiting import Limits
from runnerq.persistence.memory.scheduling import Schedules
from runnerq.persistence.memory.transactions import Transactions
from runnerq.persistence.memory.turns import write
from runnerq.persistence.records import (
    LOOK,
    Activity,
    Aggregate,
    Ask,
    BlockRecord,
    Changed,
    Claim,
    ClaimRequest,
    Counted,
    Definition,
    Details,
    Failures,
    Found,
    GroupBy,
    Inbox,
    Journal,
    Load,
    Mail,
    NewRun,
    NewSignal,
    Outcome,
    Pulse,
    QueueRecord,
    Reaped,
    Registered,
    Reopen,
    Retained,
    RunFilter,
    RunRecord,
    Sent,
    StartReply,
    Stats,
    Tail,
    Turn,
    Verdict,
    Wake,
    WorkerRecord,
    WorkerRow,
)

_NO_LOAD = Load()


class MemoryStorage(Transactions, Schedules, Limits, Audits, Core):
    """A ``Storage`` that forgets everything with the process; its time is the given clock's.

    May be used from several threads and event loops: no method waits while it holds the lock.
    """

    async def open(self) -> None:
        """Nothing is to be connected."""

    async def close(self) -> None:
        """Nothing is to be disconnected; what was written stays until the object goes."""

    def heart(self) -> MemoryHeart:
        return MemoryHeart(self)

    # --- writes -------------------------------------------------------------------------------------------------------

    async def start(self, runs: Sequence[NewRun]) -> list[StartReply]:
        for run in runs:
            check_run(run)
        with self.writing() as (book, now):
            return starting.start_all(book, runs, now)

    async def start_or_send(self, run: NewRun, signals: Sequence[NewSignal]) -> tuple[StartReply, list[Sent]]:
        check_run(run)
        for signal in signals:
            check_signal(signal)
        with self.writing() as (book, now):
            return sending.start_or_send(book, run, signals, now)

    async def claim(self, request: ClaimRequest) -> Claim:
        with self.writing() as (book, now):
            runs = reading.claim(book, request, now)
            return Claim(runs=runs, now=now, next_due=reading.next_due(book, now))

    async def commit(self, turns: Sequence[Turn]) -> list[Verdict]:
        for turn in turns:
            check_turn(turn)
        with self.writing() as (book, now):
            return [write(book, turn, now) for turn in turns]

    async def inbox(self, asks: Sequence[Ask]) -> list[Inbox]:
        with self._reading() as (book, now):
            boxes = [reading.inbox(book, ask, now) for ask in asks]
        return [box for box in boxes if box is not None]

    async def send(self, signals: Sequence[NewSignal]) -> list[Sent]:
        for signal in signals:
            check_signal(signal)
        with self.writing() as (book, now):
            return [sending.send(book, signal, now) for signal in signals]

    async def cancel(self, run_ids: Sequence[str], reason: str | None = None) -> list[Sent]:
        with self.writing() as (book, now):
            return [sending.cancel(book, run_id, reason, now) for run_id in run_ids]

    async def terminate(self, run_ids: Sequence[str]) -> list[Sent]:
        with self.writing() as (book, now):
            return [sending.terminate(book, run_id, now) for run_id in run_ids]

    async def reopen(self, reopen: Reopen) -> bool:
        everything = reopening.all_of(reopen)
        for each in everything:
            if each.row is not None:
                check_row(each.row)
        with self.writing() as (book, now):
            return reopening.reopen(book, everything, now)

    async def run_now(self, run_id: str) -> Changed:
        with self.writing() as (book, now):
            return verbs.run_now(book, run_id, now)

    async def reschedule(self, run_id: str, at: datetime) -> Changed:
        with self.writing() as (book, now):
            return verbs.reschedule(book, run_id, at, now)

    async def set_priority(self, run_id: str, priority: int) -> Changed:
        with self.writing() as (book, now):
            return verbs.set_priority(book, run_id, priority, now)

    async def pause(self, queue: str) -> bool:
        check_names(queue)
        with self.writing() as (book, now):
            return verbs.pause(book, queue, now)

    async def resume(self, queue: str) -> bool:
        check_names(queue)
        with self.writing() as (book, now):
            return verbs.resume(book, queue, now)

    async def adopt(self, definitions: Sequence[Definition], limit: int) -> int:
        with self.writing() as (book, _):
            return verbs.adopt(book, definitions, limit)

    async def delete(self, run_id: str) -> Changed:
        with self.writing() as (book, now):
            return deleting.delete(book, run_id, now)

    async def retain(self, completed: float | None, failed: float | None, limit: int) -> Retained:
        with self.writing() as (book, now):
            return deleting.retain(book, completed, failed, limit, now)

    async def purge(self, limit: int) -> int:
        with self.writing() as (book, _):
            return deleting.purge(book, limit)

    async def release(self, worker_id: int, held: Sequence[int]) -> int:
        with self.writing() as (book, _):
            return upkeep.release(book, worker_id, frozenset(held))

    async def give_back(self, worker_id: int) -> int:
        with self.writing() as (book, now):
            return upkeep.give_back(book, worker_id, now)

    async def wake_due(self, limit: int) -> int:
        with self.writing() as (book, now):
            return upkeep.wake_due(book, limit, now)

    async def sweep(self, limit: int) -> int:
        with self.writing() as (book, now):
            return upkeep.sweep(book, limit, now)

    async def tally(self) -> bool:
        """What is asked of ``activity`` is counted when it is asked."""
        return False

    async def unblock(self, build: str, served: Sequence[str], limit: int) -> int:
        with self.writing() as (book, now):
            return upkeep.unblock(book, build, frozenset(served), limit, now)

    async def register(self, worker: WorkerRow, definitions: Sequence[Definition]) -> Registered:
        with self.writing() as (book, now):
            book.workers[worker.id] = Worker(row=worker, registered_at=now, beat_at=now)
            for definition in definitions:
                book.definitions[definition.kind, definition.name, definition.version] = definition
            return Registered(now=now, build_seen=book.builds.setdefault(worker.build, now))

    async def drain(self, worker_id: int) -> Changed:
        with self.writing() as (book, now):
            return upkeep.drain(book, worker_id, now)

    async def reap(self, worker_id: int, token: int, limit: int) -> list[Reaped]:
        with self.writing() as (book, now):
            return upkeep.reap(book, worker_id, token, limit, now)

    # --- queries ------------------------------------------------------------------------------------------------------

    async def outcomes(self, run_ids: Sequence[str]) -> list[Outcome]:
        with self._reading() as (book, _):
            return list(reading.outcomes(book, run_ids))

    async def run(self, run_id: str) -> RunRecord | None:
        with self._reading() as (book, _):
            return reading.record(book, run_id) if run_id in book.runs else None

    async def by_key(self, name: str, key: str) -> str | None:
        with self._reading() as (book, _):
            return book.keys.get((name, key))

    async def journal(self, run_id: str, generation: int | None = None) -> Journal | None:
        with self._reading() as (book, _):
            return reading.journal(book, run_id, generation)

    async def block(self, run_id: str) -> BlockRecord | None:
        with self._reading() as (book, _):
            return book.blocks.get(run_id)

    async def state(self, run_id: str) -> str | None:
        with self._reading() as (book, _):
            return book.states.get(run_id)

    async def mailbox(self, run_id: str) -> list[Mail]:
        with self._reading() as (book, _):
            return list(reading.signals(book, run_id)) if run_id in book.boxes else []

    async def list_runs(
        self, where: RunFilter, limit: int, cursor: str | None = None, *, oldest: bool = False, look: int = LOOK
    ) -> Found:
        with self._reading() as (book, _):
            return finding.list_runs(book, where, limit, cursor, look, oldest=oldest)

    async def open_runs(self, names: Sequence[str], limit: int, after: str | None) -> list[RunRecord]:
        with self._reading() as (book, _):
            return reading.open_runs(book, frozenset(names), limit, after)

    async def definitions(self, name: str | None = None) -> list[Definition]:
        with self._reading() as (book, now):
            return counting.definitions(book, name, now)

    async def count_runs(self, where: RunFilter, cap: int, look: int | None = None) -> Counted:
        with self._reading() as (book, _):
            return finding.count_runs(book, where, cap, look)

    async def aggregate(self, where: RunFilter, by: GroupBy, cap: int, look: int | None = None) -> Aggregate:
        with self._reading() as (book, _):
            return counting.aggregate(book, where, by, cap, look)

    async def failures(self, where: RunFilter, cap: int) -> Failures:
        with self._reading() as (book, _):
            return charting.failures(book, where, cap)

    async def activity(
        self, since: datetime, until: datetime, span: int, names: Sequence[str] | None = None
    ) -> list[Activity]:
        with self._reading() as (book, _):
            return charting.activity(book, since, until, span, names)

    async def stats(self) -> Stats:
        with self._reading() as (book, now):
            return counting.stats(book, now)

    async def queues(self) -> list[QueueRecord]:
        with self._reading() as (book, now):
            return counting.queues(book, now)

    async def workers(self) -> list[WorkerRecord]:
        with self._reading() as (book, now):
            return counting.workers(book, now)

    async def events(self, after: str | None, limit: int) -> Tail:
        with self._reading() as (book, _):
            return counting.events(book, after, limit)

    async def now(self) -> datetime:
        return self._clock.now()

    # --- wake-ups -----------------------------------------------------------------------------------------------------

    def subscribe(self, hear: Callable[[Wake], None]) -> Callable[[], None]:
        with self._lock:
            return self._wakeups.subscribe(hear)


class MemoryHeart:
    """The beat's way to a ``MemoryStorage``, from another thread."""

    def __init__(self, storage: MemoryStorage) -> None:
        self._storage = storage
        self._beaten: set[int] = set()

    async def open(self) -> None:
        """Nothing is to be connected."""

    async def beat(self, worker_id: int, load: Load = _NO_LOAD, details: Sequence[Details] = ()) -> Pulse:
        self._beaten.add(worker_id)
        with self._storage.writing() as (book, now):
            return upkeep.beat(book, worker_id, load, details, now)

    async def close(self) -> None:
        """The connection is gone, and whoever looks can see that."""
        with self._storage.writing() as (book, _):
            for worker_id in self._beaten:
                upkeep.disconnect(book, worker_id)
