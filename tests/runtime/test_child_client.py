"""``rq.current().client``: what a step or activity starts is a child of its run, found again by its next attempt."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runnerq.errors import DepthExceeded, RunFailed
from runnerq.persistence.records import Priority, RunFilter, Status
from runnerq.retry import RetryPolicy
from runnerq.runtime.current import current
from runnerq.runtime.worker import Worker
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Stage, Tapped, soon

AT_ONCE_AGAIN = RetryPolicy(max_attempts=3, base=0)


@activity
async def leaf(number: int) -> int:
    return number


async def test_what_an_activity_starts_is_its_child(plain_stage: Stage) -> None:
    @activity
    async def parent() -> list[str]:
        client = current().client
        runs = [await client.start(leaf, number) for number in range(2)]
        return [run.id for run in runs]

    async with plain_stage.serving(parent, leaf) as client:
        run = await client.options(priority=Priority.HIGH).start(parent)
        ids = await run.result(timeout=SOON)
        children = [await client.handle(each).info() for each in ids]
    assert {child.parent_id for child in children} == {run.id}
    assert {child.root_id for child in children} == {run.id}
    assert {child.priority for child in children} == {Priority.HIGH}
    assert {child.queue for child in children} == {plain_stage.queue}


async def test_another_attempt_finds_what_the_one_before_has_started(plain_stage: Stage) -> None:
    started: list[list[str]] = []

    @activity(retry=AT_ONCE_AGAIN)
    async def fan_out() -> list[str]:
        client = current().client
        assert current().client is client
        runs = [await client.start(leaf, number) for number in range(3)]
        started.append([run.id for run in runs])
        if current().attempt == 1:
            raise ValueError("once")
        return started[-1]

    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        first = yield from ctx.step(fan_out)
        second = yield from ctx.step(fan_out)
        return first + second

    async with plain_stage.serving(order, leaf) as client:
        run = await client.start(order)
        ids = await run.result(timeout=SOON)
        assert started[0] == started[1]
        assert len(set(ids)) == 6, "each step has keys of its own"
        children = (await client.list(RunFilter(parent=run.id))).items
    assert {child.id for child in children} == set(ids)


async def test_threads_of_one_attempt_share_one_client(memory: Stage) -> None:
    @activity
    async def parent() -> bool:
        now = current()
        clients = await asyncio.gather(*(asyncio.to_thread(lambda: now.client) for _ in range(20)))
        return len({id(client) for client in clients}) == 1

    async with memory.serving(parent) as client:
        assert await (await client.start(parent)).result(timeout=SOON)


async def test_a_child_that_lies_too_deep_is_refused_in_the_step(memory: Stage) -> None:
    @activity
    async def deeper() -> str:
        try:
            await current().client.start(leaf, 1)
        except DepthExceeded as error:
            return str(error)
        return "started"

    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.child(deeper))

    async with memory.serving(order, deeper, leaf, max_depth=1) as client:
        assert "is at the greatest depth" in await (await client.start(order)).result(timeout=SOON)


async def test_a_client_that_knows_no_children_is_given_as_it_is(memory: Stage) -> None:
    class Bare:
        def __init__(self, storage: Any) -> None:
            self.storage = storage

    bare, seen = Bare(memory.storage), []

    @activity
    async def look() -> None:
        seen.append(current().client)

    async with Worker(bare, activities=[look], queues=[memory.queue], build="tests"):
        await (await memory.client.start(look)).result(timeout=SOON)
    assert seen == [bare]


async def test_what_a_step_started_goes_on_when_its_parent_has_ended(plain_stage: Stage) -> None:
    gate = Gate()

    @activity
    async def slow() -> str:
        await gate.pass_through()
        return "done"

    @activity
    async def parent() -> str:
        return (await current().client.start(slow)).id

    async with plain_stage.serving(parent, slow) as client:
        child = client.handle(await (await client.start(parent)).result(timeout=SOON), returns=str)
        await gate.somebody()
        for _ in range(3):
            await plain_stage.storage.sweep(1000)
        assert await child.status() is Status.RUNNING
        gate.open()
        assert await child.result(timeout=SOON) == "done"


@pytest.mark.parametrize("detached", [False, True])
async def test_a_spawned_run_is_a_child_or_if_detached_a_root_of_its_own(plain_stage: Stage, detached: bool) -> None:
    @workflow
    def order(ctx: Context) -> Flow[str]:
        handle = yield from ctx.options(detached=detached, parent_close="abandon").spawn(leaf, 3)
        return handle.id

    async with plain_stage.serving(order, leaf) as client:
        run = await client.options(priority=Priority.LOW).start(order)
        started = client.handle(await run.result(timeout=SOON), returns=int)
        assert await started.result(timeout=SOON) == 3
        info = await started.info()
    assert info.parent_id == (None if detached else run.id)
    assert info.root_id == (started.id if detached else run.id)
    assert (info.queue, info.priority) == (plain_stage.queue, Priority.LOW)


async def test_children_started_side_by_side_are_numbered_in_the_order_of_their_calls(memory: Stage) -> None:
    """And not in that in which the database answers, which may be another at the next attempt."""

    class Turned(Tapped):
        """Who asks first for a name is answered last, the first time."""

        asked = 0

        async def definitions(self, name: str | None = None) -> Any:
            self.asked += 1
            if self.asked == 1:
                await soon(lambda: self.asked >= 3)
            return await self._storage.definitions(name)

    started: list[list[str]] = []

    @activity(retry=AT_ONCE_AGAIN)
    async def fan_out() -> list[Any]:
        client = current().client
        one, two, many = await asyncio.gather(
            client.start("leaf", 1),
            client.start("leaf", 2),
            client.start_many("leaf", ((number,) for number in range(3, 5))),
        )
        last = await client.start("leaf", 5)
        runs = [one, two, *many, last]
        started.append([run.id for run in runs])
        if len(started) == 1:
            raise ValueError("once")
        return [await run.result(timeout=SOON) for run in runs]

    stage = memory.on(Turned(memory.storage))
    async with stage.serving(fan_out, leaf) as client:
        assert await (await client.start(fan_out)).result(timeout=SOON) == [1, 2, 3, 4, 5]
    assert started[0] == started[1]


async def test_a_bulk_of_children_may_have_keys_of_its_own(memory: Stage) -> None:
    @activity
    async def fan_out() -> list[str | None]:
        client = current().client
        many = await client.start_many(leaf, [(1,), (2,)], keys=["a", "b"])
        one = await client.start(leaf, 3)
        return [(await run.info()).key for run in [*many, one]]

    async with memory.serving(fan_out, leaf) as client:
        run = await client.start(fan_out)
        assert await run.result(timeout=SOON) == ["a", "b", f"{run.id}:1::activity:fan_out:3"]


async def test_a_detached_run_whose_key_is_taken_is_a_failed_run_of_its_own(plain_stage: Stage) -> None:
    key = f"key-{plain_stage.queue}"

    @workflow
    def order(ctx: Context) -> Flow[str]:
        handle = yield from ctx.options(detached=True, key=key).spawn(leaf, 3)
        return handle.id

    async with plain_stage.serving(order, leaf) as client:
        holder = await client.options(key=key).start(leaf, 1)
        run_id = await (await client.start(order)).result(timeout=SOON)
        assert run_id != holder.id
        with pytest.raises(RunFailed, match="KeyTaken"):
            await client.handle(run_id).result(timeout=SOON)
