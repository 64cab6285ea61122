"""Worker processes that are told to stop, paused, or blocked while they have work in hand."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from runnerq.persistence.records import Status
from tests.end_to_end.conftest import Processes
from tests.end_to_end.long_steps import CUT_OFF, WORKFLOWS, patiently, rudely
from tests.end_to_end.serving import Serving
from tests.end_to_end.watching import PATIENCE, a_lease_goes_by, attempts, ended, keys, line_of, ran, until
from tests.postgres import fetch_value
from tests.runtime.stage import Stage, Tapped


@pytest.fixture
def settings(database: str, shop: Stage) -> Serving:
    return Serving(database, shop.queue, module="tests.end_to_end.long_steps")


async def test_sigterm_keeps_what_ends_in_time_gives_the_rest_back_and_burns_no_attempt(
    shop: Stage, log: Path, processes: Processes, tmp_path: Path, settings: Serving
) -> None:
    gates = {name: tmp_path / name for name in ("one", "two", "three", "four")}
    # Two steps have begun, one run is held and waits for a place to run its step, and one was never claimed.
    held = msgspec.structs.replace(settings, max_workers=3, max_steps=2, shutdown_grace=4.0)
    runs = {name: await shop.client.start(patiently, str(gate)) for name, gate in gates.items()}
    worker = await processes.serving(held)
    await until(log, 2)
    for name in ("one", "two", "three"):
        await runs[name].reached(Status.RUNNING, timeout=PATIENCE)
    begun_under = keys(log)[0]
    [begun] = [name for name, run in runs.items() if begun_under.startswith(run.id)]
    worker.send_signal(signal.SIGTERM)
    await line_of(worker, "stopping")
    gates[begun].touch()
    assert await ended(worker) == 0

    # Its answer came within the grace: it is on record, however full of other things the worker was.
    assert await runs[begun].result(timeout=PATIENCE) == "done"
    for name in runs.keys() - {begun}:
        assert await runs[name].status() is Status.PENDING
        journal = await shop.storage.journal(runs[name].id)
        assert journal is not None
        assert journal.attempts == ()
    for gate in gates.values():
        gate.touch()
    tapped = Tapped(shop.storage)
    async with shop.on(tapped).worker(*WORKFLOWS):
        assert [await run.result(timeout=PATIENCE) for run in runs.values()] == ["done"] * 4
    assert [claimed.crashes for claim in tapped.claims for claimed in claim.runs] == [0, 0, 0]
    # Those that were cut off or had to wait began again as a first attempt; what was on record did not.
    assert attempts(log) == {1}
    assert keys(log).count(begun_under) == 1
    # What waited for a place was given back unbegun, though a place became free in time.
    assert sorted(Counter(keys(log)).values()) == [1, 1, 1, 2]


async def test_a_worker_paused_past_its_lease_cuts_its_steps_off_when_it_wakes_and_works_on_under_a_new_name(
    shop: Stage, database: str, log: Path, processes: Processes, tmp_path: Path, settings: Serving
) -> None:
    gate, other_gate = tmp_path / "gate", tmp_path / "other"
    run = await shop.client.start(patiently, str(gate))
    paused = await processes.serving(settings)
    await until(log, 1)
    paused.send_signal(signal.SIGSTOP)
    await asyncio.to_thread(os.waitpid, paused.pid, os.WUNTRACED)
    await a_lease_goes_by(database)
    tapped = Tapped(shop.storage)
    async with shop.on(tapped).worker(*WORKFLOWS, reaper_interval=0.1):
        await until(log, 2)
        before = await run.history()
        paused.send_signal(signal.SIGCONT)
        said = log.with_name(f"{log.name}.{paused.pid}")
        async with asyncio.timeout(PATIENCE):
            while not said.exists() or said.read_text() != CUT_OFF:
                await asyncio.sleep(0.01)
        # The run is another's now, and nothing of it has changed.
        assert await run.history() == before
        assert await run.status() is Status.RUNNING
        gate.touch()
        assert await run.result(timeout=PATIENCE) == "done"
    # One crash, no attempt, and each owner ran the step once, under one key.
    assert [claimed.crashes for claim in tapped.claims for claimed in claim.runs] == [1]
    assert attempts(log) == {1}
    assert len(keys(log)) == 2
    assert len(set(keys(log))) == 1
    # It was fenced, not broken: nobody else is left to run this.
    other_gate.touch()
    again = await shop.client.start(patiently, str(other_gate))
    assert await again.result(timeout=PATIENCE) == "done"
    paused.send_signal(signal.SIGTERM)
    assert await ended(paused) == 0


async def test_a_step_that_blocks_the_event_loop_for_longer_than_the_lease_keeps_its_run(
    shop: Stage, database: str, log: Path, processes: Processes, tmp_path: Path, settings: Serving
) -> None:
    gate = tmp_path / "gate"
    run = await shop.client.start(rudely, str(gate))
    await processes.serving(settings)
    await until(log, 1)
    blocked = f"id = (select worker_id from runnerq.live where run_id = '{run.id}')"
    half_a_lease = f"update runnerq.worker set beat_at = beat_at - interval '30 s' where {blocked} returning beat_at"
    tapped = Tapped(shop.storage)
    # It reaps whoever is late, ten times a second, and would be glad of the run.
    async with shop.on(tapped).worker(*WORKFLOWS, reaper_interval=0.1):
        for _ in range(4):
            before = await fetch_value(database, half_a_lease)
            async with asyncio.timeout(PATIENCE):
                while await fetch_value(database, f"select beat_at from runnerq.worker where {blocked}") == before:
                    await asyncio.sleep(0.01)
        gate.touch()
        assert await run.result(timeout=PATIENCE) == "done"
    assert [claimed.id for claim in tapped.claims for claimed in claim.runs] == []
    assert ran(log) == ["rude"]
