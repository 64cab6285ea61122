"""What becomes of a worker's runs while it is busy, and once it is gone."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from runnerq.ids import new_token
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import ClaimRequest, Status, WorkerRow
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Stage, Tapped


@activity
async def hello(name: str) -> str:
    return f"hello {name}"


@activity
async def other() -> str:
    return "other"


@workflow
def greet(ctx: Context, name: str) -> Flow[str]:
    return (yield from ctx.step(hello, name))


async def test_a_worker_that_is_stopped_while_it_registers_signs_off_at_once(memory: Stage) -> None:
    gate = Gate()

    class Slow(Tapped):
        async def register(self, *given: Any) -> Any:
            await gate.pass_through()
            return await self._storage.register(*given)

    worker = memory.on(Slow(memory.storage)).worker(greet, hello)
    running = asyncio.create_task(worker.run())
    await gate.somebody()
    stopping = asyncio.create_task(worker.stop())
    await asyncio.sleep(0)
    gate.open()
    async with asyncio.timeout(SOON):
        await asyncio.gather(running, stopping)


async def test_a_blocked_event_loop_keeps_its_leases(plain_stage: Stage) -> None:
    ran: list[int] = []

    @activity
    async def rude() -> str:
        """Lets the event loop turn no more until its worker has beaten some more."""
        ran.append(1)
        beats, until = tapped.beats, time.monotonic() + SOON
        while tapped.beats < beats + 5 and time.monotonic() < until:
            time.sleep(0.001)  # noqa: ASYNC251 - what this is about
        return "done" if tapped.beats >= beats + 5 else "nobody beats"

    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.step(rude))

    tapped = Tapped(plain_stage.storage)
    async with plain_stage.on(tapped).serving(order, beat=0.1) as client:
        run = await client.start(order)
        assert await run.result(timeout=SOON) == "done"
    assert ran == [1]


async def test_a_run_whose_worker_is_gone_is_taken_up_by_another(plain_stage: Stage) -> None:
    run = await plain_stage.client.start(greet, "Ada")
    ghost = await haunt(plain_stage, "greet@1", lease=0.05)
    assert [claimed.id for claimed in ghost.runs] == [run.id]
    tapped = Tapped(plain_stage.storage)
    async with plain_stage.on(tapped).serving(greet, reaper_interval=0.02):
        assert await run.result(timeout=SOON) == "hello Ada"
    assert [claimed.crashes for claim in tapped.claims for claimed in claim.runs] == [1]


async def test_a_run_that_crashes_its_workers_again_and_again_is_a_dead_letter() -> None:
    from runnerq.clock import ManualClock

    clock = ManualClock()
    stage = Stage(MemoryStorage(clock))
    async with stage.base, stage.worker(other, reaper_interval=0.01, beat=0.02):
        run = await stage.client.start(greet, "Ada")
        for _ in range(5):
            await soon_claimed(stage, clock)
            clock.advance(2)
        await run.reached(Status.DEAD_LETTER, timeout=SOON)
        assert (await run.info()).reason == "crash_loop"


async def haunt(stage: Stage, served: str, lease: float) -> Any:
    """Claim as a worker that is never heard of again."""
    row = WorkerRow(
        id=new_token(), lease=lease, host="nowhere", pid=1, build="x", queues=(stage.queue,), served=(served,)
    )
    await stage.storage.register(row, [])
    request = ClaimRequest(worker_id=row.id, token=new_token(), pairs=((stage.queue, served),), limit=1)
    return await stage.storage.claim(request)


async def soon_claimed(stage: Stage, clock: Any) -> None:
    """Claim it once it is ready, as a worker that is never heard of again."""
    async with asyncio.timeout(SOON):
        while not (await haunt(stage, "greet@1", lease=1)).runs:
            clock.advance(0.5)
            await asyncio.sleep(0.01)
