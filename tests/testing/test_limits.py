"""Limits in the testing kit: in virtual time, and with crashes at every commit."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from runnerq.errors import UsageError
from runnerq.persistence.records import Status
from runnerq.testing import Environment, explore_crashes
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from runnerq.workflow.options import Limit


@activity
async def call(number: int) -> int:
    return number


@workflow
def fans_out(ctx: Context, count: int) -> Flow[int]:
    limited = ctx.options(limit=("partner", "7"))
    numbers = yield from ctx.gather(limited.child(call, number) for number in range(count))
    return sum(numbers)


@workflow
def badly_limited(ctx: Context) -> Flow[int]:
    return (yield from ctx.options(limit=("partner", "")).child(call, 1))


async def test_a_rate_lets_runs_in_by_the_test_s_clock() -> None:
    async with Environment(activities=[call]) as env:
        await env.limits.set("partner", rate=(10, timedelta(minutes=1)))
        began = env.now()
        runs = await env.options(limit="partner").start_many(call, [(number,) for number in range(35)])
        assert await runs[0].result() == 0
        assert env.now() == began
        await env.advance(timedelta(seconds=59))
        assert await _ended(runs) == 10
        await env.advance(timedelta(minutes=1, seconds=1))
        assert await _ended(runs) == 30
        assert await runs[-1].result() == 34
        assert env.now() - began >= timedelta(minutes=3)


async def _ended(runs: list[Any]) -> int:
    return sum([await run.status() is Status.COMPLETED for run in runs])


async def test_children_are_limited_as_well_and_all_come_to_their_end() -> None:
    async with Environment(workflows=[fans_out], activities=[call]) as env:
        inside, most = 0, 0

        async def fake(number: int) -> int:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            inside -= 1
            return number

        env.replace(call, fake)
        await env.limits.set("partner", concurrency=2)
        run = await env.start(fans_out, 9)
        assert await run.result() == 36
        assert most <= 2
        children = [node.info.limit for node in (await env.tree(run.id)).children]
        assert children == [Limit("partner", "7")] * 9


async def test_a_limit_that_is_none_is_an_error_at_the_line_that_gives_it() -> None:
    async with Environment(workflows=[badly_limited], activities=[call]) as env:
        run = await env.start(badly_limited)
        with pytest.raises(Exception, match="blocked") as caught:
            await run.result()
        cause = caught.value.__cause__
        assert isinstance(cause, UsageError)
        assert "key of a limit is a non-empty str" in str(cause)


async def test_a_fork_and_its_children_count_against_what_the_originals_do() -> None:
    async with Environment(workflows=[fans_out], activities=[call]) as env:
        await env.limits.set("partner", concurrency=0)
        run = await env.options(limit="flows").start(fans_out, 2)
        await env.advance(1)
        forked = await env.fork(run.id, from_entry="1")
        assert (await forked.info()).limit == Limit("flows")
        children = [node.info.limit for node in (await env.tree(forked.id)).children]
        assert children == [Limit("partner", "7")] * 2
        await env.limits.delete("partner")
        assert [await each.result() for each in (run, forked)] == [1, 1]


async def test_crashes_at_every_commit_leave_limited_children_as_they_are() -> None:
    report = await explore_crashes(fans_out, 3, activities=[call])
    assert report.result == 3
