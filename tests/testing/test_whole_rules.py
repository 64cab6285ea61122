"""The kit over the rest of what a workflow can do: generations, undo, patches, versions, retry and fork."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from runnerq.errors import NondeterminismError, RunCancelled, RunFailed
from runnerq.persistence.records import Status
from runnerq.testing import Environment, check_replay, explore_crashes
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.testing.flows import APPROVAL, mail, stamp


@workflow
def ticks(ctx: Context, left: int, seen: int = 0) -> Flow[int]:
    """A generation a day."""
    yield ctx.sleep(timedelta(days=1))
    yield ctx.step(mail, f"day {seen}")
    if left > 1:
        return ctx.continue_as_new(left - 1, seen + 1)
    return seen + 1


@activity
async def book(what: str) -> str:
    return what


@activity
async def unbook(what: str) -> None:
    """Undoes ``book``."""


@activity(retry=1)
async def pay(cents: int) -> None:
    if cents > 100:
        raise ConnectionError("too dear")


@workflow
def trip(ctx: Context, cents: int) -> Flow[str]:
    for what in ("flight", "hotel"):
        ctx.compensate(unbook, what)
        yield ctx.step(book, what)
    yield ctx.sleep(1)
    yield ctx.step(pay, cents)
    return "booked"


async def test_generations_go_by_and_are_driven_again_each() -> None:
    async with Environment(workflows=[ticks]) as env:
        run = await env.start(ticks, 3)
        assert await run.result() == 3
        exported = await env.export(run.id)
        assert [each["generation"] for each in exported["generations"]] == [1, 2, 3]
        assert not check_replay([exported], [ticks])[0].diverged


async def test_a_generation_that_is_not_deterministic_is_told_of() -> None:
    count = iter(range(1000))

    @workflow
    def chancy(ctx: Context, left: int) -> Flow[int]:
        yield ctx.sleep(1)
        if left:
            return ctx.continue_as_new(left - 1)
        return next(count)

    async with Environment(workflows=[chancy]) as env:
        with pytest.raises(NondeterminismError):
            await (await env.start(chancy, 2)).result()


async def test_crashes_between_generations_lose_nothing() -> None:
    assert (await explore_crashes(ticks, 2)).result == 2


async def test_undos_run_in_virtual_time_and_survive_crashes() -> None:
    undone: list[str] = []
    async with Environment(workflows=[trip]) as env:
        env.replace(unbook, undone.append)
        assert await (await env.start(trip, 50)).result() == "booked"
        run = await env.start(trip, 500)
        with pytest.raises(RunFailed, match="too dear"):
            await run.result()
        assert undone == ["hotel", "flight"]
        cancelled = await env.start(trip, 50)
        await cancelled.reached(Status.WAITING)
        await cancelled.cancel()
        with pytest.raises(RunCancelled):
            await cancelled.result()
        assert undone == ["hotel", "flight"] * 2
        assert not any(report.diverged for report in check_replay(env.journals(), [trip]))
    report = await explore_crashes(trip, 500)
    assert isinstance(report.result, RunFailed)
    assert {"book", "pay", "unbook"} == set(report.ran_twice)


async def test_a_patched_workflow_is_the_same_each_time() -> None:
    @workflow
    def order(ctx: Context) -> Flow[Any]:
        yield ctx.sleep(1)
        if ctx.patched("stamped"):
            yield ctx.step(stamp, "cup")
        return (yield from ctx.step(mail, "ann"))

    async with Environment(workflows=[order]) as env:
        assert await (await env.start(order)).result() == "mail to ann"
    assert (await explore_crashes(order)).result == "mail to ann"


async def test_code_that_asks_whether_it_is_patched_follows_journals_from_before() -> None:
    @workflow(name="order")
    def before(ctx: Context) -> Flow[Any]:
        yield ctx.sleep(1)
        return (yield from ctx.signal(APPROVAL))

    @workflow(name="order")
    def after(ctx: Context) -> Flow[Any]:
        if ctx.patched("stamped"):
            yield ctx.step(stamp, "cup")
        yield ctx.sleep(1)
        return (yield from ctx.signal(APPROVAL))

    async with Environment(workflows=[before]) as env:
        await env.start(before)
        await env.advance(5)
        [report] = check_replay(env.journals(), [after])
    assert not report.diverged, report.message


async def test_two_versions_stand_side_by_side() -> None:
    @workflow(name="order")
    def first(ctx: Context) -> Flow[int]:
        yield ctx.sleep(10)
        return 1

    @workflow(name="order", version=2)
    def second(ctx: Context) -> Flow[int]:
        yield ctx.sleep(10)
        return 2

    async with Environment(workflows=[first, second]) as env:
        runs = [await env.start(first), await env.start(second), await env.start("order")]
        assert [await run.result() for run in runs] == [1, 2, 2]
        journals = env.journals()
    assert [report.diverged for report in check_replay(journals, [first, second])] == [False] * 3
    reports = check_replay(journals, [second])
    assert [report.diverged for report in reports] == [True, False, False]
    assert "order@1 is not among these" in reports[0].message


async def test_a_failed_run_is_retried_and_a_run_is_forked() -> None:
    broken = True

    def maybe(cents: int) -> None:
        if broken:
            raise ConnectionError("no")

    @workflow
    def order(ctx: Context) -> Flow[str]:
        yield ctx.step(book, "flight")
        yield ctx.step(pay, 5)
        return "paid"

    async with Environment(workflows=[order]) as env:
        env.replace(pay, maybe)
        run = await env.start(order)
        with pytest.raises(RunFailed):
            await run.result()
        broken = False
        assert await env.retry(run.id)
        assert await run.result() == "paid"
        fork = await env.fork(run.id, from_entry="2")
        assert await fork.result() == "paid"
        assert not any(report.diverged for report in check_replay(env.journals(), [order]))
