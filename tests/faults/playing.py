"""Plays one fault under load, and says what came of it."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import msgspec

from tests.faults.checks import Found, judge
from tests.faults.faults import Fault
from tests.faults.ledger import Ledger, real_time
from tests.faults.record import Record, read
from tests.faults.recovery import Recovery, Times, recovery
from tests.faults.scene import Missed, Scene, a_scene
from tests.faults.server import Server
from tests.postgres import fresh_database

SETTLING = 60.0
"""Seconds after the load's end in which everything must have ended."""
LEAST_THROUGH = 0.5
"""The share of the throughput that a fault must leave which concerns single runs or none."""


class Pace(msgspec.Struct, frozen=True):
    """``rate`` runs a second, ``before`` seconds of them before the fault.

    ``lasts`` and ``after`` replace those of a fault.
    """

    rate: float = 200.0
    warm_up: float = 2.0
    before: float = 5.0
    lasts: float | None = None
    after: float | None = None


class Played(msgspec.Struct, frozen=True):
    """One line of the table. ``taken_up`` is when the last run of a worker that was gone was taken up.

    ``faults`` is what was lost or done wrongly, ``slow`` what only took too long: that may be the machine's fault.
    """

    fault: Fault
    found: Found
    recovery: Recovery
    taken_up: float | None
    said: list[str]
    faults: list[str]
    slow: list[str]

    @property
    def passed(self) -> bool:
        return not self.faults and not self.slow


async def play(server: Server, fault: Fault, pace: Pace, folder: Path) -> Played:
    with fresh_database(server.dsn) as dsn:
        async with a_scene(server, dsn, folder) as scene:
            await scene.start(rate=pace.rate, lease=fault.lease, through_proxy=fault.through_proxy)
            times, late = await _under_load(scene, fault, pace)
            faults = [*scene.doubts, *late, *_unexpected_ends(scene)]
        record = await read(dsn)
    return _judged(scene, fault, times, record, faults)


async def _under_load(scene: Scene, fault: Fault, pace: Pace) -> tuple[Times, list[str]]:
    await asyncio.sleep(pace.warm_up)
    steady = real_time()
    await asyncio.sleep(pace.before)
    began = real_time()
    await fault.cause(scene, fault.lasts if pace.lasts is None else pace.lasts)
    ended = real_time()
    await asyncio.sleep(fault.after if pace.after is None else pace.after)
    stopped = real_time()
    late = []
    scene.load.signal(signal.SIGTERM)
    code = await scene.load.code(SETTLING)
    if code is None:
        late.append(f"not everything has ended {SETTLING:g} s after the load")
    elif code:
        late.append("the load's process failed; see load.log")
    return Times(steady, began, ended, stopped, scene.origin or ended), late


def _unexpected_ends(scene: Scene) -> list[str]:
    return [f"worker {worker.worker_id} has ended by itself" for worker in scene.workers if worker.ended]


def _judged(scene: Scene, fault: Fault, times: Times, record: Record, faults: list[str]) -> Played:
    ledger = scene.ledger
    found = judge(ledger, record, may_repeat=fault.may_repeat)
    faults = faults + found.faults
    if found.crashes and not fault.may_crash:
        faults.append(f"a run counts {found.crashes} crashes, though no worker was gone")
    accepted = {line.words[1]: line.at for line in ledger.read("accepted")}
    ends = {run.id: run.ended for run in record.roots if run.ended is not None}
    recovered = recovery(times, accepted, ends)
    slow = []
    if recovered.back is None:
        slow.append("throughput did not come back while the load went on")
    if fault.goes_on and recovered.during < LEAST_THROUGH * recovered.rate:
        slow.append(f"throughput broke down to {recovered.during:.0f} runs/s, though the fault concerns few runs")
    taken_up: float | None = None
    for missed in scene.missed:
        took = _taken_up(ledger, missed)
        taken_up = max(taken_up or 0.0, took)
        if took > missed.within:
            slow.append(f"runs of a worker that was gone were taken up after {took:.1f} s, not {missed.within:g} s")
    return Played(fault, found, recovered, taken_up, scene.said, faults, slow)


def _taken_up(ledger: Ledger, missed: Missed) -> float:
    """Seconds until the last of these runs was claimed again; those that had ended by then do not count."""
    first: dict[str, float] = {}
    for line in ledger.read("claimed"):
        run = line.words[1]
        if line.at > missed.since and run in missed.runs:
            first.setdefault(run, line.at)
    return max(first.values(), default=missed.since) - missed.since
