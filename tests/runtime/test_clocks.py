"""The worker's clock and the database's differ: the database's decides."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runnerq.errors import RetryableError, RunCancelled, SignalTimeout
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import Status
from runnerq.runtime.current import current
from runnerq.runtime.reading import LAST, DatabaseTime, later
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Stage

START = datetime(2025, 6, 1, 12, tzinfo=UTC)


class Away:
    """A clock that goes as fast as ours, and shows another time."""

    def __init__(self, offset: timedelta) -> None:
        self._offset = offset

    def now(self) -> datetime:
        return datetime.now(UTC) + self._offset


@pytest.fixture(params=[timedelta(days=-400), timedelta(hours=-1), timedelta(hours=1), timedelta(days=400)], ids=str)
async def elsewhere(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """A storage whose clock differs from the worker's by so much."""
    stage = Stage(MemoryStorage(Away(request.param)), cache=0)
    async with stage.base:
        yield stage


async def test_sleeps_waits_retries_and_deadlines_are_those_of_the_database(elsewhere: Stage) -> None:
    @activity
    async def flaky() -> str:
        deadline = current().deadline
        assert deadline is not None
        assert abs(deadline - await elsewhere.storage.now() - timedelta(seconds=300)) < timedelta(seconds=30)
        if current().attempt == 1:
            raise RetryableError("again", after=0.02)
        return "tried twice"

    @workflow
    def order(ctx: Context) -> Flow[list[Any]]:
        before = ctx.now()
        yield ctx.sleep(0.02)
        yield ctx.sleep_until(before + timedelta(seconds=0.06))
        tried = yield ctx.step(flaky)
        try:
            yield ctx.signal("never", timeout=0.02)
        except SignalTimeout:
            return [tried, (ctx.now() - before).total_seconds() < SOON, ctx.now().isoformat()]
        return []

    async with elsewhere.serving(order) as client:
        run = await client.start(order)
        tried, quick, now = await run.result(timeout=SOON)
    assert (tried, quick) == ("tried twice", True)
    assert abs(datetime.fromisoformat(now) - await elsewhere.storage.now()) < timedelta(seconds=30)


async def test_delays_and_timeouts_of_runs_are_those_of_the_database(elsewhere: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.signal("never"))

    async with elsewhere.serving(order) as client:
        delayed = await client.options(delay=3600).start(order)
        late = await client.options(timeout=0.05).start(order)
        with pytest.raises(RunCancelled, match="timeout"):
            await late.result(timeout=SOON)
        assert await delayed.status() is Status.SCHEDULED


def test_database_time_goes_on_from_the_last_reply_by_the_monotonic_clock() -> None:
    seconds = 100.0
    time = DatabaseTime(lambda: seconds)
    with pytest.raises(AssertionError):
        time.now()
    time.sync(START)
    seconds = 102.5
    assert time.now() == START + timedelta(seconds=2.5)
    assert time.until(START + timedelta(seconds=4)) == 1.5
    assert time.until(START) == 0.0
    time.sync(START + timedelta(seconds=10))
    assert time.now() == START + timedelta(seconds=10)


def test_a_time_beyond_the_calendar_is_its_last_one() -> None:
    assert later(START, 1.5) == START + timedelta(seconds=1.5)
    assert later(START, 1e12) == LAST
    assert later(START, 1e300) == LAST
