"""``explore_crashes``: a crash at every commit, and what it finds."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from runnerq.errors import NondeterminismError, ResultTimeout, RunBlocked, RunCancelled, RunFailed
from runnerq.runtime.current import current
from runnerq.testing import CrashReport, explore_crashes
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.testing.flows import APPROVAL, checkout, mail, ship, stamp


async def test_a_run_of_everything_ends_the_same_whichever_commit_its_worker_dies_at() -> None:
    report = await explore_crashes(checkout, 950, activities=[ship], signals=[(APPROVAL, True, timedelta(days=31))])
    assert report.result == ["receipt for 950", False, "mail to after 1", "mail to after 2", "CUP", 1]
    # Before and after each commit, with the cache on and off.
    assert report.crashes > 60
    assert report.crashes % 4 == 0
    assert set(report.ran_twice) == {"charge", "mail", "stamp"}


async def test_a_signal_is_sent_at_the_start_or_so_long_after() -> None:
    @workflow
    def asks(ctx: Context) -> Flow[list[Any]]:
        began = ctx.now()
        both = []
        for _ in range(2):
            yield ctx.signal(APPROVAL)
            both.append((ctx.now() - began).total_seconds())
        return both

    signals: list[Any] = [(APPROVAL, True, 60), ("approval", True)]
    report = await explore_crashes(asks, signals=signals)
    assert report.result == [0.0, 60.0]


async def test_each_step_runs_twice_after_a_crash_between_it_and_its_commit() -> None:
    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.step(mail, "ann"))

    # Two commits: the start, and the step's answer with the end. Before the second, with the cache on and off.
    assert await explore_crashes(order) == CrashReport("mail to ann", 8, {"mail": 2})


async def test_a_step_that_must_not_run_twice_is_found_and_the_boundary_is_named() -> None:
    paid: list[int] = []

    @activity
    async def pay(cents: int) -> int:
        paid.append(cents)
        return sum(paid)

    @workflow
    def order(ctx: Context) -> Flow[int]:
        total = yield from ctx.step(pay, 5)
        yield ctx.sleep(1)
        return total

    with pytest.raises(AssertionError) as found:
        await explore_crashes(order, reset=paid.clear)
    assert str(found.value).startswith("a crash before commit 2, with the cache on (answered 1, park): the run ends as")
    assert "ends as ('completed', '10', None" in str(found.value)
    assert "ran twice: pay" in str(found.value)


async def test_the_idempotency_key_makes_such_a_step_harmless() -> None:
    paid: dict[str, int] = {}

    @activity
    async def pay(cents: int) -> int:
        paid[current().idempotency_key] = cents
        return sum(paid.values())

    @workflow
    def order(ctx: Context) -> Flow[int]:
        total = yield from ctx.step(pay, 5)
        yield ctx.sleep(1)
        return total

    report = await explore_crashes(order)
    assert (report.result, report.ran_twice) == (5, {"pay": 2})


async def test_a_sync_step_and_parallel_steps_are_crashed_too() -> None:
    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        return (yield from ctx.gather([ctx.step(stamp, text) for text in "abc"]))

    assert (await explore_crashes(order)).result == ["A", "B", "C"]


async def test_a_run_that_fails_or_is_cancelled_must_do_so_each_time() -> None:
    @workflow
    def fails(ctx: Context) -> Flow[None]:
        yield ctx.step(mail, "ann")
        raise ValueError("out of cups")

    @workflow(timeout=5)
    def late(ctx: Context) -> Flow[None]:
        yield ctx.sleep(10)

    assert isinstance((await explore_crashes(fails)).result, RunFailed)
    assert isinstance((await explore_crashes(late)).result, RunCancelled)


async def test_chance_in_a_workflow_is_no_difference() -> None:
    @workflow
    def dice(ctx: Context) -> Flow[list[Any]]:
        yield ctx.sleep(1)
        child = yield from ctx.spawn(ship, "cup")
        yield child.result()
        return [str(ctx.uuid()), ctx.random.random(), child.id, ctx.info.id]

    assert (await explore_crashes(dice, activities=[ship])).crashes > 0


async def test_what_is_wrong_without_a_crash_is_told_as_it_is() -> None:
    count = iter(range(10**6))

    @workflow
    def chancy(ctx: Context) -> Flow[int]:
        yield ctx.sleep(1)
        return next(count)

    @workflow
    def broken(ctx: Context) -> Flow[None]:
        yield ctx.sleep(1)
        raise TypeError("not of the right type")

    @workflow
    def endless(ctx: Context) -> Flow[None]:
        yield ctx.signal(APPROVAL)

    with pytest.raises(NondeterminismError):
        await explore_crashes(chancy)
    with pytest.raises(RunBlocked):
        await explore_crashes(broken)
    with pytest.raises(ResultTimeout, match="waits for signal 'approval'"):
        await explore_crashes(endless)


async def test_what_blocks_only_after_a_crash_is_found() -> None:
    lives: list[int] = []

    @activity
    async def live() -> None:
        lives.append(1)

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.step(live)
        if len(lives) > 1:
            raise TypeError("not a second time")
        yield ctx.sleep(1)

    with pytest.raises(AssertionError, match="no end.*not a second time"):
        await explore_crashes(order, reset=lives.clear)


async def test_a_second_of_exploring_is_a_month_of_the_run() -> None:
    @workflow
    def month(ctx: Context) -> Flow[float]:
        began = ctx.now()
        yield ctx.sleep(timedelta(days=30))
        return (ctx.now() - began).total_seconds()

    assert (await explore_crashes(month)).result == 30 * 86400
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
