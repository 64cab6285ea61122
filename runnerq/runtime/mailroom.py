"""Reads the mailboxes of held runs, many in one statement.

Rules
- Nothing is out: what is asked is read at once. A read is out: what comes is gathered for the next one.
- A run is in a read once; asked for again meanwhile, it waits for the next, so that each answer fits its own ask.
- No answer from the storage: asked again, for ever, behind the others. There may be more in those mailboxes than can be
  read in time: the next read is for a quarter as many, and each that has an answer lets the next be twice as large.
- A read that fails otherwise is made one by one; the guilty ask is logged and answered as a run that is not open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from runnerq.errors import SchemaError, StorageUnavailable
from runnerq.persistence.protocol import Runs
from runnerq.persistence.records import Ask, Inbox
from runnerq.runtime.callbacks import Fail, away, log, of_run, report

LARGEST_READ = 500

Answered: TypeAlias = Callable[[Inbox | None], None]
_Queued: TypeAlias = tuple[Ask, Answered]


class Mailroom:
    """Answers asks, in order; None for a run that is not open."""

    def __init__(self, storage: Runs, fail: Fail) -> None:
        self._storage = storage
        self._fail = fail
        self._queue: list[_Queued] = []
        self._idle: asyncio.Future[None] | None = None
        self._era = 0
        self._most = LARGEST_READ
        self._failures = 0
        self.reads = 0

    def ask(self, ask: Ask, answered: Answered) -> None:
        """Have a mailbox read; ``answered`` is told once, on the event loop, never from within this call."""
        self._queue.append((ask, answered))
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def abandon(self) -> None:
        """Forget every ask, also those that are out: nobody is told."""
        self._era += 1
        self._queue.clear()

    async def run(self) -> None:
        """Answer until cancelled.

        Raises:
            SchemaError: the schema is no longer the one this code knows.
        """
        while True:
            if not self._queue:
                self._idle = asyncio.get_running_loop().create_future()
                await self._idle
                self._idle = None
                continue
            await self._read(self._take(), self._era)

    def _take(self) -> dict[str, _Queued]:
        batch: dict[str, _Queued] = {}
        rest: list[_Queued] = []
        for queued in self._queue:
            run_id = queued[0].run_id
            if run_id in batch or len(batch) == self._most:
                rest.append(queued)
            else:
                batch[run_id] = queued
        self._queue = rest
        return batch

    async def _read(self, batch: dict[str, _Queued], era: int) -> None:
        self.reads += 1
        try:
            found = await self._storage.inbox([ask for ask, _ in batch.values()])
        except SchemaError:
            raise
        except StorageUnavailable as error:
            await self._put_off(batch, era, error)
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, it must hit the run that shows it alone
            if len(batch) > 1:
                self._most = 1
                if era == self._era:
                    self._queue[:0] = batch.values()
                return
            [run_id] = batch
            log.error("run %s: its mailbox cannot be read: %r", run_id, error, exc_info=error, extra=of_run(run_id))
            found = []
        self._failures = 0
        self._most = min(LARGEST_READ, 2 * self._most)
        self._tell(batch, found, era)

    async def _put_off(self, batch: dict[str, _Queued], era: int, error: StorageUnavailable) -> None:
        self._failures += 1
        self._most = max(1, len(batch) // 4)
        log.warning("the storage does not answer; %d mailboxes are read again: %s", len(batch), error)
        await asyncio.sleep(away(self._failures))
        if era == self._era:
            self._queue += batch.values()

    def _tell(self, batch: dict[str, _Queued], found: Sequence[Inbox], era: int) -> None:
        inboxes = {inbox.run_id: inbox for inbox in found}
        for run_id, (_, answered) in batch.items():
            if era != self._era:
                return
            try:
                answered(inboxes.get(run_id))
            except BaseException as error:  # noqa: BLE001 - whatever it is, the others must be answered
                report(error, f"run {run_id}: taking its mail failed", self._fail)
