"""What goes wrong between a worker and its storage, injected where the two meet.

Rules
- A fault is an act and a count: "the 3rd commit of the case is written, and its reply is lost".
- A killed worker is heard of no more: what it had under way never returns, it does not sign off, its lease runs out.
- A stale worker goes on writing, as it does not know that its runs were taken.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import msgspec

from runnerq.errors import StorageUnavailable
from runnerq.persistence.protocol import Heart, Storage
from runnerq.persistence.records import (
    Claim,
    ClaimRequest,
    Details,
    Load,
    NewSignal,
    Pulse,
    Sent,
    Turn,
    Verdict,
    Wake,
    WorkerRow,
)

AT_COMMITS = (
    "killed before a commit",
    "killed after a commit",
    "commit lost",
    "commit reply lost",
    "stale worker writes",
    "stopped in order",
)
AT_CLAIMS = ("claim reply lost", "claimed twice")
AT_WAKES = ("wake-up not heard", "wake lost")
AT_BEATS = ("beats fail",)
AT_SENDS = ("send reply lost",)
KINDS = AT_COMMITS + AT_CLAIMS + AT_WAKES + AT_BEATS + AT_SENDS


class Fault(msgspec.Struct, frozen=True):
    """``kind`` happens at the ``at``-th event of its sort, from 1."""

    kind: str
    at: int


class Faults:
    """The faults of one case: those to come, and which have happened."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._left = list(faults)
        self._counts: Counter[str] = Counter()
        self.happened: Counter[str] = Counter()

    def at(self, kinds: tuple[str, ...]) -> str | None:
        """Count an event of this sort; the fault that is due at it."""
        self._counts[kinds[0]] += 1
        for fault in self._left:
            if fault.kind in kinds and fault.at <= self._counts[kinds[0]]:
                self._left.remove(fault)
                self.happened[fault.kind] += 1
                return fault.kind
        return None


class Ledger:
    """What storages and steps did, in one order, kept outside of any storage.

    ``answers`` are the commands whose answer was committed, with when; ``tried`` the failed attempts that were;
    ``sent`` says how often a signal was taken for new, ``broken`` what was seen that must not be.
    """

    def __init__(self) -> None:
        self.clock = 0
        self.answers: dict[tuple[str, int, str], int] = {}
        self.tried: dict[tuple[str, int, str], tuple[int, int]] = {}
        self.sent: Counter[tuple[str, str, str]] = Counter()
        self.broken: list[str] = []

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def committed(self, turns: Sequence[Turn], verdicts: Sequence[Verdict]) -> None:
        now = self.tick()
        for turn, verdict in zip(turns, verdicts, strict=True):
            if verdict not in (Verdict.DONE, Verdict.AGAIN):
                continue
            for row in turn.rows:
                if row.kind in ("answered", "failed", "interrupted", "closed"):
                    self.answers.setdefault((turn.run_id, turn.generation, row.position), now)
            for attempt in turn.attempts:
                self.tried[turn.run_id, turn.generation, attempt.position] = (attempt.number, now)


class FaultyStorage:
    """One worker's way to the storage. ``kill`` and ``stop`` end that worker, from without."""

    def __init__(
        self,
        storage: Storage,
        faults: Faults,
        ledger: Ledger,
        latency: Callable[[], float],
        waking: Callable[[Callable[[], Any]], Any],
        sweeping: Callable[[int], Any],
    ) -> None:
        self._storage = storage
        self._faults = faults
        self._ledger = ledger
        self._latency = latency
        self._waking = waking
        self._sweeping = sweeping
        self.kill: Callable[[], None] = lambda: None
        self.stop: Callable[[], None] = lambda: None
        self.dead = False
        self.stale = False
        self.worker_id = 0
        self.stutters = 0

    def __getattr__(self, name: str) -> Any:
        if self.dead:
            raise StorageUnavailable("this worker is dead")
        return getattr(self._storage, name)

    async def give_back(self, worker_id: int) -> int:
        if self.dead:
            raise StorageUnavailable("this worker is dead")
        return await self._storage.give_back(worker_id)

    async def register(self, worker: WorkerRow, definitions: Any) -> Any:
        self.worker_id = worker.id
        registered = await self._storage.register(worker, definitions)
        self.stale = False
        return registered

    async def sweep(self, limit: int) -> int:
        mended: int = 0 if self.dead else await self._sweeping(limit)
        return mended

    async def commit(self, turns: Sequence[Turn]) -> list[Verdict]:
        await self._pause()
        match self._faults.at(AT_COMMITS):
            case "killed before a commit":
                await self._die()
            case "killed after a commit":
                await self._written(turns)
                await self._die()
            case "commit lost":
                raise StorageUnavailable("the commit was lost")
            case "commit reply lost":
                await self._written(turns)
                raise StorageUnavailable("the commit's reply was lost")
            case "stale worker writes":
                self.stale = True
                await self._storage.give_back(self.worker_id)
                await asyncio.sleep(8 * self._latency())
            case "stopped in order":
                self.stop()
        verdicts = await self._written(turns)
        await self._pause()
        return verdicts

    async def _written(self, turns: Sequence[Turn]) -> list[Verdict]:
        verdicts: list[Verdict] = await self._waking(lambda: self._storage.commit(turns))
        self._ledger.committed(turns, verdicts)
        return verdicts

    async def claim(self, request: ClaimRequest) -> Claim:
        await self._pause()
        claim = await self._storage.claim(request)
        if claim.runs:
            match self._faults.at(AT_CLAIMS):
                case "claim reply lost":
                    raise StorageUnavailable("the claim's reply was lost")
                case "claimed twice":
                    # Its runs are taken and claimed by another before it has begun with them; it does not know.
                    self.stale = True
                    await self._storage.give_back(self.worker_id)
                    await asyncio.sleep(8 * self._latency())
        return claim

    async def send(self, signals: Sequence[NewSignal]) -> list[Sent]:
        await self._pause()
        sent: list[Sent] = await self._waking(lambda: self._storage.send(signals))
        for signal, verdict in zip(signals, sent, strict=True):
            self._ledger.sent[signal.run_id, signal.channel, signal.value] += verdict is Sent.SENT
        if self._faults.at(AT_SENDS):
            raise StorageUnavailable("the reply to a send was lost")
        return sent

    async def cancel(self, run_ids: Sequence[str], reason: str | None = None) -> list[Sent]:
        await self._pause()
        sent: list[Sent] = await self._waking(lambda: self._storage.cancel(run_ids, reason))
        return sent

    def subscribe(self, hear: Callable[[Wake], None]) -> Callable[[], None]:
        def heard(wake: Wake) -> None:
            if self.dead or self._faults.at(("wake-up not heard",)):
                return
            hear(wake)

        return self._storage.subscribe(heard)

    def heart(self) -> Heart:
        return _FaultyHeart(self, self._storage.heart())

    async def _pause(self) -> None:
        if self.dead:
            await self._never()
        await asyncio.sleep(self._latency())

    async def _die(self) -> NoReturn:
        self.dead = True
        self.kill()
        await self._never()

    async def _never(self) -> NoReturn:
        await asyncio.get_running_loop().create_future()
        raise AssertionError("a dead worker was answered")

    def beat_fault(self) -> bool:
        """Whether this beat fails, and with it the next ones, until the worker fences itself."""
        if self._faults.at(AT_BEATS):
            self.stutters = 4
        self.stutters -= 1
        return self.dead or self.stutters >= 0


class _FaultyHeart:
    def __init__(self, worker: FaultyStorage, heart: Heart) -> None:
        self._worker = worker
        self._heart = heart

    async def open(self) -> None:
        await self._heart.open()

    async def beat(self, worker_id: int, load: Load, details: Sequence[Details]) -> Pulse:
        if self._worker.beat_fault() or (self._worker.stale and worker_id == self._worker.worker_id):
            # A stale worker must not hear so soon that it is one.
            self._worker.stutters = max(self._worker.stutters, 0)
            raise StorageUnavailable("the beat was lost")
        return await self._heart.beat(worker_id, load, details)

    async def close(self) -> None:
        await self._heart.close()
