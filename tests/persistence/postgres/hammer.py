"""The storage rules under a hammer: several processes at once, and everything that goes wrong with them.

    python -m tests.persistence.postgres.hammer DSN [--runs 3000] [--workers 4] [--seconds 600]

- Workers take random turns (see hammer_run.py), send one commit in ten again, lose two claim replies in a hundred, are
  killed with SIGKILL by the parent, or are declared dead and go on writing under their old tokens.
- Senders send signals one by one, in batches, and in transactions that they hold open; they cancel some runs, and start
  runs whose keys collide.
- A watcher reaps, wakes, unblocks and sweeps, and asserts every 20 ms, in one snapshot, that no parked run has its wake
  already there.
- At the end every run has ended, journals have no gaps, entries of two owners never interleave, and no signal was lost
  or consumed twice.

The database is wiped first. Exit code 0 only if nothing was found.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import multiprocessing
import os
import random
import secrets
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess

import asyncpg

from runnerq.errors import StorageUnavailable
from runnerq.persistence.postgres.connections import STEADY_PLANS
from runnerq.persistence.records import (
    Ask,
    ClaimRequest,
    End,
    Going,
    NewRun,
    NewSignal,
    Sent,
    Turn,
    Verdict,
    WorkerRow,
)
from runnerq.testing.conformance.world import new_id, new_token
from tests.persistence.postgres.backend import a_storage, wipe
from tests.persistence.postgres.hammer_run import BUILD, CHANNELS, LENGTH, NAMES, NEXT_BUILD, QUEUE, Held

SLOTS = 25
STALLED = 20.0
"""Seconds without any progress after which the run is given up."""

KILL_EVERY = 600
"""Journal rows between two SIGKILLs, so that a slow machine does not kill more than it gets done."""

PAIRS = tuple((QUEUE, f"{name}@1") for name in NAMES)
SERVED = tuple(served for _, served in PAIRS)

LOST_WAKES = """
select l.run_id::text, l.inbox, l.wants_signals, l.wants_children, l.needs, l.cancel
from runnerq.live as l
where l.state = 'waiting' and (
    l.cancel is not null
    or exists (select from runnerq.signal as s where s.run_id = l.run_id and not s.taken and s.channel = any(l.wants_signals))
    or exists (select from runnerq.outcome as o where o.run_id = any(l.wants_children) and o.status <> 'completed')
    or (select count(*) from runnerq.outcome as o where o.run_id = any(l.wants_children)) >= greatest(l.needs, 1)
    or l.wants_children is null and not exists (select from runnerq.live as c where c.parent_id = l.run_id))
"""

MUST_BE_NOTHING = {
    "journals with gaps": """
        select run_id::text from runnerq.journal group by run_id having count(*) <> max(place) + 1""",
    "entries of two owners interleaved": """
        select run_id::text from runnerq.journal group by run_id, value ->> 'token'
        having count(*) <> max(place) - min(place) + 1""",
    "entries written under another token than their own": """
        select run_id::text from runnerq.journal where (value ->> 'token')::bigint <> token""",
    "runs without an outcome": """
        select r.id::text from runnerq.run as r left join runnerq.outcome as o on o.run_id = r.id where o.run_id is null""",
    "open runs that have ended": """
        select l.run_id::text from runnerq.live as l join runnerq.outcome as o on o.run_id = l.run_id""",
    "signals consumed twice": """
        select value ->> 'value' from runnerq.journal where value ->> 'kind' = 'signal'
        group by value ->> 'value' having count(*) > 1""",
    "signals consumed and still there": """
        select s.value::text from runnerq.signal as s join runnerq.journal as j
        on j.value ->> 'kind' = 'signal' and j.value ->> 'value' = s.value #>> '{}' where not s.taken""",
    "children that nobody has made": """
        select j.run_id::text from runnerq.journal as j
        cross join lateral json_array_elements_text(j.value -> 'ids') as c(id)
        left join runnerq.outcome as o on o.run_id = c.id::uuid
        where j.value ->> 'kind' = 'spawn' and o.run_id is null""",
    "keys that more than one run began with": """
        select r.key from runnerq.run as r left join runnerq.outcome as o on o.run_id = r.id
        where r.key is not null and o.error ->> 'type' is distinct from 'KeyTaken'
        group by r.name, r.key having count(*) > 1""",
    "published states that are not the last ones": """
        select s.run_id::text from runnerq.state as s
        join (select run_id, max(place) as place from runnerq.journal where value ->> 'kind' = 'published' group by run_id) as j
        on j.run_id = s.run_id where s.value::text::integer <> j.place""",
    "attempts of ended runs": "select run_id::text from runnerq.attempt",
    "blocks of ended runs": "select run_id::text from runnerq.block",
}
STEPS_SHORT = """
    select o.run_id::text from runnerq.outcome as o
    left join lateral (select count(*) as n from runnerq.journal as j where j.run_id = o.run_id
                       and j.value ->> 'kind' in ('step','signal','children','slept','retried','unstuck','published')) as e on true
    where o.status in ('completed', 'failed') and o.token <> 0 and e.n <> $1"""
CONSUMED_OR_LEFT = """
    select (select count(*) from runnerq.journal where value ->> 'kind' = 'signal')
         + (select count(*) from runnerq.signal where not taken)"""


@dataclass
class Report:
    """What a hammering came to."""

    seconds: float
    counts: Counter[str]
    faults: list[str] = field(default_factory=list)

    @property
    def operations(self) -> int:
        return sum(self.counts[each] for each in ("claimed", "turns", "repeated", "sent", "reaped", "started"))


# --- workers ----------------------------------------------------------------------------------------------------------


class HammerWorker:
    """One worker process."""

    def __init__(self, dsn: str, seed: int, counts: Counter[str]) -> None:
        self._dsn = dsn
        self._storage = a_storage(dsn)
        self._heart = self._storage.heart()
        self._random = random.Random(seed)  # noqa: S311 - no secret
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
            except StorageUnavailable as error:
                # What is unknown is sent again: the pending turns stay.
                self._counts[f"unavailable: {type(error.__cause__).__name__}"] += 1
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
                self._counts["found itself reaped"] += 1
                await self._begin_anew()

    async def _begin_anew(self) -> None:
        """Go on writing what was held, as one that does not know of its death, and claim under another id."""
        self._zombies |= self._held
        self._held = {}
        self._counts["zombies"] += 1
        await self._register()

    async def _claim(self) -> None:
        free = SLOTS - len(self._held)
        if free <= 0:
            return
        request = ClaimRequest(worker_id=self._id, token=new_token(), pairs=PAIRS, limit=free)
        runs = (await self._storage.claim(request)).runs
        self._counts["claimed"] += len(runs)
        if runs and self._random.random() < 0.02:
            self._counts["lost claims"] += len(runs)
            await self._storage.release(self._id, [held.run.token for held in self._held.values()])
            return
        fresh = [Held.of(run) for run in runs]
        for held in fresh:
            if held.run.id in self._held:
                self._counts["FAULT: held twice"] += 1
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
        self._counts["turns"] += len(turns)
        if self._random.random() < 0.1:
            verdicts = self._compared(verdicts, await self._storage.commit(turns))
        again: list[Held] = []
        for held, turn, verdict in zip(everyone, turns, verdicts, strict=True):
            self._counts[str(verdict)] += 1
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
        self._counts["repeated"] += len(first)
        for before, after in zip(first, second, strict=True):
            match before, after:
                case (Verdict.LOST, Verdict.DONE | Verdict.AGAIN):
                    self._counts["FAULT: a stale turn was written when it was sent again"] += 1
                case (Verdict.AGAIN, Verdict.DONE):
                    self._counts["FAULT: a park that was too late was done when it was sent again"] += 1
                case (Verdict.DONE, Verdict.AGAIN):
                    self._counts["FAULT: a park that was done was too late when it was sent again"] += 1
                case (Verdict.DONE, Verdict.LOST):
                    self._counts["repeats not recognised any more"] += 1
                case _:
                    pass
        return [after if before is Verdict.BUSY else before for before, after in zip(first, second, strict=True)]


# --- senders and the watcher ------------------------------------------------------------------------------------------


async def send(dsn: str, seed: int, counts: Counter[str], stopped: Callable[[], bool]) -> None:
    """Send signals to whatever is open."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    storage = a_storage(dsn)
    await storage.open()
    connection = await asyncpg.connect(dsn, server_settings=STEADY_PLANS)
    number = seed * 10_000_000
    while not stopped():
        rows = await connection.fetch(
            "select run_id::text as id, wants_signals[1] as channel from runnerq.live"
            " where state in ('waiting', 'running') order by random() limit 30"
        )
        wanted = [row for row in rows if row["channel"] or rng.random() < 0.15]
        batch: list[NewSignal] = []
        for row in wanted[: rng.choice((1, 1, 2, 10, 30))]:
            number += 1
            channel = row["channel"] if row["channel"] and rng.random() < 0.8 else rng.choice(CHANNELS)
            dedup = str(number) if rng.random() < 0.3 else None
            batch.append(NewSignal(run_id=row["id"], channel=channel, value=json.dumps(str(number)), dedup=dedup))
        if not batch:
            await asyncio.sleep(0.003)
            continue
        if rng.random() < 0.15:
            await _hold_open(connection, batch[0].run_id, rng.random() * 0.02)
        answers = await storage.send(batch)
        counts["sent"] += answers.count(Sent.SENT)
        if rng.random() < 0.1:
            deduped = [each for each, answer in zip(batch, answers, strict=True) if each.dedup and answer is Sent.SENT]
            if any(answer is not Sent.DUPLICATE for answer in await storage.send(deduped)):
                counts["FAULT: a dedup id counted twice"] += 1
        if rng.random() < 0.02:
            counts["cancelled"] += (await storage.cancel([batch[-1].run_id], "hammer")).count(Sent.SENT)
        if rng.random() < 0.05:
            new = [_keyed(rng.randrange(20)) for _ in range(3)]
            counts["started"] += sum(reply.created for reply in await storage.start(new))
    await connection.close()
    await storage.close()


async def _hold_open(connection: asyncpg.Connection, run_id: str, seconds: float) -> None:
    """Hold a run's row as somebody's open transaction does."""
    async with connection.transaction():
        await connection.execute("select from runnerq.live where run_id = $1 for update", run_id)
        await asyncio.sleep(seconds)


def _keyed(number: int) -> NewRun:
    return NewRun(id=new_id(), kind="workflow", name=NAMES[0], version=1, queue=QUEUE, input="[]", key=f"k{number}")


async def watch(dsn: str, seed: int, counts: Counter[str], stopped: Callable[[], bool]) -> None:
    """Look for lost wakes, and do a maintenance loop's work."""
    storage = a_storage(dsn)
    await storage.open()
    connection = await asyncpg.connect(dsn, server_settings=STEADY_PLANS)
    me = seed
    row = WorkerRow(id=me, lease=3600, host="h", pid=os.getpid(), build=NEXT_BUILD, queues=(), served=())
    await storage.register(row, [])
    while not stopped():
        lost = await connection.fetch(LOST_WAKES)
        counts["looks"] += 1
        if lost:
            counts["FAULT: a parked run whose wake was there"] += len(lost)
            print("lost wake:", dict(lost[0]), flush=True)  # noqa: T201 - a command's output
        await storage.unblock(NEXT_BUILD, SERVED, 100)
        await storage.unblock(BUILD, SERVED, 100)
        for reaped in await storage.reap(me, new_token(), 100):
            counts["reaped"] += 1
            if reaped.token is not None:
                end = End(status="dead_letter", reason="crash_loop", error="{}")
                await storage.commit([Turn(run_id=reaped.run_id, token=reaped.token, seen=0, move=end)])
                counts["crash loops"] += 1
        mended = await storage.sweep(1000)
        counts["swept"] += mended
        await asyncio.sleep(0.02)
    await connection.close()
    await storage.close()


# --- processes --------------------------------------------------------------------------------------------------------


def _process(role: str, dsn: str, seed: int, results: multiprocessing.Queue, stop: ctypes.c_bool) -> None:
    counts: Counter[str] = Counter()

    def stopped() -> bool:
        return bool(stop.value)

    async def body() -> None:
        match role:
            case "worker":
                await HammerWorker(dsn, seed, counts).run(stopped)
            case "sender":
                await send(dsn, seed, counts, stopped)
            case _:
                await watch(dsn, seed, counts, stopped)

    try:
        asyncio.run(body())
    except BaseException as error:  # noqa: BLE001 - reported by the parent
        counts[f"FAULT: a {role} fell over: {type(error).__name__}: {error}"] += 1
    results.put(counts)


class Progress:
    """How far the hammering has come."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._since = time.monotonic()
        self.rows = 0

    async def is_over(self) -> bool:
        """Whether all runs have ended, or nothing has moved for so long that nothing will."""
        left, rows = await self._connection.fetchrow(
            "select (select count(*) from runnerq.live), (select count(*) from runnerq.journal)"
        )
        if rows != self.rows:
            self.rows, self._since = rows, time.monotonic()
        return bool(left == 0) or time.monotonic() - self._since > STALLED


async def hammer(dsn: str, *, runs: int, workers: int, seconds: float) -> Report:
    """Hammer on a fresh schema until all runs have ended, or time is up."""
    spawn = multiprocessing.get_context("spawn")
    # No Event: a process that is killed while it waits for one leaves it locked.
    results, stop = spawn.Queue(), spawn.RawValue(ctypes.c_bool, False)
    connection = await _begin(dsn, runs)

    def started(role: str, seed: int) -> BaseProcess:
        process = spawn.Process(target=_process, args=(role, dsn, seed, results, stop))
        process.start()
        return process

    seeds = iter(range(1, 1_000_000))
    hands = [started("worker", next(seeds)) for _ in range(workers)]
    others = [started("sender", next(seeds)), started("sender", next(seeds)), started("watcher", next(seeds))]
    began = time.monotonic()
    killed = 0
    progress = Progress(connection)
    while time.monotonic() - began < seconds and not await progress.is_over():
        await asyncio.sleep(0.25)
        if progress.rows > KILL_EVERY * (killed + 1):
            victim = hands.pop(0)
            os.kill(victim.pid or 0, signal.SIGKILL)
            victim.join()
            killed += 1
            hands.append(started("worker", next(seeds)))
    took = time.monotonic() - began
    stop.value = True
    counts: Counter[str] = Counter({"killed": killed, "started": runs})
    for _ in (*hands, *others):
        counts.update(results.get(timeout=60))
    for process in (*hands, *others):
        process.join()
    report = Report(took, counts, [f"{name} ({count})" for name, count in counts.items() if name.startswith("FAULT")])
    await _judge(connection, report, killed)
    await connection.close()
    return report


async def _begin(dsn: str, runs: int) -> asyncpg.Connection:
    storage = a_storage(dsn)
    await storage.open()
    connection: asyncpg.Connection = await asyncpg.connect(dsn)
    await wipe(connection)
    await storage.start(
        [
            NewRun(id=new_id(), kind="workflow", name=NAMES[number % 2], version=1, queue=QUEUE, input="[]")
            for number in range(runs)
        ]
    )
    await storage.close()
    return connection


async def _judge(connection: asyncpg.Connection, report: Report, killed: int) -> None:
    left = await connection.fetch("select state, count(*) from runnerq.live group by state")
    if left:
        report.faults.append(f"runs that did not end: {[tuple(row) for row in left]}")
    for fault, query in MUST_BE_NOTHING.items():
        found = await connection.fetch(query)
        if found and not (left and "outcome" in fault):
            report.faults.append(f"{fault}: {len(found)}, such as {found[0][0]}")
    short = await connection.fetch(STEPS_SHORT, LENGTH)
    if short:
        report.faults.append(f"runs that ended early: {len(short)}, such as {short[0][0]}")
    there = await connection.fetchval(CONSUMED_OR_LEFT)
    if there != report.counts["sent"]:
        report.faults.append(f"{report.counts['sent']} signals were sent, {there} were consumed or are left")


def main() -> int:
    parser = argparse.ArgumentParser(description="Hammer on the Postgres storage; the database is wiped.")
    parser.add_argument("dsn")
    parser.add_argument("--runs", type=int, default=3000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=600)
    given = parser.parse_args()
    report = asyncio.run(hammer(given.dsn, runs=given.runs, workers=given.workers, seconds=given.seconds))
    print(f"{report.seconds:.0f} s, {report.operations:,} operations, {dict(sorted(report.counts.items()))}")  # noqa: T201
    for fault in report.faults:
        print("FAULT", fault)  # noqa: T201
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
