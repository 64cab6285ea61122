"""A worker process is killed with SIGKILL before and after every commit, and after every claim; another one finishes.

Each moment has a run and a queue of its own, so that all of them share one database and two seconds of waiting until
the dead workers are seen to be gone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.client.handle import Handle
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.records import RunFilter, Status
from runnerq.runtime.worker import Worker
from tests.end_to_end.conftest import Processes
from tests.end_to_end.processes import Doomed, Ended
from tests.end_to_end.shop import ACTIVITIES, ANSWER, CUP, WORKFLOWS, checkout
from tests.runtime.stage import Stage, Tapped

SPARE = 40
"""Calls beyond those of an undisturbed run that are planned for: turns are merged differently each time, and are sent
again where a row was held. Those that are not come to cost nothing but a run that nobody takes up."""
KILLED = 9


@pytest.mark.timeout(480)
async def test_every_run_ends_right_and_no_recorded_step_runs_again(
    shop: Stage, database: str, log: Path, processes: Processes
) -> None:
    commits, claims = await _undisturbed(shop)
    moments = (("commit", "before", commits), ("commit", "after", commits), ("claim", "after", claims))
    plans = [
        await _planned(shop.base, database, verb, when, nth)
        for verb, when, calls in moments
        for nth in range(1, calls + SPARE + 1)
    ]
    ends = await _kill(processes, plans)
    plans = [plan for plan in plans if plan.queue in ends]
    killed = [plan for plan in plans if ends[plan.queue].signal == KILLED]
    finished = [plan for plan in plans if ends[plan.queue].code == 0]
    assert len(killed) + len(finished) == len(plans)
    # The last moments were not reached: so all there are were.
    for verb, when, _ in moments:
        assert any((plan.verb, plan.when) == (verb, when) for plan in finished), f"{verb} {when}: too few planned"
    assert len(killed) > commits

    recorded = {key for plan in plans for key in await _recorded(shop.base, plan.run_id)}
    ran_before = Counter(_ran(log))
    assert recorded <= ran_before.keys()

    async with Client(PostgresStorage(database)) as client:
        survivor = Worker(
            client,
            workflows=WORKFLOWS,
            activities=ACTIVITIES,
            queues=[plan.queue for plan in plans],
            max_workers=50,
            beat=0.2,
            reaper_interval=0.2,
            build="tests",
        )
        async with survivor:
            answers = [await client.handle(plan.run_id).result(timeout=120) for plan in plans]
            for plan in plans:
                await _all_ended(client, plan.run_id)

    assert answers == [ANSWER] * len(plans)
    again = Counter(_ran(log)) - ran_before
    assert not recorded & again.keys(), "a recorded step ran again"
    for plan in plans:
        await _whole(shop, plan.run_id)


async def _undisturbed(shop: Stage) -> tuple[int, int]:
    """How many commits and claims with runs a run of its own takes."""
    tapped = Tapped(shop.storage)
    stage = shop.on(tapped)
    async with stage.worker(*WORKFLOWS, *ACTIVITIES, cache=100, beat=0.2):
        run = await stage.client.start(checkout, CUP)
        assert await run.result(timeout=60) == ANSWER
    return tapped.commits, sum(bool(claim.runs) for claim in tapped.claims)


async def _planned(client: Client, dsn: str, verb: Any, when: Any, nth: int) -> Doomed:
    queue = f"{verb}-{when}-{nth}"
    run = await client.options(queue=queue).start(checkout, CUP)
    return Doomed(dsn, queue, run.id, verb, when, nth)


async def _kill(processes: Processes, plans: Sequence[Doomed]) -> dict[str, Ended]:
    """Run all of them to their ends."""
    process = processes.start("tests.end_to_end.processes")
    lines = "".join(msgspec.json.encode(plan).decode() + "\n" for plan in plans)
    told, _ = await asyncio.to_thread(process.communicate, lines)
    ends = [msgspec.json.decode(line, type=Ended) for line in told.splitlines()]
    return {ended.queue: ended for ended in ends}


def _ran(log: Path) -> list[str]:
    """The idempotency keys of steps and activities that had their side effect, once for each time."""
    return [line.partition(" ")[0] for line in log.read_text().splitlines()]


async def _recorded(client: Client, run_id: str) -> set[str]:
    """The idempotency keys of the steps that are answered in the journals of this run and its children."""
    keys = set()
    for each in [run_id, *[child async for child in _below(client, run_id)]]:
        for entry in await client.history(each):
            if entry.kind == "step" and entry.state in ("answered", "failed"):
                keys.add(f"{each}:1:{entry.position}:step:{entry.name}")
        info = await client.info(each)
        if info.workflow == "wrap" and info.status is Status.COMPLETED:
            keys.add(f"{each}:1::activity:wrap")
    return keys


async def _below(client: Client, run_id: str) -> Any:
    page = await client.list(RunFilter(root=run_id), limit=100)
    for info in page.items:
        if info.id != run_id:
            yield info.id


async def _all_ended(client: Client, run_id: str) -> None:
    """The children as well: the loser of the race by its cancel."""
    async for child in _below(client, run_id):
        await client.handle(child).reached(Status.COMPLETED, Status.CANCELLED, timeout=60)


async def _whole(shop: Stage, run_id: str) -> None:
    """Journals without gaps, each child started once, each signal consumed once."""
    children: Counter[str] = Counter()
    names: dict[str, Status] = {}
    for each in [run_id, *[child async for child in _below(shop.base, run_id)]]:
        await shop.no_gaps(each)
        info = await shop.base.info(each)
        children[info.workflow] += 1
        names[info.workflow] = info.status
    assert children == {"checkout": 1, "messenger": 1, "ship": 1, "wrap": 1, "never_ends": 1}
    assert names.pop("never_ends") is Status.CANCELLED
    assert set(names.values()) == {Status.COMPLETED}
    handle: Handle[Any] = shop.base.handle(run_id)
    signals = [entry for entry in await handle.history() if entry.kind == "signal"]
    assert [entry.value for entry in signals if entry.state == "answered"] == ["approved"]
