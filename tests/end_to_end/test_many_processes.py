"""``runnerq worker --processes N``: real worker processes that share a queue, are killed, and stop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path

from runnerq.client.handle import Handle
from tests.end_to_end.conftest import Processes
from tests.end_to_end.crowd import block, meet, noted
from tests.end_to_end.watching import PATIENCE, ended, line_of
from tests.runtime.stage import Stage


def supervised(processes: Processes, database: str, queue: str, count: int) -> subprocess.Popen[str]:
    return processes.start(
        "runnerq", "worker", "tests.end_to_end.crowd", "-q", queue, "-c", "2", "--processes", str(count),
        RUNNERQ_DSN=database,
    )  # fmt: skip


async def all_ended(processes: subprocess.Popen[str]) -> None:
    """Return once the supervisor and its workers are gone: they share the stdout that this reads to its end."""
    assert processes.stdout is not None
    await asyncio.wait_for(asyncio.to_thread(processes.stdout.read), PATIENCE)


async def met(runs: list[Handle[int]]) -> list[int]:
    return [await run.result(timeout=PATIENCE) for run in runs]


async def test_three_processes_share_a_queue_survive_a_kill_and_drain(
    shop: Stage, database: str, log: Path, processes: Processes
) -> None:
    supervisor = supervised(processes, database, shop.queue, 3)
    runs = await shop.client.start_many(meet, [(3,)] * 60)
    pids = await met(runs)
    assert len(set(pids)) == 3
    assert [run_id for run_id, count in Counter(run_id for run_id, _ in noted()).items() if count > 1] == []
    assert {run_id for run_id, _ in noted()} == {run.id for run in runs}

    # One is killed while it holds runs that wait for a fourth process: the one that is started in its place.
    runs = await shop.client.start_many(meet, [(4,)] * 6)
    async with asyncio.timeout(PATIENCE):
        while len(noted()) < 66:
            await asyncio.sleep(0.01)
    killed = noted()[-1][1]
    os.kill(killed, signal.SIGKILL)
    # Both of its places were held, and so are all others: its successor takes what comes now.
    runs += await shop.client.start_many(meet, [(4,)] * 2)
    pids = await met(runs)
    assert killed not in pids
    assert len({pid for _, pid in noted()}) == 4

    # Runs wait for a fifth process, which this test plays, when all are told to stop: each one, as systemd does it.
    runs = await shop.client.start_many(meet, [(5,)] * 3)
    async with asyncio.timeout(PATIENCE):
        while not {run.id for run in runs} <= {run_id for run_id, _ in noted()}:
            await asyncio.sleep(0.01)
    supervisor.send_signal(signal.SIGTERM)
    for pid in {pid for _, pid in noted()} - {killed}:
        # One that holds no run may have ended by now.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    with log.open("a") as lines:
        lines.write("test 0\n")
    assert await ended(supervisor) == 0
    await all_ended(supervisor)
    assert not {killed} & set(await met(runs))
    assert (await shop.base.stats()).workers == ()


async def test_workers_stop_in_order_when_their_supervisor_is_killed(
    shop: Stage, database: str, log: Path, processes: Processes
) -> None:
    supervisor = supervised(processes, database, shop.queue, 2)
    await met(await shop.client.start_many(meet, [(2,)] * 4))
    supervisor.kill()
    await all_ended(supervisor)
    # They signed off: nothing has to be missed or reaped.
    assert (await shop.base.stats()).workers == ()


async def test_a_worker_whose_event_loop_is_blocked_does_not_outlive_its_supervisor_for_long(
    shop: Stage, database: str, log: Path, processes: Processes
) -> None:
    """The test is its supervisor, and goes."""
    worker = processes.start(
        "tests.end_to_end.impatient", "worker", "tests.end_to_end.crowd", "-q", shop.queue, "--kept-by", "processes",
        "--drain-timeout", "0s",
        RUNNERQ_DSN=database,
    )  # fmt: skip
    run = await shop.client.start(block)
    await line_of(worker, "blocked")
    assert worker.stdin is not None
    worker.stdin.close()
    worker.stdin = None
    assert await ended(worker) == 1
    await shop.base.terminate(run.id)
