"""Runs that are told not to wait for their next attempt, with a real worker, however it keeps them meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from runnerq.client.handle import Handle
from runnerq.errors import WrongState
from runnerq.persistence.records import Status
from runnerq.retry import RetryPolicy
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Stage

DOWN: set[str] = set()
CALLS: list[asyncio.Queue[str]] = []
"""One, of the present test: a queue belongs to an event loop."""

in_an_hour = RetryPolicy(max_attempts=5, base=3600, jitter=0)


@pytest.fixture(autouse=True)
def fresh() -> None:
    DOWN.clear()
    CALLS[:] = [asyncio.Queue()]


@activity(retry=in_an_hour)
async def flaky(name: str) -> str:
    CALLS[0].put_nowait(name)
    if name in DOWN:
        raise OSError(f"{name} is down")
    return name.upper()


@workflow
def one_step(ctx: Context) -> Flow[str]:
    return (yield from ctx.step(flaky, "a"))


@workflow
def two_at_once(ctx: Context) -> Flow[list[str]]:
    return (yield from ctx.gather([ctx.step(flaky, "a"), ctx.step(flaky, "b")]))


@workflow
def sleeper(ctx: Context) -> Flow[str]:
    yield from ctx.sleep(3600)
    return "slept"


async def test_a_step_between_two_attempts_is_tried_at_once(stage: Stage) -> None:
    DOWN.add("a")
    async with stage.serving(one_step, flaky) as client:
        run = await client.start(one_step)
        await asyncio.wait_for(run.reached(Status.WAITING), SOON)
        DOWN.clear()
        assert await client.run_now(run.id)
        assert await run.result(timeout=SOON) == "A"
    assert CALLS[0].qsize() == 2


async def test_one_that_fails_again_waits_for_its_next_attempt_and_can_be_told_again(stage: Stage) -> None:
    DOWN.add("a")
    async with stage.serving(one_step, flaky) as client:
        run = await client.start(one_step)
        await _failed(run)
        assert await client.run_now(run.id)
        await _failed(run)
        DOWN.clear()
        assert await client.run_now(run.id)
        assert await run.result(timeout=SOON) == "A"


async def test_all_steps_of_the_run_that_wait_are_tried(stage: Stage) -> None:
    DOWN.update("ab")
    async with stage.serving(two_at_once, flaky) as client:
        run = await client.start(two_at_once)
        await asyncio.wait_for(run.reached(Status.WAITING), SOON)
        DOWN.clear()
        assert await client.run_now(run.id)
        assert await run.result(timeout=SOON) == ["A", "B"]


async def test_an_activity_run_is_tried_at_once(plain_stage: Stage) -> None:
    DOWN.add("a")
    async with plain_stage.serving(flaky) as client:
        run = await client.start(flaky, "a")
        await asyncio.wait_for(run.reached(Status.RETRYING), SOON)
        DOWN.clear()
        assert await client.run_now(run.id)
        assert await run.result(timeout=SOON) == "A"


async def test_a_delayed_run_begins_at_once_and_a_sleep_of_its_code_is_not_cut_short(plain_stage: Stage) -> None:
    async with plain_stage.serving(sleeper) as client:
        run = await client.options(delay=3600).start(sleeper)
        assert await client.run_now(run.id)
        await asyncio.wait_for(run.reached(Status.WAITING), SOON)
        with pytest.raises(WrongState):
            await client.run_now(run.id)
        assert await run.status() is Status.WAITING


async def _failed(run: Handle[str]) -> None:
    """Return when a step of the run has been tried once more, and the run has parked."""
    async with asyncio.timeout(SOON):
        await CALLS[0].get()
        await run.reached(Status.WAITING)
