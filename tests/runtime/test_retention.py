"""``Worker(retention=)`` and runs that were started by a name nobody knew, through a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from runnerq.errors import RunNotFound
from runnerq.ids import new_run_id
from runnerq.persistence.records import NewRun, RunFilter, Status
from runnerq.runtime.retention import Retention
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Stage

WORDS: Signal[str] = Signal("words", str)


@activity
async def leaf(number: int) -> int:
    return number


@workflow
def order(ctx: Context) -> Flow[int]:
    return (yield from ctx.child(leaf, 4))


@workflow
def waits(ctx: Context) -> Flow[str]:
    return (yield from ctx.signal(WORDS))


async def true_soon(look: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(SOON):
        while not await look():
            await asyncio.sleep(0.01)


async def test_trees_that_ended_long_enough_ago_are_deleted_whole_and_what_is_open_stays(plain_stage: Stage) -> None:
    stage = plain_stage
    async with stage.serving(order, leaf, waits) as client:
        done = await client.options(key=f"k-{new_run_id()}").start(order)
        assert await done.result(timeout=SOON) == 4
        waiting = await client.start(waits)
        await waiting.reached(Status.WAITING, timeout=SOON)
    kept = Retention(completed=0, interval=0.05, batch=1)
    async with stage.serving(order, leaf, waits, retention=kept, poll_interval=0.05) as client:
        await true_soon(lambda: _gone(stage, done.id))
        left = (await client.list(RunFilter(queue=stage.queue))).items
        assert [run.id for run in left] == [waiting.id]
        await waiting.send(WORDS, "go")
        # Deleted as soon as it has ended.
        await true_soon(lambda: _gone(stage, waiting.id))


async def test_what_is_in_queues_that_the_worker_does_not_serve_goes_too(plain_stage: Stage) -> None:
    stage = plain_stage
    async with stage.serving(order, leaf) as client:
        done = await client.start(order)
        await done.result(timeout=SOON)
    kept = Retention(completed=0, interval=0.05)
    async with stage.serving(waits, queues=("elsewhere",), retention=kept, poll_interval=0.05):
        await true_soon(lambda: _gone(stage, done.id))


def test_it_looks_every_ten_minutes_unless_told_otherwise() -> None:
    assert [Retention(completed=1).interval, Retention(completed=1, interval=5).interval] == [600, 5]


async def test_a_deletion_that_was_broken_off_is_finished_by_any_worker(plain_stage: Stage) -> None:
    stage = plain_stage
    async with stage.serving(order, leaf) as client:
        done = await client.start(order)
        await done.result(timeout=SOON)
    more = True
    while more:
        more = (await stage.storage.retain(0, None, 1000)).more
    assert await stage.storage.run(done.id) is not None, "marked, and not deleted yet"
    async with stage.serving(leaf, poll_interval=0.05):
        await true_soon(lambda: _gone(stage, done.id))


async def test_a_run_of_a_name_that_nobody_knew_is_taken_up_by_a_worker_that_comes_with_it(plain_stage: Stage) -> None:
    stage = plain_stage
    name = f"order-{new_run_id()}"
    run = NewRun(id=new_run_id(), kind="workflow", name=name, version=0, queue=stage.queue, input="[]")
    await stage.storage.start([run])

    @workflow(name=name, version=3)
    def newest(ctx: Context) -> Flow[int]:
        yield from ctx.sleep(0)
        return ctx.info.version

    @workflow(name=name, version=2)
    def older(ctx: Context) -> Flow[int]:
        yield from ctx.sleep(0)
        return ctx.info.version

    async with stage.serving(newest, older) as client:
        assert await client.handle(run.id, returns=int).result(timeout=SOON) == 3


async def test_an_activity_is_adopted_as_one(plain_stage: Stage) -> None:
    stage = plain_stage
    name = f"leaf-{new_run_id()}"
    run = NewRun(id=new_run_id(), kind="workflow", name=name, version=0, queue=stage.queue, input="[7]")
    await stage.storage.start([run])

    @activity(name=name)
    async def same(number: int) -> int:
        return number

    async with stage.serving(same) as client:
        assert await client.handle(run.id, returns=int).result(timeout=SOON) == 7


async def _gone(stage: Stage, run_id: str) -> bool:
    try:
        await stage.client.handle(run_id).status()
    except RunNotFound:
        return True
    return False
