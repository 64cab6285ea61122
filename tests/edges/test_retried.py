"""What a retried run does not get back: signals that were taken behind the cut, and time."""

from __future__ import annotations

import pytest

from runnerq.errors import NonRetryableError, RunCancelled, RunFailed
from runnerq.persistence.records import Status
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Stage

WORDS: Signal[str] = Signal("words", str)


@activity(retry=1)
async def refuse() -> str:
    raise NonRetryableError("no")


async def test_a_signal_that_was_taken_behind_the_failure_is_waited_for_again(plain_stage: Stage) -> None:
    seen: list[str] = []

    @workflow
    def order(ctx: Context) -> Flow[str]:
        try:
            return (yield from ctx.step(refuse))
        except NonRetryableError:
            seen.append((yield from ctx.signal(WORDS)))
            raise

    async with plain_stage.serving(order) as client:
        run = await client.start(order)
        for word in ("first", "second"):
            await run.reached(Status.WAITING, timeout=SOON)
            await run.send(WORDS, word)
            with pytest.raises(RunFailed):
                await run.result(timeout=SOON)
            if word == "first":
                assert await client.retry(run.id)
    assert seen[-1] == "second"
    await plain_stage.no_gaps(run.id)


async def test_a_run_whose_deadline_has_passed_is_cancelled_when_it_is_retried(memory: Stage) -> None:
    down = [True]

    @activity(retry=1)
    async def works_later() -> str:
        if down:
            raise NonRetryableError("no")
        return "done"

    @workflow
    def order(ctx: Context) -> Flow[str]:
        yield from ctx.step(works_later)
        return (yield from ctx.signal(WORDS))

    async with memory.serving(order) as client:
        run = await client.options(timeout=0.2).start(order)
        with pytest.raises(RunFailed):
            await run.result(timeout=SOON)
        down.clear()
        assert await client.retry(run.id)
        with pytest.raises(RunCancelled) as cancelled:
            await run.result(timeout=SOON)
    assert cancelled.value.reason == "timeout"
