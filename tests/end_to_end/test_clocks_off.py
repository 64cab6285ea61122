"""Processes whose clock is an hour ahead of the database's, or an hour behind: the database's decides."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from runnerq import ids
from runnerq.client.client import Client
from runnerq.persistence.records import RunFilter, Status
from tests.end_to_end.conftest import Processes
from tests.end_to_end.serving import Serving
from tests.end_to_end.shop import ACTIVITIES, ANSWER, CUP, WORKFLOWS, checkout
from tests.end_to_end.watching import PATIENCE
from tests.runtime.stage import Stage, Tapped

HOUR = 3600
SLACK = timedelta(seconds=1)
"""A statement's time is when it began, which may be before that of one whose effect it has seen."""


@pytest.mark.parametrize("off", [HOUR, -HOUR], ids=["ahead", "behind"])
async def test_a_worker_whose_clock_is_an_hour_off_changes_no_outcome_and_no_time(
    shop: Stage, database: str, log: Path, processes: Processes, off: int
) -> None:
    before = await shop.storage.now()
    later = await shop.client.options(delay=HOUR / 2).start(checkout, CUP)
    runs = await shop.client.start_many(checkout, [(CUP,)] * 3)
    await processes.serving(Serving(database, shop.queue, lease=30.0, clock_off=off))
    tapped = Tapped(shop.storage)
    # One whose clock is right judges it, and shares its work.
    async with shop.on(tapped).worker(*WORKFLOWS, *ACTIVITIES, max_workers=2, lease=30.0, reaper_interval=0.1):
        assert [await run.result(timeout=PATIENCE) for run in runs] == [ANSWER] * 3
    assert await later.status() is Status.SCHEDULED
    assert {claimed.crashes for claim in tapped.claims for claimed in claim.runs} <= {0}
    for run in runs:
        await shop.no_gaps(run.id)
        for each in [run.id, *await below(shop.base, run.id)]:
            times = await times_of(shop.base, each)
            # A loser of the race may end behind the run that has cancelled it, so now is asked for last.
            now = await shop.storage.now()
            assert all(before - SLACK <= at <= now + SLACK for at in times)


async def test_a_client_whose_clock_is_off_makes_runs_as_any_other(
    shop: Stage, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await shop.storage.now()
    runs = []
    for off in (HOUR, -HOUR):
        with monkeypatch.context() as patched:
            real = ids.time_ns
            # Ids go on from the last one of their process: this is another process's.
            patched.setattr(ids, "_source", ids._Source())
            patched.setattr(ids, "time_ns", lambda off=off, real=real: real() + off * 10**9)
            runs.append(await shop.client.options(key=f"off by {off}").start(checkout, CUP))
    async with shop.worker(*WORKFLOWS, *ACTIVITIES):
        assert [await run.result(timeout=PATIENCE) for run in runs] == [ANSWER] * 2
    for run in runs:
        info = await run.info()
        assert before <= info.created_at <= await shop.storage.now()


async def below(client: Client, run_id: str) -> list[str]:
    page = await client.list(RunFilter(parent=run_id), limit=100)
    return [info.id for info in page.items]


async def times_of(client: Client, run_id: str) -> list[datetime]:
    """When a run was made, began and ended, as far as it did."""
    info = await client.info(run_id)
    return [at for at in (info.created_at, info.started_at, info.ended_at) if at is not None]
