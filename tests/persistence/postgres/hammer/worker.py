"""A worker process of the hammer: it claims, takes turns, and does what a storage must bear."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import time
from collections.abc import Callable

import asyncpg

from runnerq.errors import StorageUnavailable
from runnerq.ids import new_token
from runnerq.persistence.records import Ask, ClaimRequest, Going, Verdict, WorkerRow
from tests.persistence.postgres.backend import a_storage
from tests.persistence.postgres.hammer.counts import Counts
from tests.persistence.postgres.hammer.turns import NEXT_BUILD, PAIRS, QUEUE, SERVED, Held

SLOTS = 25


class HammerWorker:
    """One worker process."""

    def __init__(self, dsn: str, seed: int, counts: Counts) -> None:
        self._dsn = dsn
        self._storage = a_storage(dsn)
        self._heart = self._storage.heart()
        self._random = random.Random(seed)
        self._counts = counts
        self._id = 0
        self._beaten = 0.0
        self._held: dict[str, Held] = {}
        self._zombies: dict[str, Held] = {}

    async def run(self, stopped: Callable[[], bool]) -> None:
        await self._storage.open()
        await self._heart.open()
        self._connection = await asyncpg.connect(self._dsn)
        await self._register()
        while not stopped():
            try:
                await self._round()
            except StorageUnavailable:
                # What is unknown is sent again: the pending turns stay.
                self._counts.add("unavailable")
        await self._connection.close()
        await self._heart.close()
        await self._storage.close()

    async def _register(self) -> None:
        self._id = secrets.randbits(62)
        row = WorkerRow(id=self._id, lease=3, host="h", pid=os.getpid(), build=NEXT_BUILD, queues=(QUEUE,), served=())
        await self._storage.register(row, [])

    async def _round(self) -> None:
        await self._beat()
        await self._claim()
        if self._random.random() < 0.05:
            await self._storage.wake_due(200)
        chosen = [held for held in self._held.values() if self._random.random() < 0.8]
        zombies = [z for z in self._zombies.values() if self._random.random() < 0.3 and z.run.id not in self._held]
        if chosen or zombies:
            for held in (*chosen, *zombies):
                held.pending = held.pending or held.next()
            await self._commit(chosen, zombies)
        elif not self._held:
            await self._storage.wake_due(200)
            await self._storage.unblock(NEXT_BUILD, SERVED, 100)
            await asyncio.sleep(0.002)
        if self._random.random() < 0.004:
            await self._connection.execute(
                "update runnerq.worker set beat_at = now() - interval '1 h' where id = $1", self._id
            )
            await self._begin_anew()

    async def _beat(self) -> None:
        if time.monotonic() - self._beaten > 0.5:
            self._beaten = time.monotonic()
            if not (await self._heart.beat(self._id)).alive:
                self._counts.add("found itself reaped")
                await self._begin_anew()

    async def _begin_anew(self) -> None:
        """Go on writing what was held, as one that does not know of its death, and claim under another id."""
        self._zombies |= self._held
        self._held = {}
        self._counts.add("zombies")
        await self._register()

    async def _claim(self) -> None:
        free = SLOTS - len(self._held)
        if free <= 0:
            return
        request = ClaimRequest(worker_id=self._id, token=new_token(), pairs=PAIRS, limit=free)
        runs = (await self._storage.claim(request)).runs
        self._counts.add("claimed", len(runs))
        if runs and self._random.random() < 0.02:
            self._counts.add("lost claims", len(runs))
            await self._storage.release(self._id, [held.run.token for held in self._held.values()])
            return
        fresh = [Held.of(run) for run in runs]
        for held in fresh:
            if held.run.id in self._held:
                self._counts.add("a run was held twice")
            self._held[held.run.id] = held
        await self._read([held for held in fresh if held.children()])

    async def _read(self, held: list[Held]) -> None:
        """Read mailboxes; runs that are not open are held no more."""
        if not held:
            return
        boxes = await self._storage.inbox([Ask(run_id=each.run.id, children=each.children()) for each in held])
        by_id = {box.run_id: box for box in boxes}
        for each in held:
            if each.run.id in by_id:
                each.read(by_id[each.run.id])
            else:
                self._held.pop(each.run.id, None)

    async def _commit(self, chosen: list[Held], zombies: list[Held]) -> None:
        everyone = [*chosen, *zombies]
        turns = [held.pending for held in everyone if held.pending is not None]
        verdicts = await self._storage.commit(turns)
        self._counts.add("turns", len(turns))
        if self._random.random() < 0.1:
            verdicts = self._compared(verdicts, await self._storage.commit(turns))
        again: list[Held] = []
        for held, turn, verdict in zip(everyone, turns, verdicts, strict=True):
            self._counts.add(str(verdict))
            if verdict is Verdict.BUSY:
                continue
            held.pending = None
            if verdict is not Verdict.LOST:
                held.written(turn)
            home = self._held if self._held.get(held.run.id) is held else self._zombies
            if verdict is Verdict.LOST or not (isinstance(turn.move, Going) or verdict is Verdict.AGAIN):
                home.pop(held.run.id, None)
            elif verdict is Verdict.AGAIN:
                again.append(held)
        await self._read(again)
        for held in again:
            held.woken = True

    def _compared(self, first: list[Verdict], second: list[Verdict]) -> list[Verdict]:
        """The same turns sent again: what is known of them now."""
        self._counts.add("repeated", len(first))
        for before, after in zip(first, second, strict=True):
            match before, after:
                case (Verdict.LOST, Verdict.DONE | Verdict.AGAIN):
                    self._counts.add("a stale turn was written when it was sent again")
                case (Verdict.AGAIN, Verdict.DONE):
                    self._counts.add("a park that was too late was done when it was sent again")
                case (Verdict.DONE, Verdict.AGAIN):
                    self._counts.add("a park that was done was too late when it was sent again")
                case (Verdict.DONE, Verdict.LOST):
                    self._counts.add("repeats not recognised any more")
                case _:
                    pass
        return [after if before is Verdict.BUSY else before for before, after in zip(first, second, strict=True)]
