"""Limits under a hammer: several storages claim, end, park, are reaped and change rules at random, and a watcher looks.

    python -m tests.persistence.postgres.limits_hammer DSN [--runs 5000] [--workers 6] [--seconds 300] [--seed 1]

- Workers claim a few runs of random pairs, hold them for a moment, and end them, park them, give them back, or forget
  them. They lose one hint in five. Nobody beats, so that all of them are reaped again and again.
- Others send signals, wake what is due, put off, terminate, relieve, and change the rules.
- The watcher asserts in one snapshot after the other: under one rule no bucket grows over it, and one that was over it
  does not grow at all; and every run that was lined up has a gate, and its lane.
- It goes on, with runs that come after the first, until each of EVENTS has happened. Then every run has ended, and no
  rate has admitted more in any of its spans than it says.

The database is wiped first. Exit code 0 only if nothing was found.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import secrets
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import asyncpg

from runnerq.ids import new_run_id, new_token
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.records import (
    Back,
    Claimed,
    ClaimRequest,
    End,
    Limit,
    LimitRule,
    Move,
    NewRun,
    NewSignal,
    Park,
    Turn,
    Verdict,
    WorkerRow,
)
from tests.persistence.postgres.backend import a_storage, wipe

QUEUES = ("one", "two")
SERVED = ("order@1", "work@1")
PAIRS = tuple(itertools.product(QUEUES, SERVED))
RULED = ("stripe", "tenant", "mail")
SCOPES = (*RULED, "free")
KEYS = ("", "1", "2", "3")
COMPLETED = End(status="completed", result="1")
EVENTS = ("rules", "rated", "reaped", "forgotten", "lost", "looks")
FEW = 40
LEASE = 1.5

PLACES = """
    select r.scope, r.concurrency, r.changed_at, l.key, l.running
    from runnerq.limit_rule as r
    left join lateral (
        select case when r.per_key then limit_key else '' end as key, count(*) as running
        from runnerq.live where state = 'running' and limit_scope = r.scope
        group by 1
    ) as l on true
"""
UNREACHED = """
    select l.run_id::text, l.limit_scope, l.limit_key, l.queue, l.served
    from runnerq.live as l
    where l.state = 'pending' and l.due_at is null and l.lined
      and not exists (
          select from runnerq.gate as g
          join runnerq.bucket as b on b.scope = g.scope and b.key = g.key
          left join runnerq.lane as a
            on a.scope = g.scope and a.queue = g.queue and a.served = g.served and a.key = l.limit_key
          where g.scope = l.limit_scope and g.queue = l.queue and g.served = l.served
            and case when b.whole then g.key = '' and a.key is not null else g.key = l.limit_key end)
"""


@dataclass
class Hammer:
    """One hammering; what it has counted, and what it has found."""

    dsn: str
    runs: int
    chance: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    _open: list[str] = field(default_factory=list)
    _over: bool = False
    _rules: dict[str, LimitRule] = field(default_factory=dict)
    _changes: int = 0
    _admissions: dict[tuple[LimitRule, int, str], list[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """When their claims were sent and answered, by the rule, its change and the key."""

    async def run(self, workers: int, seconds: float) -> None:
        connection = await asyncpg.connect(self.dsn)
        storages = [a_storage(self.dsn) for _ in range(workers)]
        for storage in storages:
            await storage.open()
        try:
            await wipe(connection)
            for _ in range(0, self.runs, 50):
                await storages[0].start([self._a_run() for _ in range(50)])
            others = (self._watch(connection), self._upkeep(storages[0]), self._meddle(storages[-1]))
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                for work in (*map(self._work, storages), *others, self._change_rules(storages[0])):
                    group.create_task(work)
        except TimeoutError:
            never = [event for event in EVENTS if not self.counts[event]]
            self.faults.append(f"{len(self._open)} runs have not ended, such as {self._open[:1]}; never: {never}")
        finally:
            for storage in storages:
                await storage.close()
            await connection.close()
        self._judge_rates()

    def _a_run(self) -> NewRun:
        queue, served = self.chance.choice(PAIRS)
        limit = Limit(self.chance.choice(SCOPES), self.chance.choice(KEYS)) if self.chance.random() < 0.9 else None
        return NewRun(
            id=new_run_id(),
            kind="workflow",
            name=served.partition("@")[0],
            version=1,
            queue=queue,
            input="[]",
            priority=self.chance.randrange(4),
            due_in=self.chance.random() if self.chance.random() < 0.1 else None,
            limit=limit,
        )

    # --- workers ------------------------------------------------------------------------------------------------------

    async def _work(self, storage: PostgresStorage) -> None:
        chance, freed = random.Random(self.chance.random()), list[Limit]()
        worker_id = await self._register(storage)
        while not self._over:
            request = ClaimRequest(
                worker_id=worker_id,
                token=new_token(),
                pairs=tuple(chance.sample(PAIRS, chance.randint(1, len(PAIRS)))),
                limit=chance.choice((1, 2, 5, 20, 50)),
                freed=tuple(limit for limit in freed if chance.random() < 0.8),
            )
            rules, sent = (dict(self._rules), self._changes), time.monotonic()
            claim = await storage.claim(request)
            self._count(claim.runs, sent, *rules)
            freed = [run.limit for run in claim.runs if run.limit is not None]
            for run in claim.runs:
                await asyncio.sleep(chance.choice((0, 0, 0.001, 0.004)))
                await self._turn(storage, run, chance)
            if not claim.runs:
                await asyncio.sleep(0.002)
            if chance.random() < 0.02:
                self.counts["released"] += await storage.release(worker_id, ())
                worker_id = await self._register(storage)

    async def _turn(self, storage: PostgresStorage, run: Claimed, chance: random.Random) -> None:
        move = _a_move(chance)
        if move is None:
            self.counts["forgotten"] += 1
            return
        verdict = await _commit(storage, run, move)
        if verdict is Verdict.AGAIN:
            verdict = await _commit(storage, run, Back())
        self.counts[verdict] += 1

    async def _register(self, storage: PostgresStorage) -> int:
        self.counts["registered"] += 1
        worker_id = secrets.randbits(62) + 1
        row = WorkerRow(id=worker_id, lease=LEASE, host="h", pid=1, build="b", queues=QUEUES, served=SERVED)
        await storage.register(row, ())
        return worker_id

    def _count(self, runs: Sequence[Claimed], sent: float, rules: dict[str, LimitRule], changes: int) -> None:
        self.counts["claimed"] += len(runs)
        answered = time.monotonic()
        if changes != self._changes:
            # Nobody knows which rule it was that admitted these.
            return
        for run in runs:
            if run.limit is not None and run.limit.scope in rules:
                rule = rules[run.limit.scope]
                self._admissions[rule, changes, run.limit.key if rule.per_key else ""].append((sent, answered))
                self.counts["rated"] += rule.rate is not None

    # --- the others ---------------------------------------------------------------------------------------------------

    async def _upkeep(self, storage: PostgresStorage) -> None:
        after = None
        reaper = await self._register(storage)
        for turn in itertools.count():
            if self._over:
                return
            self.counts["woken"] += await storage.wake_due(100)
            if turn % 5 == 0:
                relieved = await storage.relieve(after, 5)
                after = relieved.next
                self.counts["relieved"] += relieved.mended
            if turn % 20 == 0:
                for run in await storage.reap(reaper, new_token(), 100):
                    self.counts["reaped"] += 1
                    if run.token is not None:
                        end = End(status="dead_letter", error="{}", reason="crash_loop")
                        await storage.commit([Turn(run_id=run.run_id, token=run.token, seen=0, move=end)])
            await asyncio.sleep(0.01)

    async def _meddle(self, storage: PostgresStorage) -> None:
        while not self._over:
            if len(self._open) < FEW and not self._everything_happened():
                await storage.start([self._a_run() for _ in range(FEW)])
            run_id, number = self.chance.choice(self._open or [new_run_id()]), self.chance.random()
            if number < 0.6:
                await storage.send([NewSignal(run_id=run_id, channel="go", value="1")])
            elif number < 0.75:
                await storage.reschedule(run_id, _soon(0.05))
            elif number < 0.9:
                await storage.set_priority(run_id, self.chance.randrange(4))
            else:
                await storage.terminate([run_id])
            self.counts["meddled"] += 1
            await asyncio.sleep(0.003)

    async def _change_rules(self, storage: PostgresStorage) -> None:
        for scope in RULED:
            # So that there are rates in a short hammering too.
            await self._change(storage, scope, LimitRule(scope=scope, concurrency=None, rate=8, per=0.4, per_key=False))
        await asyncio.sleep(0.6)
        until = time.monotonic() + max(2.0, self.runs / 150)
        while not self._over and (time.monotonic() < until or not self._everything_happened()):
            scope = self.chance.choice(RULED)
            await self._change(storage, scope, None if self.chance.random() < 0.1 else self._a_rule(scope))
            await asyncio.sleep(self.chance.choice((0, 0.01, 0.6)))
        for scope in RULED:
            per_key = self.chance.random() < 0.5
            await self._change(storage, scope, LimitRule(scope=scope, concurrency=3, per_key=per_key))

    async def _change(self, storage: PostgresStorage, scope: str, rule: LimitRule | None) -> None:
        self._changes += 1
        self._rules.pop(scope, None)
        if rule is None:
            await storage.delete_limit(scope)
        else:
            await storage.set_limit(rule)
            self._rules[scope] = rule
        self._changes += 1
        self.counts["rules"] += 1

    def _a_rule(self, scope: str) -> LimitRule:
        concurrency = self.chance.choice((0, 1, 1, 2, 5, None))
        rated = scope == "mail" or concurrency is None
        return LimitRule(
            scope=scope,
            concurrency=concurrency,
            rate=self.chance.randint(1, 8) if rated else None,
            per=0.4 if rated else None,
            per_key=self.chance.random() < 0.5,
        )

    # --- judges -------------------------------------------------------------------------------------------------------

    async def _watch(self, connection: asyncpg.Connection) -> None:
        seen: set[tuple[str, datetime]] = set()
        before: dict[tuple[str, str], int] = {}
        while not self._over:
            rows = await connection.fetch(PLACES)
            for row in rows:
                if (
                    row["running"] is None
                    or row["concurrency"] is None
                    or (row["scope"], row["changed_at"]) not in seen
                ):
                    continue
                most = max(row["concurrency"], before.get((row["scope"], row["key"]), 0))
                if row["running"] > most:
                    self.faults.append(f"{row['running']} places are held where {most} are the most: {tuple(row)}")
            seen = {(row["scope"], row["changed_at"]) for row in rows}
            before = {(row["scope"], row["key"]): row["running"] or 0 for row in rows}
            for row in await connection.fetch(UNREACHED):
                self.faults.append(f"a waiting run has no gate: {tuple(row)}")
            self._open = [row[0] for row in await connection.fetch("select run_id::text from runnerq.live")]
            self._over = bool(self.faults) or (not self._open and self._everything_happened())
            self.counts["looks"] += 1

    def _everything_happened(self) -> bool:
        return all(self.counts[event] for event in EVENTS)

    def _judge_rates(self) -> None:
        for (rule, _, key), times in self._admissions.items():
            if rule.rate is None or rule.per is None:
                continue
            times.sort()
            for nth, (first, _) in enumerate(times):
                # Not sent before the first, and answered within its span: these were surely admitted in it.
                surely = sum(answered < first + rule.per for _, answered in times[nth:])
                if surely > rule.rate:
                    self.faults.append(f"{surely} of {rule.scope!r}, {key!r} within {rule.per} s, {rule.rate} may be")


async def _commit(storage: PostgresStorage, run: Claimed, move: Move) -> Verdict:
    turn = Turn(run_id=run.id, token=run.token, seen=run.seen, move=move)
    while True:
        [verdict] = await storage.commit([turn])
        if verdict is not Verdict.BUSY:
            return verdict
        await asyncio.sleep(0.001)


def _a_move(chance: random.Random) -> Move | None:
    """None: the worker forgets the run."""
    number = chance.random()
    if number < 0.6:
        return COMPLETED
    if number < 0.75:
        return Park(signals=("go",), due_at=_soon(1.0))
    if number < 0.85:
        return Back()
    return Back(due_at=_soon(0.1)) if number < 0.95 else None


def _soon(seconds: float) -> datetime:
    return datetime.now().astimezone() + timedelta(seconds=seconds)


async def hammer(dsn: str, *, runs: int, workers: int, seconds: float, seed: int) -> Hammer:
    """Hammer, and say what came of it."""
    hammering = Hammer(dsn, runs, random.Random(seed))
    await hammering.run(workers, seconds)
    return hammering


def main() -> int:
    parser = argparse.ArgumentParser(description="Hammer on limits; the database is wiped.")
    parser.add_argument("dsn")
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    began = time.monotonic()
    report = asyncio.run(
        hammer(given.dsn, runs=given.runs, workers=given.workers, seconds=given.seconds, seed=given.seed)
    )
    print(f"{time.monotonic() - began:.0f} s: {_listed(report.counts.items())}")
    for fault in report.faults[:10]:
        print("FAULT", fault)
    return 1 if report.faults else 0


def _listed(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts))


if __name__ == "__main__":
    sys.exit(main())
