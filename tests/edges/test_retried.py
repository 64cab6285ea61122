"""What a retried run gets back, and what not: time, and signals that were taken behind the cut."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runnerq.errors import NonRetryableError, RunCancelled, RunFailed
from runnerq.persistence.records import Status
from runnerq.testing import Environment
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


async def test_the_timeout_of_a_workflow_counts_anew_from_its_retry() -> None:
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

    async with Environment(workflows=[order]) as env:
        answered, silent = [await env.options(timeout=3600).start(order) for _ in range(2)]
        for run in (answered, silent):
            with pytest.raises(RunFailed):
                await run.result()
        await env.advance(timedelta(days=1))
        down.clear()
        for run in (answered, silent):
            assert await env.retry(run.id)
        await env.advance(timedelta(minutes=59))
        await answered.send(WORDS, "in time")
        assert await answered.result() == "in time"
        with pytest.raises(RunCancelled) as cancelled:
            await silent.result()
    assert cancelled.value.reason == "timeout"
