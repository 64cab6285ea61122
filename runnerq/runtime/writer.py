"""The one way in which a worker's turns are written: gathered, many runs' turns in one commit.

Rules
- Nothing is out: what is queued is sent at once. A flush is out: what comes is gathered. There is no timer.
- A batch is at most half of the slots, so that Python works on one half while the storage writes the other. For the
  same reason the answers of a batch are told only after the next one, if there is one, has been sent.
- A second flight takes off only with a full batch: with less, it would just make the batches smaller. It gives 10 to
  15 % more steps a second on W1; a third gives nothing.
- BUSY turns wait here and are sent again after 1 ms doubling to 100 ms; they hold up nobody.
- No answer: the same turns are sent again, for ever. Whether they were written is unknown, and writing twice is
  harmless. After a few such failures in a row less is sent at a time, in the end one turn; if that one has no answer
  either, it is a suspect, and is sent alone and at its own pace from then on. So a turn that the storage cannot take
  without breaking down stops only itself.
- A refused batch is written one by one; only the guilty turn is told so. A fault in the backend's own code counts as a
  refusal, so that it hits the run that shows it and not the worker.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from runnerq.errors import SchemaError, StorageError, StorageRefused, StorageUnavailable
from runnerq.persistence.protocol import Runs
from runnerq.persistence.records import Turn, Verdict
from runnerq.runtime.callbacks import Fail, away, doubling, log, of_run, report

LEAST_BATCH = 50
LARGEST_BATCH = 500
BUSY_FIRST, BUSY_MOST = 0.001, 0.1
PATIENCE = 3
"""Failures in a row after which less is sent at a time: a quarter, a sixteenth, ... one."""

Answer: TypeAlias = Verdict | StorageRefused
Written: TypeAlias = Callable[[Answer], None]
_Queued: TypeAlias = tuple[Turn, Written]


class WriterStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts since the start; ``waiting`` turns are queued, out or busy now; flushes were out for ``seconds``."""

    flushes: int
    turns: int
    busy: int
    refused: int
    unavailable: int
    waiting: int
    seconds: float


class Writer:
    """Writes turns and tells each one's verdict. At most one turn a run may be under way; the caller sees to that."""

    def __init__(
        self,
        storage: Runs,
        slots: int,
        fail: Fail,
        *,
        flights: int = 2,
        busy: Callable[[Turn], None] | None = None,
    ) -> None:
        self._storage = storage
        self._fail = fail
        self._flights = flights
        self._busy = busy
        self._most = max(LEAST_BATCH, min(LARGEST_BATCH, slots // 2))
        self._queue: deque[_Queued] = deque()
        self._suspects: deque[_Queued] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._drained: list[asyncio.Future[None]] = []
        self._out = 0
        self._waiting = 0
        self._tries: dict[str, int] = {}
        self._era = 0
        self._flushes = self._turns = self._busies = self._refusals = self._failures = 0
        self._seconds = 0.0

    @property
    def stats(self) -> WriterStats:
        return WriterStats(
            flushes=self._flushes,
            turns=self._turns,
            busy=self._busies,
            refused=self._refusals,
            unavailable=self._failures,
            waiting=self._waiting,
            seconds=self._seconds,
        )

    def submit(self, turn: Turn, written: Written) -> None:
        """Have the turn written; ``written`` is told once, from the event loop, never from within this call.

        It is told DONE, AGAIN or LOST, or StorageRefused if the storage will not take this turn; never BUSY.
        """
        self._waiting += 1
        self._queue.append((turn, written))
        if self._idle:
            self._nudge()

    async def run(self) -> None:
        """Write until cancelled.

        Raises:
            ExceptionGroup: of a SchemaError: the schema is no longer the one this code knows.
        """
        async with asyncio.TaskGroup() as flights:
            for _ in range(self._flights):
                flights.create_task(self._fly())

    async def drain(self) -> None:
        """Return when every turn has its answer: nothing is queued, out, or busy."""
        while self._waiting:
            emptied = asyncio.get_running_loop().create_future()
            self._drained.append(emptied)
            await emptied

    def abandon(self) -> None:
        """Forget every turn, also those that are out: nobody is told. For a worker that has lost its runs.

        What is submitted later is written as ever.
        """
        self._era += 1
        self._queue.clear()
        self._suspects.clear()
        self._tries.clear()
        self._waiting = 0
        self._told_all()

    # --- sending ------------------------------------------------------------------------------------------------------

    def _nudge(self) -> None:
        if self._may_fly():
            idle = self._idle.pop()
            if not idle.done():
                idle.set_result(None)

    def _may_fly(self) -> bool:
        if self._suspects:
            return True
        return len(self._queue) >= self._most or (self._out == 0 and bool(self._queue))

    async def _fly(self) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            if not self._may_fly():
                idle = loop.create_future()
                self._idle.append(idle)
                await idle
                continue
            self._out += 1
            try:
                if self._suspects:
                    # Its failure says nothing about the others, and makes nobody wait.
                    await self._flush([self._suspects.popleft()], loop)
                elif await self._flush(self._take(self._most >> 2 * max(0, failures - PATIENCE)), loop):
                    failures = 0
                else:
                    failures += 1
                    await asyncio.sleep(away(failures))
            finally:
                self._out -= 1

    def _take(self, most: int) -> list[_Queued]:
        queue = self._queue
        if len(queue) <= most:
            batch = list(queue)
            queue.clear()
            return batch
        return [queue.popleft() for _ in range(max(1, most))]

    async def _flush(self, batch: list[_Queued], loop: asyncio.AbstractEventLoop) -> bool:
        """Send a batch; False if the storage did not answer, and the batch is queued again."""
        era = self._era
        began = loop.time()
        try:
            verdicts = await self._commit(batch)
        except StorageUnavailable as error:
            self._put_back(batch, era, error)
            return False
        except StorageRefused as refusal:
            if len(batch) > 1:
                return await self._one_by_one(batch, era)
            self._refuse(batch[0], refusal, era)
            return True
        self._seconds += loop.time() - began
        if self._queue:
            # The next batch goes out first: telling these takes as long as writing those.
            loop.call_soon(self._tell, batch, verdicts, era)
        else:
            self._tell(batch, verdicts, era)
        return True

    async def _one_by_one(self, batch: list[_Queued], era: int) -> bool:
        for at, queued in enumerate(batch):
            if era != self._era:
                break
            try:
                verdicts = await self._commit([queued])
            except StorageUnavailable as error:
                self._put_back(batch[at:], era, error)
                return False
            except StorageRefused as refusal:
                self._refuse(queued, refusal, era)
            else:
                self._tell([queued], verdicts, era)
        return True

    def _refuse(self, queued: _Queued, refusal: StorageRefused, era: int) -> None:
        self._refusals += 1
        log.error("run %s: the storage refuses its turn: %s", queued[0].run_id, refusal,
                  extra=of_run(queued[0].run_id))  # fmt: skip
        self._tell([queued], [refusal], era)

    async def _commit(self, batch: Sequence[_Queued]) -> list[Verdict]:
        self._flushes += 1
        try:
            verdicts = await self._storage.commit([turn for turn, _ in batch])
        except (StorageUnavailable, StorageRefused, SchemaError):
            raise
        except Exception as error:
            log.error("committing %d turns failed in the backend's own code: %r", len(batch), error, exc_info=error)
            raise StorageRefused(f"the backend failed on it: {error!r}") from error
        if len(verdicts) != len(batch):
            raise StorageError(f"{len(batch)} turns were committed and {len(verdicts)} verdicts came back")
        return verdicts

    def _put_back(self, batch: Sequence[_Queued], era: int, error: StorageUnavailable) -> None:
        self._failures += 1
        if era != self._era:
            return
        log.warning("the storage does not answer; %d turns are sent again: %s", len(batch), error)
        if len(batch) > 1:
            self._queue.extendleft(reversed(batch))
            return
        [suspect] = batch
        run_id = suspect[0].run_id
        tries = self._tries[run_id] = self._tries.get(run_id, 0) + 1
        asyncio.get_running_loop().call_later(away(tries), self._again_alone, suspect, era)

    def _again_alone(self, suspect: _Queued, era: int) -> None:
        if era == self._era:
            self._suspects.append(suspect)
            if self._idle:
                self._nudge()

    # --- telling ------------------------------------------------------------------------------------------------------

    def _tell(self, batch: Sequence[_Queued], answers: Sequence[Answer], era: int) -> None:
        if era != self._era:
            return
        tries = self._tries
        told = 0
        for (turn, written), answer in zip(batch, answers, strict=True):
            if answer is Verdict.BUSY:
                self._hold(turn, written)
                continue
            if tries:
                tries.pop(turn.run_id, None)
            told += 1
            try:
                written(answer)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the others must be told
                report(error, f"run {turn.run_id}: taking the verdict of its turn failed", self._fail)
            if era != self._era:
                return
        self._turns += told
        self._waiting -= told
        if not self._waiting:
            self._told_all()

    def _hold(self, turn: Turn, written: Written) -> None:
        tries = self._tries[turn.run_id] = self._tries.get(turn.run_id, 0) + 1
        self._busies += 1
        wait = doubling(tries, BUSY_FIRST, BUSY_MOST)
        asyncio.get_running_loop().call_later(wait, self._again, turn, written, self._era)
        if tries == 1 and self._busy is not None:
            try:
                self._busy(turn)
            except BaseException as error:  # noqa: BLE001 - as in _tell
                report(error, f"run {turn.run_id}: giving back the slot of a busy turn failed", self._fail)

    def _again(self, turn: Turn, written: Written, era: int) -> None:
        if era == self._era:
            self._queue.append((turn, written))
            if self._idle:
                self._nudge()

    def _told_all(self) -> None:
        drained, self._drained = self._drained, []
        for emptied in drained:
            if not emptied.done():
                emptied.set_result(None)
