"""Schedules in an environment: they tick by the test's clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from runnerq.client.schedule import Schedule
from runnerq.errors import ResultTimeout
from runnerq.persistence.records import RunFilter, Status
from runnerq.runtime.current import current
from runnerq.testing.environment import Environment
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow

told: list[str] = []


@activity
async def tell(what: str) -> None:
    told.append(f"{what} {(current().metadata or {})['scheduled_for']}")


@workflow
def report(ctx: Context, hours: int) -> Flow[str]:
    yield from ctx.sleep(timedelta(hours=hours))
    return str(ctx.info.metadata["scheduled_for"])


@workflow
def waits(ctx: Context) -> Flow[None]:
    yield from ctx.signal("never")


@pytest.fixture(autouse=True)
def _nothing_told() -> None:
    told.clear()


async def test_every_tick_on_the_way_is_run_at_its_time_also_where_the_clock_changes() -> None:
    async with Environment(activities=[tell], start=datetime(2025, 3, 29, 12, tzinfo=UTC)) as env:
        await env.schedules.put(Schedule("nightly", tell, ("hello",), cron="30 2 * * *", zone="Europe/Berlin"))
        await env.advance(timedelta(days=3))
        ticks = ["2025-03-30T01:00:00Z", "2025-03-31T00:30:00Z", "2025-04-01T00:30:00Z"]
        assert told == [f"hello {tick}" for tick in ticks]
        runs = (await env.list()).items
        assert runs[-1].created_at.isoformat() == "2025-03-30T01:00:00+00:00"
        assert {run.status for run in runs} == {Status.COMPLETED}


async def test_jitter_delays_the_run_and_not_the_tick() -> None:
    async with Environment(activities=[tell]) as env:
        await env.schedules.put(Schedule("daily", tell, ("hello",), cron="0 0 * * *", jitter=3600))
        await env.advance(timedelta(days=1))
        assert told == []
        await env.advance(timedelta(hours=1))
        assert told == ["hello 2025-01-02T00:00:00Z"]


@pytest.mark.parametrize(
    ("overlap", "ended", "skipped"),
    [
        ("allow", {"completed": 2, "waiting": 3}, 0),
        ("skip", {"completed": 1, "waiting": 1}, 3),
        ("cancel", {"cancelled": 4, "waiting": 1}, 0),
    ],
)
async def test_a_tick_while_a_run_is_open_does_what_the_schedule_says(
    overlap: str, ended: dict[str, int], skipped: int
) -> None:
    async with Environment(workflows=[report]) as env:
        await env.schedules.put(Schedule("hourly", report, (3,), every=timedelta(hours=1), overlap=overlap))  # type: ignore[arg-type]
        await env.advance(timedelta(hours=5, minutes=30))
        counted = {group.value: group.count for group in (await env.aggregate("status")).groups}
        assert counted == ended
        info = await env.schedules.get("hourly")
        assert info is not None
        assert (info.skipped, info.started) == (skipped, sum(ended.values()))


async def test_a_pause_and_a_trigger_go_by_the_tests_clock() -> None:
    async with Environment(activities=[tell]) as env:
        await env.schedules.put(Schedule("hourly", tell, ("hello",), every=timedelta(hours=1)))
        await env.schedules.pause("hourly")
        await env.advance(timedelta(hours=5, minutes=1))
        assert await (await env.schedules.trigger("hourly")).result() is None
        await env.schedules.resume("hourly")
        await env.advance(timedelta(hours=1))
        assert told == ["hello 2025-01-01T05:01:00Z", "hello 2025-01-01T06:00:00Z"]
        assert await env.schedules.backfill("hourly", datetime(2025, 1, 1, tzinfo=UTC), env.now()) == 6
        await env.advance(0)
        assert len(told) == 8


async def test_time_jumps_from_tick_to_tick_while_a_result_is_awaited() -> None:
    async with Environment(workflows=[report], activities=[tell]) as env:
        await env.schedules.put(Schedule("daily", tell, ("hello",), cron="0 0 * * *"))
        run = await env.options(metadata={"scheduled_for": "never"}).start(report, 24 * 30)
        assert await run.result() == "never"
        assert len(told) == 30


async def test_what_only_schedules_could_bring_about_is_not_waited_for_for_ever() -> None:
    async with Environment(workflows=[waits], activities=[tell]) as env:
        await env.schedules.put(Schedule("daily", tell, ("hello",), cron="0 0 * * *"))
        run = await env.start(waits)
        with pytest.raises(ResultTimeout, match="nothing is left that could happen"):
            await run.result()
        await run.cancel()


async def test_without_a_worker_time_passes_and_nothing_is_fired() -> None:
    async with Environment() as env:
        await env.schedules.put(Schedule("hourly", "nobody", (), every=3600))
        await env.advance(timedelta(days=1))
        assert await env.count(RunFilter()) == 0
