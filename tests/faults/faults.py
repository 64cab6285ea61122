"""The faults. Each is a coroutine that begins with the fault and ends with it; the load goes on all the time.

``lasts`` is in seconds, where a fault has a length. What a fault may cause is said in the table at the end; whatever it
does not say counts as a failure of the product.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

import asyncpg
import msgspec

from tests.faults.ledger import Line, real_time
from tests.faults.proxy import Fate, Link, Proxy, pass_all
from tests.faults.scene import Process, Scene
from tests.faults.wire import LISTEN, OTHER

CLAIM = "claim_runs"
_NO_COMMITS = (CLAIM, "aggregate_", "beat", "count_", "hold_", "list_", "look_", "notify", "read_", LISTEN, OTHER)
"""What the names of statements begin with that write nothing, or nothing that anybody waits for."""

WITHIN_SEEN = 5.0
"""Seconds in which the runs of a killed worker must be taken up, if the database can see that it is gone."""
GATHERING = 0.3
"""Seconds in which statements that are under way come to their end."""
SLACK = 3.0
"""Seconds beyond a lease: a reaper's interval, and a claim."""
_OURS = "datname = current_database() and backend_type = 'client backend' and application_name <> 'somebody'"
_FILLED = ("run", "live", "journal", "outcome", "signal", "worker")

Cause = Callable[[Scene, float], Awaitable[None]]


class Fault(msgspec.Struct, frozen=True):
    """A fault, and what it may cause.

    ``may_repeat``: attempts under way may run again. ``may_crash``: a run may count a crash. ``goes_on``: throughput
    must not break down meanwhile. ``after``: seconds of load after it, at least.
    """

    name: str
    what: str
    cause: Cause
    lasts: float = 6.0
    after: float = 8.0
    lease: float = 60.0
    through_proxy: bool = False
    may_repeat: bool = False
    may_crash: bool = False
    goes_on: bool = False


# --- the server -------------------------------------------------------------------------------------------------------


async def restarted(scene: Scene, _lasts: float) -> None:
    await scene.server.crash()
    await scene.server.start()


async def killed_unflushed(scene: Scene, _lasts: float) -> None:
    """When everything else is on disk, claims alone get through, and the server is killed as soon as one has."""
    proxy = scene.proxy
    assert proxy is not None
    claimed: list[Line] = []
    while not claimed:
        # Starts only, so that there is something to claim; then nothing, until what is under way has come to its end.
        proxy.set(lambda link, _: Fate.PASS if link.door.name == "load" else Fate.HELD)
        await asyncio.sleep(GATHERING)
        proxy.set(lambda *_: Fate.HELD)
        await asyncio.sleep(GATHERING)
        claimed = await _claims_alone(scene, proxy)
    await scene.server.kill()
    await scene.server.start()
    claims = {line.words[1]: int(line.words[2]) for line in claimed}
    there = await scene.ask("select run_id::text, token from runnerq.live where run_id = any($1::uuid[])", list(claims))
    lost = sum(row["token"] != claims[row["run_id"]] for row in there)
    proxy.set(pass_all)
    scene.say(f"{lost} of {len(claims)} claims lost")
    scene.must(lost > 0, "no claim was lost in the crash")


async def _claims_alone(scene: Scene, proxy: Proxy) -> list[Line]:
    """What is claimed now, nothing else passing; nothing if no worker has a free slot."""
    before = real_time()
    claimed: list[Line] = []
    proxy.set(lambda _, name: Fate.PASS if name.startswith(CLAIM) else Fate.HELD)
    while not claimed and real_time() < before + GATHERING:
        await asyncio.sleep(0.002)
        claimed = [line for line in scene.ledger.read("claimed") if line.at > before]
    proxy.set(pass_all if not claimed else lambda *_: Fate.HELD)
    if not claimed:
        await asyncio.sleep(GATHERING)
    return claimed


async def backends_killed(scene: Scene, lasts: float) -> None:
    somebody = await scene.connect()
    killed = 0
    until = real_time() + lasts
    while real_time() < until:
        killed += len(
            await somebody.fetch(
                f"select pg_terminate_backend(pid) from pg_stat_activity where {_OURS} order by random() limit 1"
            )
        )
        await asyncio.sleep(0.1)
    await somebody.close()
    scene.say(f"{killed} backends")


async def frozen(scene: Scene, lasts: float) -> None:
    scene.server.freeze()
    try:
        await asyncio.sleep(lasts)
    finally:
        scene.server.thaw()


async def exhausted(scene: Scene, lasts: float) -> None:
    """Somebody takes all connections that the server has, and ours as soon as they are cut."""
    taken = [await scene.connect()]
    until = real_time() + lasts
    ours = 0
    while real_time() < until:
        gone = await taken[0].fetch(f"select pg_terminate_backend(pid) from pg_stat_activity where {_OURS}")
        ours = len(gone)
        try:
            while True:
                taken.append(await scene.connect())
        except (asyncpg.TooManyConnectionsError, asyncpg.CannotConnectNowError):
            await asyncio.sleep(0.02)
    scene.say(f"{len(taken)} connections taken, {ours} left to us")
    for connection in taken:
        connection.terminate()


async def disk_full(scene: Scene, lasts: float) -> None:
    """A trigger raises what a full disk does, in the server and amid our statements, which are rolled back."""
    somebody = await scene.connect()

    async def fill(share: float) -> None:
        await somebody.execute(
            "create or replace function public.write_to_disk() returns trigger language plpgsql as $$ begin "
            f"if random() < {share} then raise exception 'could not extend file: No space left on device' "
            "using errcode = '53100'; end if; return null; end $$"
        )

    await fill(0)
    for table in _FILLED:
        await somebody.execute(
            f"create trigger disk after insert or update on runnerq.{table} "
            "for each statement execute function public.write_to_disk()"
        )
    await fill(1)
    await asyncio.sleep(lasts / 2)
    await fill(0.3)
    await asyncio.sleep(lasts / 2)
    await fill(0)
    await somebody.close()


# --- somebody's transactions ------------------------------------------------------------------------------------------


async def rows_held(scene: Scene, lasts: float) -> None:
    somebody = await scene.connect()
    async with somebody.transaction():
        held = await somebody.fetch("select run_id from runnerq.live order by run_id desc limit 5 for update")
        await asyncio.sleep(lasts)
    await somebody.close()
    scene.say(f"{len(held)} runs held")


async def idle_in_transaction(scene: Scene, lasts: float) -> None:
    somebody = await scene.connect()
    async with somebody.transaction(isolation="repeatable_read"):
        await somebody.fetchval("select pg_current_xact_id()::text || count(*) from runnerq.run")
        await asyncio.sleep(lasts)
    await somebody.close()


# --- workers ----------------------------------------------------------------------------------------------------------


async def worker_killed(scene: Scene, _lasts: float) -> None:
    """The database sees it: its beat's connection is gone."""
    await _killed(scene, WITHIN_SEEN)


async def worker_killed_unseen(scene: Scene, _lasts: float) -> None:
    """The proxy keeps its connections: only its lease says that it is gone."""
    door = scene.workers[0].door
    assert door is not None
    door.keeps = True
    await _killed(scene, UNSEEN_LEASE + SLACK)


async def _killed(scene: Scene, within: float) -> None:
    victim = scene.workers[0]
    held = await _stopped_at_work(scene, victim)
    victim.signal(signal.SIGKILL)
    scene.from_now()
    scene.miss(held, within)
    await victim.code(5)
    scene.say(f"it held {len(held)} runs")
    await scene.replace(victim)


async def worker_stopped(scene: Scene, lasts: float) -> None:
    """SIGSTOP past its lease: others have taken its runs when it wakes."""
    victim = scene.workers[0]
    held = await _stopped_at_work(scene, victim)
    scene.miss(held, SHORT_LEASE + SLACK)
    scene.say(f"it held {len(held)} runs")
    await asyncio.sleep(lasts)
    victim.signal(signal.SIGCONT)


async def worker_stalled(scene: Scene, lasts: float) -> None:
    """SIGSTOP for less than its lease: nobody takes anything, and nothing counts."""
    victim = scene.workers[0]
    held = await _stopped_at_work(scene, victim)
    scene.say(f"it held {len(held)} runs")
    await asyncio.sleep(lasts)
    victim.signal(signal.SIGCONT)


async def _stopped_at_work(scene: Scene, victim: Process) -> set[str]:
    """Stop it while it holds runs; which."""
    query = "select run_id::text from runnerq.live where worker_id = $1 and state = 'running'"
    while True:
        victim.signal(signal.SIGSTOP)
        if held := {row[0] for row in await scene.ask(query, victim.worker_id)}:
            return held
        victim.signal(signal.SIGCONT)
        await asyncio.sleep(0.02)


async def clocks_off(scene: Scene, lasts: float) -> None:
    """One worker's clock jumps an hour ahead, the other's an hour back; both stay there."""
    for worker in scene.workers:
        worker.signal(signal.SIGUSR1)
    await asyncio.sleep(lasts)


# --- connections ------------------------------------------------------------------------------------------------------


async def listen_cut(scene: Scene, lasts: float) -> None:
    """What listens for wake-ups hears nothing more, and is told nothing of that."""
    doors = [process.door for process in scene.workers if process.door]
    links = [link for door in doors for link in door.links if link.listens]
    for link in links:
        link.silent = True
    await asyncio.sleep(lasts)
    again = [link for door in doors for link in door.links if link.listens and not link.silent]
    scene.say(f"{len(links)} connections cut, {len(again)} made anew")
    scene.must(len(links) == len(scene.workers), "not every worker listened")
    scene.must(len(again) >= len(links), "a connection that had gone silent was not made anew")


def is_claim(name: str) -> bool:
    return name.startswith(CLAIM)


def is_commit(name: str) -> bool:
    """Turns, and whatever else is written: a client's starts and sends, wake-ups, maintenance."""
    return not name.startswith(_NO_COMMITS)


async def claims_cut(scene: Scene, lasts: float) -> None:
    await _lose(scene, lasts, is_claim, Fate.CUT, 0.3)


async def claims_unanswered(scene: Scene, lasts: float) -> None:
    await _lose(scene, lasts, is_claim, Fate.UNANSWERED, 0.05)


async def commits_cut(scene: Scene, lasts: float) -> None:
    await _lose(scene, lasts, is_commit, Fate.CUT, 0.2)


async def commits_unanswered(scene: Scene, lasts: float) -> None:
    await _lose(scene, lasts, is_commit, Fate.UNANSWERED, 0.05)


STALL = 30.0
"""Seconds for which a fault goes on that has met nothing yet: the machine may have stood still meanwhile."""


async def _lose(scene: Scene, lasts: float, concerned: Callable[[str], bool], fate: Fate, share: float) -> None:
    """The first answer to each of these statements of each process, and some of the others.

    A client whose every connection has gone silent waits for a minute, as a start may wait for a lock so long: of the
    load's connections only the first ones go silent.
    """
    proxy = scene.proxy
    assert proxy is not None
    first: set[tuple[str, str]] = set()

    def rule(link: Link, name: str) -> Fate:
        spared = random.random() > share or (link.door.name == "load" and fate is Fate.UNANSWERED)
        if not concerned(name) or ((link.door.name, name) in first and spared):
            return Fate.PASS
        first.add((link.door.name, name))
        return fate

    before = sum(proxy.lost.values())
    proxy.set(rule)
    await asyncio.sleep(lasts)
    with suppress(TimeoutError):
        async with asyncio.timeout(STALL):
            while sum(proxy.lost.values()) == before:
                await asyncio.sleep(0.05)
    proxy.set(pass_all)
    scene.say(", ".join(f"{name} {count}" for name, count in sorted(proxy.lost.items())))
    scene.must(sum(proxy.lost.values()) > before, "no answer was lost")


UNSEEN_LEASE = 8.0
SHORT_LEASE = 4.0


def in_a_row(*causes: Cause) -> Cause:
    """One after the other, in one scene."""

    async def cause(scene: Scene, lasts: float) -> None:
        for each in causes:
            await each(scene, lasts)
            await asyncio.sleep(lasts)

    return cause


SHORT: tuple[Fault, ...] = (
    Fault(
        "nothing-repeats", "answers lost, backends killed, rows held, the disk full",
        in_a_row(claims_cut, commits_cut, backends_killed, rows_held, disk_full), through_proxy=True,
    ),
    Fault(
        "crashes", "Postgres restarted, a worker killed", in_a_row(restarted, worker_killed),
        may_repeat=True, may_crash=True,
    ),
)  # fmt: skip
"""What `make test` plays."""

FAULTS: tuple[Fault, ...] = (
    Fault("restarted", "Postgres restarted, immediate", restarted, may_repeat=True),
    Fault(
        "killed", "Postgres killed with SIGKILL, claims unflushed", killed_unflushed,
        through_proxy=True, may_repeat=True,
    ),
    Fault("backends", "backends killed at random", backends_killed),
    Fault("frozen", "Postgres stopped with SIGSTOP for 10 s", frozen, lasts=10),
    Fault("exhausted", "every connection of the server taken by somebody", exhausted),
    Fault("worker-killed", "worker killed, seen by the database", worker_killed, may_repeat=True, may_crash=True),
    Fault(
        "worker-unseen", f"worker killed, not seen (lease {UNSEEN_LEASE:g} s)", worker_killed_unseen,
        after=UNSEEN_LEASE + 8, lease=UNSEEN_LEASE, through_proxy=True, may_repeat=True, may_crash=True,
    ),
    Fault(
        "worker-stopped", f"worker stopped past its lease ({SHORT_LEASE:g} s), and woken", worker_stopped,
        lasts=SHORT_LEASE + 5, lease=SHORT_LEASE, may_repeat=True, may_crash=True,
    ),
    Fault("worker-stalled", "worker stopped for 50 s, lease 60 s, and woken", worker_stalled, lasts=50),
    Fault("listen", "LISTEN connections cut silently", listen_cut, lasts=20, through_proxy=True, goes_on=True),
    Fault("claims-cut", "replies of claims lost, connection cut", claims_cut, through_proxy=True),
    Fault(
        "claims-silent", "replies of claims lost, connection silent", claims_unanswered,
        lasts=3, after=25, through_proxy=True,
    ),
    Fault("commits-cut", "replies of commits lost, connection cut", commits_cut, through_proxy=True),
    Fault(
        "commits-silent", "replies of commits lost, connection silent", commits_unanswered,
        lasts=3, after=25, through_proxy=True,
    ),
    Fault("rows-held", "rows of runs locked by somebody's transaction", rows_held, goes_on=True),
    Fault("disk-full", "disk full: every write refused, then three in ten", disk_full),
    Fault("clocks", "workers' clocks off by an hour, ahead and back", clocks_off, lasts=10, goes_on=True),
    Fault("idle-tx", "a transaction idle for two minutes", idle_in_transaction, lasts=120, goes_on=True),
)  # fmt: skip
