"""What is a fault of the worker and not of the code is tried again, ever less often, by any build."""

from __future__ import annotations

from runnerq.clock import ManualClock
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import Status
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from tests.edges.test_ways_to_change import block_of
from tests.runtime.stage import SOON, Stage, soon


async def test_a_fault_of_the_worker_is_tried_again_after_a_minute_that_doubles_up_to_an_hour() -> None:
    left = [MemoryError("no room")] * 8
    clock = ManualClock()
    stage = Stage(MemoryStorage(clock), cache=0)

    @workflow
    def order(ctx: Context) -> Flow[str]:
        yield from ctx.sleep(0)
        if left:
            raise left.pop()
        return "done"

    waits: list[float] = []
    async with stage.base:
        run = await stage.client.start(order)
        while left:
            faults = len(left)
            async with stage.serving(order, poll_interval=0.01):
                await soon(lambda faults=faults: len(left) < faults)  # type: ignore[misc]
                await run.reached(Status.BLOCKED, timeout=SOON)
            block = await block_of(run)
            assert block.builds == ()
            waits.append(round((block.retry_at - block.at).total_seconds()))
            clock.advance(waits[-1] + 1)
        async with stage.serving(order, poll_interval=0.01):
            assert await run.result(timeout=SOON) == "done"
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600]
