"""Worker processes that are killed, stopped, paused and replaced while runs are open."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import msgspec

from runnerq.persistence.records import Status
from tests.end_to_end.conftest import Processes
from tests.end_to_end.processes import Doomed
from tests.end_to_end.shop import ACTIVITIES, WORKFLOWS, slowly, wait_for_approval
from tests.end_to_end.watching import PATIENCE, a_lease_goes_by, ended, keys, line_of, ran, until
from tests.postgres import fetch_value
from tests.runtime.stage import Stage, Tapped


def command_line_worker(processes: Processes, database: str, queue: str) -> subprocess.Popen[str]:
    return processes.start("runnerq", "worker", "tests.end_to_end.shop", "--queue", queue, RUNNERQ_DSN=database)


async def test_a_run_parked_by_one_process_is_signalled_from_a_second_and_resumed_by_a_third(
    shop: Stage, database: str, log: Path, processes: Processes
) -> None:
    run = await shop.client.start(wait_for_approval)
    first = command_line_worker(processes, database, shop.queue)
    await run.reached(Status.WAITING, timeout=PATIENCE)
    first.kill()
    await ended(first)
    second = processes.start("runnerq", "send", run.id, "approval", '"from outside"', RUNNERQ_DSN=database)
    assert await ended(second) == 0
    command_line_worker(processes, database, shop.queue)
    assert await run.result(timeout=PATIENCE) == ["to before", "from outside", "to after"]
    assert ran(log) == ["label", "label"]


async def test_sigterm_lets_the_running_step_end_and_keeps_its_answer(
    shop: Stage, database: str, log: Path, processes: Processes, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run = await shop.client.start(slowly, str(gate))
    worker = command_line_worker(processes, database, shop.queue)
    await until(log, 1)
    worker.send_signal(signal.SIGTERM)
    gate.touch()
    assert await ended(worker) == 0
    assert await run.status() in (Status.PENDING, Status.COMPLETED)
    async with shop.worker(*WORKFLOWS, *ACTIVITIES):
        assert await run.result(timeout=PATIENCE) == ["done", "to after"]
    assert ran(log) == ["slow", "label"]
    await shop.no_gaps(run.id)


async def test_a_worker_paused_past_its_lease_and_woken_writes_nothing_that_counts(
    shop: Stage, database: str, log: Path, processes: Processes
) -> None:
    run = await shop.client.start(wait_for_approval)
    # It stops at the commit of its first answer, with the step done and nothing of that on record.
    plan = Doomed(database, shop.queue, run.id, "commit", "before", 2, signal=signal.SIGSTOP)
    paused = processes.start("tests.end_to_end.processes", msgspec.json.encode(plan).decode())
    await line_of(paused, "ready")
    await asyncio.to_thread(os.waitpid, paused.pid, os.WUNTRACED)
    await a_lease_goes_by(database)
    tapped = Tapped(shop.storage)
    async with shop.on(tapped).worker(*WORKFLOWS, *ACTIVITIES, reaper_interval=0.1):
        await run.reached(Status.WAITING, timeout=PATIENCE)
        before = await run.history()
        paused.send_signal(signal.SIGCONT)
        assert await line_of(paused, "verdicts") == "verdicts lost"
        assert await run.history() == before
        await run.send("approval", "once")
        assert await run.result(timeout=PATIENCE) == ["to before", "once", "to after"]
        assert await ended(paused) == 0
    # Nothing of the first time was on record, so the step ran again: once, and under the same key.
    assert ran(log)[:2] == ["label", "label"]
    ran_under = keys(log)
    assert ran_under[0] == ran_under[1]
    assert len(ran_under) == 3
    assert {claimed.crashes for claim in tapped.claims for claimed in claim.runs} <= {0, 1}
    await shop.no_gaps(run.id)


async def test_a_worker_killed_right_after_its_claim_is_missed_within_seconds(
    shop: Stage, database: str, log: Path, processes: Processes
) -> None:
    """By its beat's connection, which is visibly gone; its lease would last a minute."""
    run = await shop.client.start(wait_for_approval)
    plan = Doomed(database, shop.queue, run.id, "claim", "after", 1)
    killed = processes.start("tests.end_to_end.processes", msgspec.json.encode(plan).decode())
    assert await ended(killed) == -signal.SIGKILL
    tapped = Tapped(shop.storage)
    async with shop.on(tapped).worker(*WORKFLOWS, *ACTIVITIES, reaper_interval=0.1):
        await run.reached(Status.WAITING, timeout=PATIENCE)
    assert [claimed.crashes for claim in tapped.claims for claimed in claim.runs] == [1]
    assert ran(log) == ["label"]


async def test_a_stopped_worker_leaves_no_connection_behind(
    shop: Stage, database: str, log: Path, processes: Processes
) -> None:
    count = "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'stopped'"
    run = await shop.client.start(wait_for_approval)
    worker = command_line_worker(processes, f"{database}&application_name=stopped", shop.queue)
    await run.reached(Status.WAITING, timeout=PATIENCE)
    assert await fetch_value(database, count) > 0
    worker.send_signal(signal.SIGTERM)
    assert await ended(worker) == 0
    async with asyncio.timeout(PATIENCE):
        while await fetch_value(database, count) > 0:
            await asyncio.sleep(0.05)
