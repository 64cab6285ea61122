"""The client's verbs on a test's environment, where time stands still unless it is awaited."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runnerq.errors import RunNotFound, UsageError
from runnerq.persistence.records import Priority, RunFilter, Status
from runnerq.testing import Environment
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow

GO: Signal[int] = Signal("go", int)


@activity
def double(number: int) -> int:
    return 2 * number


@workflow
def waiting(ctx: Context) -> Flow[int]:
    return (yield from ctx.signal(GO))


@workflow
def leaving(ctx: Context) -> Flow[str]:
    handle = yield from ctx.options(detached=True, key="left").spawn(waiting)
    return handle.id


@workflow
def wondering(ctx: Context) -> Flow[str]:
    handle = yield from ctx.options(detached=True).spawn(waiting)
    try:
        yield handle.result()
    except UsageError as error:
        return str(error)
    return "it has a result"


async def test_a_delayed_run_that_is_to_run_now_does_so_without_time_passing() -> None:
    async with Environment([], [double]) as env:
        run = await env.options(delay=timedelta(days=1)).start(double, 4)
        before = env.now()
        assert await env.run_now(run.id)
        assert (await run.result(), env.now()) == (8, before)


async def test_a_run_that_was_put_off_is_done_at_its_time() -> None:
    async with Environment([], [double]) as env:
        run = await env.options(delay=60).start(double, 4)
        due = env.now() + timedelta(days=30)
        assert await env.reschedule(run.id, due)
        assert (await run.result(), env.now()) == (8, due)


async def test_signals_that_come_with_a_start_are_there_at_once() -> None:
    async with Environment([waiting]) as env:
        run = await env.options(signals=[(GO, 7)]).start(waiting)
        assert await run.result() == 7


async def test_a_paused_queue_is_left_alone_until_it_is_resumed() -> None:
    async with Environment([], [double]) as env:
        await env.queues.pause("default")
        run = await env.start(double, 4)
        await env.advance(timedelta(days=1))
        assert await run.status() is Status.PENDING
        await env.queues.resume("default")
        assert await run.result() == 8


async def test_a_run_started_by_a_name_that_nobody_knew_is_adopted() -> None:
    async with Environment([waiting]) as env:
        run = await env.options(signals=[(GO, 7)]).start("waiting")
        assert await run.result() == 7
        assert (await run.info()).version == 1


async def test_what_has_ended_is_counted_shown_and_deleted() -> None:
    async with Environment([], [double]) as env:
        run = await env.options(priority=Priority.LOW).start(double, 4)
        assert await env.set_priority(run.id, Priority.HIGH)
        assert (await run.info()).priority is Priority.HIGH
        assert await run.result() == 8
        assert await env.count(RunFilter(status="completed")) == 1
        assert (await env.tree(run.id)).children == ()
        assert [worker.alive for worker in (await env.stats()).workers] == [True]
        assert await env.delete(run.id)
        with pytest.raises(RunNotFound):
            await run.info()


class TestDetached:
    async def test_it_is_a_root_of_its_own_and_outlives_the_run_that_spawned_it(self) -> None:
        async with Environment([leaving, waiting]) as env:
            run = await env.start(leaving)
            left = env.handle(await run.result())
            await env.advance(timedelta(days=1))
            info = await left.info()
            assert (info.status, info.parent_id, info.root_id, info.key) == (Status.WAITING, None, left.id, "left")
            await left.send(GO, 3)
            assert await left.result() == 3

    async def test_its_handle_has_no_result(self) -> None:
        async with Environment([wondering, waiting]) as env:
            assert "tells nobody of its end" in await (await env.start(wondering)).result()

    async def test_a_fork_does_not_start_it_again(self) -> None:
        async with Environment([holding, waiting]) as env:
            run = await env.start(holding)
            await run.reached(Status.WAITING)
            fork = await env.fork(run.id, from_entry="2")
            await fork.reached(Status.WAITING)
            assert await env.count(RunFilter(workflow="waiting")) == 1


@workflow
def holding(ctx: Context) -> Flow[int]:
    yield from ctx.options(detached=True).spawn(waiting)
    return (yield from ctx.signal(GO))
