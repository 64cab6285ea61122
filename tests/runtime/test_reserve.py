"""``Worker(reserve=)``: a worker that is full of slow runs still runs those that it keeps slots for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from runnerq.persistence.records import Back, Status, Turn, Verdict
from runnerq.retry import RetryPolicy
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Stage, Tapped, soon


async def test_parents_that_fill_the_worker_still_get_the_answers_of_their_leaves(plain_stage: Stage) -> None:
    stage = plain_stage

    @activity
    async def leaf(number: int) -> int:
        return number * number

    @activity(retry=1)
    async def parent(number: int) -> int:
        # It holds its slot while it waits: without a slot kept for the leaves, four of these wait for ever.
        run = await stage.client.start(leaf, number)
        return await run.result(timeout=SOON)

    async with stage.serving(leaf, parent, max_workers=3, reserve=(1, [leaf])) as client:
        runs = await client.start_many(parent, [(number,) for number in range(8)])
        assert [await run.result(timeout=SOON) for run in runs] == [number * number for number in range(8)]


async def test_the_others_leave_the_kept_slots_free_however_many_are_ready(plain_stage: Stage) -> None:
    gate = Gate()
    held: set[int] = set()
    at_once: list[int] = []

    @activity
    async def slow(number: int) -> None:
        held.add(number)
        at_once.append(len(held))
        await gate.pass_through()
        held.discard(number)

    @activity
    async def quick() -> str:
        at_once.append(len(held))
        return "done"

    tapped = Tapped(plain_stage.storage)
    stage = plain_stage.on(tapped)
    async with stage.serving(slow, quick, max_workers=4, reserve=(2, ["quick"])) as client:
        slow_runs = await client.start_many(slow, [(number,) for number in range(6)])
        await soon(lambda: len(held) == 2)
        for _ in range(3):
            assert await (await client.start(quick)).result(timeout=SOON) == "done"
        assert len(held) == 2
        assert [await run.status() for run in slow_runs].count(Status.PENDING) == 4
        gate.open()
        for run in slow_runs:
            await run.result(timeout=SOON)
    assert max(at_once) == 2


async def test_a_slot_that_an_other_gives_back_is_taken_at_once(memory: Stage) -> None:
    """Not at the next poll: the last claim was for the named alone, and found nothing."""
    done: list[int] = []

    @activity
    async def other(number: int) -> None:
        await asyncio.sleep(0)
        done.append(number)

    @activity
    async def named() -> None: ...

    async with memory.serving(other, named, max_workers=3, reserve=(2, [named])) as client:
        runs = await client.start_many(other, [(number,) for number in range(20)])
        for run in runs:
            await run.result(timeout=SOON)
    assert sorted(done) == list(range(20))


async def test_a_worker_is_idle_only_when_nobody_is_left_out_of_its_claims(memory: Stage) -> None:
    done: list[int] = []

    @activity
    async def other(number: int) -> None:
        await asyncio.sleep(0)
        done.append(number)

    @activity
    async def named() -> None: ...

    async with memory.worker(other, named, max_workers=2, reserve=(1, [named])) as worker:
        await memory.client.start_many(other, [(number,) for number in range(10)])
        await worker.idle()
        assert len(done) == 10


async def test_a_parent_and_its_children_on_one_queue_finish_in_a_worker_of_one_slot(stage: Stage) -> None:
    @activity
    async def double(number: int) -> int:
        return 2 * number

    @workflow
    def inner(ctx: Context, number: int) -> Flow[int]:
        return (yield from ctx.child(double, number))

    @workflow
    def outer(ctx: Context) -> Flow[list[int]]:
        return (yield from ctx.gather(ctx.child(inner, number) for number in range(3)))

    async with stage.serving(outer, inner, double, max_workers=1) as client:
        run = await client.start(outer)
        assert await run.result(timeout=SOON) == [0, 2, 4]


async def test_a_run_claimed_again_before_its_worker_knows_that_it_let_go_takes_no_slot_for_ever(memory: Stage) -> None:
    """The reply of the commit that gives it back is slower than the claim that brings it again."""
    begun: list[int] = []

    @activity(retry=RetryPolicy(max_attempts=2, base=0))
    async def other(number: int) -> int:
        begun.append(number)
        if begun.count(number) == 1:
            raise ValueError
        return number

    @activity
    async def named() -> None: ...

    tapped = Tapped(memory.storage)

    async def until_claimed_again(turns: Sequence[Turn], _: list[Verdict]) -> None:
        for turn in turns:
            if isinstance(turn.move, Back):
                await soon(lambda turn=turn: tapped.claimed(turn.run_id) == 2)  # type: ignore[misc]

    tapped.after = until_claimed_again
    async with memory.on(tapped).serving(other, named, max_workers=3, reserve=(1, [named])) as client:
        # Two slots are for the others: with one lost each time, nobody takes up the third.
        for number in range(4):
            assert await (await client.start(other, number)).result(timeout=SOON) == number
    assert sorted(begun) == sorted([*range(4), *range(4)])
