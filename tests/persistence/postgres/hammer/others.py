"""Whoever is not a worker: senders, and the watcher that also does a maintenance loop's work."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import asyncpg

from runnerq.ids import new_run_id, new_token
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.postgres.greeting import STEADY_PLANS
from runnerq.persistence.records import Changed, End, NewRun, NewSignal, Reopen, Sent, Turn, WorkerRow
from tests.persistence.postgres.backend import a_storage
from tests.persistence.postgres.hammer.checks import LOST_WAKES
from tests.persistence.postgres.hammer.counts import Counts
from tests.persistence.postgres.hammer.turns import BUILD, CHANNELS, NAMES, NEXT_BUILD, QUEUE, SERVED
from tests.persistence.postgres.interleaving import writes_on


class Sender:
    """Sends signals to whatever is open, some of them in transactions that it holds open; cancels, terminates and
    starts runs, and opens failed ones again."""

    def __init__(self, dsn: str, seed: int, counts: Counts) -> None:
        self._dsn = dsn
        self._storage = a_storage(dsn)
        self._random = random.Random(seed)
        self._counts = counts
        self._number = seed * 10_000_000

    async def run(self, stopped: Callable[[], bool]) -> None:
        await self._storage.open()
        connection = await asyncpg.connect(self._dsn, server_settings=STEADY_PLANS)
        while not stopped():
            batch = await self._batch(connection)
            if batch:
                await self._send(connection, batch)
            await asyncio.sleep(self._random.random() * 0.01)
        await connection.close()
        await self._storage.close()

    async def _batch(self, connection: asyncpg.Connection) -> list[NewSignal]:
        rng = self._random
        rows = await connection.fetch(
            "select run_id::text as id, wants_signals[1] as channel from runnerq.live"
            " where state in ('waiting', 'running') order by random() limit 30"
        )
        wanted = [row for row in rows if row["channel"] or rng.random() < 0.15]
        batch: list[NewSignal] = []
        for row in wanted[: rng.choice((1, 1, 2, 10, 30))]:
            self._number += 1
            channel = row["channel"] if row["channel"] and rng.random() < 0.8 else rng.choice(CHANNELS)
            dedup = str(self._number) if rng.random() < 0.3 else None
            value = json.dumps(str(self._number))
            batch.append(NewSignal(run_id=row["id"], channel=channel, value=value, dedup=dedup))
        return batch

    async def _send(self, connection: asyncpg.Connection, batch: list[NewSignal]) -> None:
        rng, counts = self._random, self._counts
        if rng.random() < 0.15:
            await self._send_slowly(connection, batch[:3])
            return
        answers = await self._storage.send(batch)
        counts.add("sent", answers.count(Sent.SENT))
        if rng.random() < 0.1:
            deduped = [each for each, answer in zip(batch, answers, strict=True) if each.dedup and answer is Sent.SENT]
            if any(answer is not Sent.DUPLICATE for answer in await self._storage.send(deduped)):
                counts.add("a dedup id counted twice")
        if rng.random() < 0.02:
            cancelled = await self._storage.cancel([batch[-1].run_id], "hammer")
            counts.add("cancelled", cancelled.count(Sent.SENT))
        if rng.random() < 0.01:
            counts.add("terminated", (await self._storage.terminate([batch[-1].run_id])).count(Sent.SENT))
        if rng.random() < 0.1:
            await self._order(batch[0].run_id)
        if rng.random() < 0.1:
            await self._reopen(connection)
        if rng.random() < 0.05:
            replies = await self._storage.start([_keyed(rng.randrange(20)) for _ in range(3)])
            counts.add("started", sum(reply.created for reply in replies))
        if rng.random() < 0.05:
            self._number += 1
            signal = NewSignal(run_id="", channel=rng.choice(CHANNELS), value=json.dumps(str(self._number)))
            reply, answers = await self._storage.start_or_send(_keyed(rng.randrange(20)), [signal])
            counts.add("started", int(reply.created))
            counts.add("sent", answers.count(Sent.SENT))

    async def _order(self, run_id: str) -> None:
        """Ask of a run what a person may: that it goes on now, soon, or before others."""
        changed = [
            await self._storage.run_now(run_id),
            await self._storage.reschedule(run_id, datetime.now(UTC) + timedelta(seconds=self._random.random() * 0.02)),
            await self._storage.set_priority(run_id, self._random.randrange(4)),
        ]
        self._counts.add("ordered", changed.count(Changed.CHANGED))

    async def _reopen(self, connection: asyncpg.Connection) -> None:
        """Open a failed run again; as often as not with its failed parent, in one commit."""
        rows = await connection.fetch(
            "select o.run_id::text as id, p.run_id::text as parent from runnerq.outcome as o"
            " join runnerq.run as r on r.id = o.run_id"
            " left join runnerq.outcome as p on p.run_id = r.parent_id and p.status = 'failed'"
            " where o.status = 'failed' and o.token <> 0 order by random() limit 1"
        )
        for row in rows:
            reopen = Reopen(run_id=row["id"], generation=1, status="failed")
            if row["parent"] and self._random.random() < 0.5:
                reopen = Reopen(run_id=row["parent"], generation=1, status="failed", children=(reopen,))
            if await self._storage.reopen(reopen):
                self._counts.add("reopened", 1 + len(reopen.children))

    async def _send_slowly(self, connection: asyncpg.Connection, batch: list[NewSignal]) -> None:
        """Send in a transaction that stays open for a moment; one in four is rolled back."""
        transaction = connection.transaction()
        await transaction.start()
        answers = await writes_on(self._storage, connection).send(batch)
        await asyncio.sleep(self._random.random() * 0.02)
        if self._random.random() < 0.25:
            await transaction.rollback()
        else:
            await transaction.commit()
            self._counts.add("sent", answers.count(Sent.SENT))


def _keyed(number: int) -> NewRun:
    return NewRun(id=new_run_id(), kind="workflow", name=NAMES[0], version=1, queue=QUEUE, input="[]", key=f"k{number}")


class Watcher:
    """Looks for lost wakes, then does what keeps the fleet going."""

    def __init__(self, dsn: str, seed: int, counts: Counts) -> None:
        self._dsn = dsn
        self._id = seed
        self._storage = a_storage(dsn)
        self._counts = counts

    async def run(self, stopped: Callable[[], bool]) -> None:
        storage = self._storage
        await storage.open()
        connection = await asyncpg.connect(self._dsn, server_settings=STEADY_PLANS)
        row = WorkerRow(id=self._id, lease=3600, host="h", pid=os.getpid(), build=NEXT_BUILD, queues=(), served=())
        await storage.register(row, [])
        while not stopped():
            await storage.unblock(NEXT_BUILD, SERVED, 100)
            await storage.unblock(BUILD, SERVED, 100)
            await self._reap(storage)
            # Right before the sweep, which would mend what is to be found.
            await self._look(connection)
            self._counts.add("swept", await storage.sweep(1000))
            await asyncio.sleep(0.02)
        await connection.close()
        await storage.close()

    async def _look(self, connection: asyncpg.Connection) -> None:
        lost = await connection.fetch(LOST_WAKES)
        self._counts.add("looks")
        if lost:
            self._counts.add("a parked run whose wake was there", len(lost))
            print("lost wake:", dict(lost[0]), flush=True)

    async def _reap(self, storage: PostgresStorage) -> None:
        for reaped in await storage.reap(self._id, new_token(), 100):
            self._counts.add("reaped")
            if reaped.token is not None:
                end = End(status="dead_letter", reason="crash_loop", error="{}")
                await storage.commit([Turn(run_id=reaped.run_id, token=reaped.token, seen=0, move=end)])
                self._counts.add("crash loops")
