"""A kept generator goes on only where its worker was the last to have the run."""

from __future__ import annotations

from typing import Any

from runnerq.persistence.records import Claim, ClaimRequest, Status
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from tests.runtime.stage import SOON, Stage, Tapped


class Resting(Tapped):
    """A worker's storage that gives it nothing to do while it rests."""

    rests = False

    async def claim(self, request: ClaimRequest) -> Claim:
        if self.rests:
            return Claim(runs=(), now=await self._storage.now(), next_due=None)
        return await super().claim(request)


@workflow
def order(ctx: Context) -> Flow[list[str]]:
    words: list[str] = []
    for _ in range(3):
        yield from ctx.publish(words=len(words))
        words.append((yield from ctx.signal("word")))
    return words


async def test_a_generator_that_was_kept_since_before_another_worker_had_the_run_does_not_go_on(memory: Stage) -> None:
    """One worker parks the run and keeps its generator, the other takes it a turn further, the first one ends it."""
    first, second = Resting(memory.storage), Resting(memory.storage)
    second.rests = True
    async with memory.on(first).worker(order), memory.on(second).worker(order):
        run = await memory.client.start(order)
        await _parked(run, 0)
        first.rests, second.rests = True, False
        await run.send("word", "a")
        await _parked(run, 1)
        first.rests, second.rests = False, True
        await run.send("word", "b")
        await _parked(run, 2)
        await run.send("word", "c")
        assert await run.result(timeout=SOON) == ["a", "b", "c"]
    assert (first.claimed(run.id), second.claimed(run.id)) == (3, 1)


async def _parked(run: Any, answered: int) -> None:
    await run.wait(lambda state: state.get("words") == answered, timeout=SOON)
    await run.reached(Status.WAITING, timeout=SOON)
