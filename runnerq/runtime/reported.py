"""A worker's storage and writer where somebody listens: what goes through them is reported.

Rules
- What is not written here goes to the storage as it is. A shift without a reporter has neither of these.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

from runnerq.errors import StorageError
from runnerq.persistence.protocol import Runs, Storage, Work
from runnerq.persistence.records import (
    Ask,
    Claim,
    ClaimRequest,
    Definition,
    Fired,
    Firing,
    Inbox,
    Reaped,
    Relieved,
    Retained,
    Turn,
    Verdict,
)
from runnerq.runtime.callbacks import Fail
from runnerq.runtime.reporter import Reporter
from runnerq.runtime.writer import Answer, Writer, Written
from runnerq.telemetry.events import BatchCommitted, ClaimAnswered, Maintained, RunReaped, StorageFailed

T = TypeVar("T")


def reported(storage: Storage, reporter: Reporter | None) -> Storage:
    """The storage, reporting what goes through it; itself, where nobody listens."""
    return storage if reporter is None else cast("Storage", ReportedStorage(storage, reporter))


def writer_of(storage: Runs, slots: int, fail: Fail, busy: Callable[[Turn], None], reporter: Reporter | None) -> Writer:
    """A worker's writer, with or without a reporter."""
    if reporter is None:
        return Writer(storage, slots, fail, busy=busy)
    return ReportedWriter(storage, slots, fail, busy=busy, reporter=reporter)


class ReportedStorage:
    """A storage whose claims, commits and maintenance are reported. It has whatever the storage has."""

    def __init__(self, storage: Storage, reporter: Reporter) -> None:
        self._storage = storage
        self._reporter = reporter
        self._worker_id = reporter.worker_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    # --- runs ---------------------------------------------------------------------------------------------------------

    async def claim(self, request: ClaimRequest) -> Claim:
        began = time.monotonic()
        claim = await self._told("claim", self._storage.claim(request))
        self._reporter.tell(
            ClaimAnswered(
                worker_id=self._worker_id,
                asked=request.limit,
                claimed=len(claim.runs),
                seconds=time.monotonic() - began,
            )
        )
        return claim

    async def commit(self, turns: Sequence[Turn]) -> list[Verdict]:
        began = time.monotonic()
        verdicts = await self._told("commit", self._storage.commit(turns))
        seconds = time.monotonic() - began
        self._reporter.tell(BatchCommitted(worker_id=self._worker_id, turns=len(turns), seconds=seconds))
        return verdicts

    async def inbox(self, asks: Sequence[Ask]) -> list[Inbox]:
        inboxes = await self._told("inbox", self._storage.inbox(asks))
        for inbox in inboxes:
            self._reporter.mail(inbox.run_id, inbox.signals)
        return inboxes

    async def transact(self, work: Work) -> Verdict:
        return await self._told("transact", self._storage.transact(work))

    async def reap(self, worker_id: int, token: int, limit: int) -> list[Reaped]:
        reaped = await self._told("reap", self._storage.reap(worker_id, token, limit))
        for run in reaped:
            self._reporter.tell(
                RunReaped(run_id=run.run_id, name=run.name, crashes=run.crashes, capped=run.token is not None)
            )
        return reaped

    # --- maintenance --------------------------------------------------------------------------------------------------

    async def wake_due(self, limit: int) -> int:
        return await self._counted("wake_due", self._storage.wake_due(limit), int)

    async def sweep(self, limit: int) -> int:
        return await self._counted("sweep", self._storage.sweep(limit), int)

    async def unblock(self, build: str, served: Sequence[str], limit: int) -> int:
        return await self._counted("unblock", self._storage.unblock(build, served, limit), int)

    async def adopt(self, definitions: Sequence[Definition], limit: int) -> int:
        return await self._counted("adopt", self._storage.adopt(definitions, limit), int)

    async def purge(self, limit: int) -> int:
        return await self._counted("purge", self._storage.purge(limit), int)

    async def retain(self, completed: float | None, failed: float | None, limit: int) -> Retained:
        return await self._counted("retain", self._storage.retain(completed, failed, limit), lambda kept: kept.trees)

    async def relieve(self, after: str | None, limit: int) -> Relieved:
        return await self._counted("relieve", self._storage.relieve(after, limit), lambda relieved: relieved.mended)

    async def fire(self, firing: Firing) -> Fired | None:
        return await self._counted(
            "fire", self._storage.fire(firing), lambda fired: 0 if fired is None else len(fired.runs)
        )

    async def _counted(self, what: str, doing: Awaitable[T], count: Callable[[T], int]) -> T:
        done = await self._told(what, doing)
        if number := count(done):
            self._reporter.tell(Maintained(worker_id=self._worker_id, what=what, count=number))
        return done

    async def _told(self, what: str, doing: Awaitable[T]) -> T:
        try:
            return await doing
        except StorageError as error:
            self._reporter.tell(StorageFailed(worker_id=self._worker_id, what=what, error=type(error).__name__))
            raise


class ReportedWriter(Writer):
    """A writer whose turns are reported, each with what it waited for its verdict."""

    def __init__(
        self, storage: Runs, slots: int, fail: Fail, *, reporter: Reporter, busy: Callable[[Turn], None]
    ) -> None:
        super().__init__(storage, slots, fail, busy=busy)
        self._reporter = reporter

    def submit(self, turn: Turn, written: Written) -> None:
        turn = self._reporter.carried(turn)
        began = time.monotonic()

        def told(answer: Answer) -> None:
            self._reporter.committed(turn, answer, time.monotonic() - began)
            written(answer)

        super().submit(turn, told)
