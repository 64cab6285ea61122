"""The last runs of schedules as small drawings: what is drawn, what it says, and that few reads lead to it."""

from __future__ import annotations

from uuid import UUID

import pytest

import runnerq as rq
from runnerq.client.client import Client
from runnerq.console.models import schedules as models
from runnerq.console.models.context import Context
from runnerq.console.models.schedules import ScheduledRun, schedules
from runnerq.console.pages.sparks import FOOT, HIGH, LOW, WIDTH, spark
from runnerq.console.web.words import span
from runnerq.persistence.records import KEPT_RUNS, Status
from tests.console.browsing import Browser
from tests.console.pages.reading import payout, transfer


def run(status: Status | None, took: float | None = None) -> ScheduledRun:
    return ScheduledRun(id=str(UUID(int=0)), status=status, took=took)


def test_a_bar_is_as_high_as_its_run_took_and_the_newest_stands_at_the_right() -> None:
    newest_first = [
        run(Status.RUNNING),
        run(Status.FAILED, 5.0),
        run(Status.CANCELLED, 0.0),
        run(None),
        run(Status.COMPLETED, 10.0),
    ]
    drawn = spark(newest_first, span)
    assert drawn is not None
    assert [(bar.tone, bar.height) for bar in drawn.bars] == [
        ("ok", HIGH),
        ("gone", LOW),
        ("bad", HIGH / 2),
        ("open", HIGH),
    ]
    assert all(bar.y + bar.height == FOOT for bar in drawn.bars)
    assert [bar.x for bar in drawn.bars] == [WIDTH - 20, WIDTH - 15, WIDTH - 10, WIDTH - 5]
    assert [bar.title for bar in drawn.bars] == [
        "completed after 10 s",
        "cancelled after 0 ms",
        "failed after 5.00 s",
        "running",
    ]
    assert drawn.words == "Last runs: 1 running, 1 completed, 1 failed, 1 cancelled; the longest took 10 s"


def test_as_many_as_are_kept_fit_and_what_is_gone_is_no_drawing() -> None:
    drawn = spark([run(Status.COMPLETED, 1.0)] * KEPT_RUNS, span)
    assert drawn is not None
    assert drawn.bars[0].x == 0
    waiting = spark([run(Status.WAITING)], span)
    assert waiting is not None
    assert waiting.words == "Last runs: 1 waiting"
    assert spark([run(None)], span) is None
    assert spark([], span) is None


async def test_a_schedule_is_listed_and_shown_with_how_its_last_runs_went(browser: Browser, client: Client) -> None:
    await client.schedules.put(rq.Schedule("payouts", "payout", ("7",), every=3600))
    async with rq.Worker(client, workflows=[payout], activities=[transfer]):
        for _ in range(2):
            with pytest.raises(rq.RunFailed):
                await (await client.schedules.trigger("payouts")).result(timeout=10)
    await client.schedules.trigger("payouts")
    await client.schedules.put(rq.Schedule("never", "payout", ("7",), every=3600))
    for path, more in (("/schedules", ""), ("/schedules/payouts", " big")):
        page = (await browser.get(path)).text
        assert page.count(f'<svg class="spark{more}"') == 1
        assert 'aria-label="Last runs: 1 pending, 2 dead letter; the longest took ' in page
        assert page.count('<g class="bad">') == 2
        assert page.count('<g class="open">') == 1


async def test_the_more_schedules_there_are_the_fewer_runs_of_each_are_looked_up(
    client: Client, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        await client.schedules.put(rq.Schedule(name, "f", every=3600))
        for _ in range(4):
            await client.cancel((await client.schedules.trigger(name)).id)
    assert [len(one.last_runs) for one in await schedules(context)] == [4, 4]
    for limit, value, left in (("MOST_RUNS", 6, 3), ("MOST_RUNS", 1, 1), ("MOST_READ", -1, 0)):
        context.cache.forget()
        with monkeypatch.context() as patch:
            patch.setattr(models, limit, value)
            # The newest is always there, and looked up by itself where nothing else leads to it.
            assert [len(one.last_runs) for one in await schedules(context)] == [left or 1] * 2
