"""A child may be waited for as often as the workflow likes; histories show composites and closed branches."""

from __future__ import annotations

import pytest

from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Stage


@activity
async def double(number: int) -> int:
    return number * 2


@activity(retry=1)
async def refuse() -> int:
    raise ValueError("no")


@workflow
def twice(ctx: Context) -> Flow[list[int]]:
    child = yield from ctx.spawn(double, 3)
    first = yield from child.result()
    second = yield from child.result()
    third, fourth = yield from ctx.all(child.result(), child.result())
    return [first, second, third, fourth]


def slow(ctx: Context) -> Flow[int]:
    number = yield from ctx.step(double, 1)
    yield from ctx.sleep(3600)
    return number


@workflow
def decided_by_an_error(ctx: Context) -> Flow[str]:
    try:
        yield from ctx.all(slow(ctx), ctx.step(refuse))
    except ValueError as error:
        return str(error)
    return "nothing"


async def test_a_child_is_waited_for_again_and_again(stage: Stage) -> None:
    assert await stage.answer(twice, serving=[double]) == [6, 6, 6, 6]


async def test_history_shows_a_composite_that_failed_and_what_it_closed(stage: Stage) -> None:
    async with stage.serving(decided_by_an_error, double, refuse) as client:
        run = await client.start(decided_by_an_error)
        assert await run.result(timeout=SOON) == "no"
        entries = {entry.position: entry for entry in await run.history() if entry.position}
    assert (entries["1"].kind, entries["1"].state, entries["1"].value) == ("all", "failed", 1)
    assert entries["1.1"].error is not None
    assert entries["1.1"].error.message == "no"
    assert entries["1.0.1"].state == "answered"


@pytest.mark.parametrize("level", ["WARNING", "ERROR"])
async def test_what_fails_is_in_the_workers_log(stage: Stage, caplog: pytest.LogCaptureFixture, level: str) -> None:
    @activity(retry=2)
    async def break_down() -> None:
        raise ValueError("out of stock")

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield from ctx.options(retry=2).step(break_down)

    async with stage.serving(order, break_down) as client:
        run = await client.start(order)
        await run.reached("dead_letter", timeout=SOON)
    said = [record.getMessage() for record in caplog.records if record.levelname == level]
    assert any("break_down" in text and "out of stock" in text for text in said)
