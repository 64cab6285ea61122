"""Children that end or go on with their parent's branch, without a row of their own: as retry and fork see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runnerq.errors import Cancelled, RunFailed
from runnerq.testing import Environment
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow

REPAIRED: list[bool] = []
DONE: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    REPAIRED.clear()
    DONE.clear()


@activity(retry=1)
async def note(what: str) -> str:
    DONE.append(what)
    return what


@activity(retry=1)
async def fragile() -> None:
    if not REPAIRED:
        raise ValueError("broken")


@workflow
def child(ctx: Context) -> Flow[str]:
    yield from ctx.step(note, "the child began")
    yield from ctx.sleep(10)
    return "the child"


@workflow
def between(ctx: Context) -> Flow[str]:
    return (yield from ctx.child(child))


def waits(ctx: Context) -> Flow[str]:
    return (yield from ctx.child(child))


def fails_soon(ctx: Context) -> Flow[None]:
    yield from ctx.sleep(1)
    yield from ctx.step(fragile)


def cleans_up(ctx: Context) -> Flow[str]:
    try:
        return (yield from ctx.child(child))
    finally:
        yield from ctx.step(note, "clean")


@workflow
def in_a_branch(ctx: Context) -> Flow[Any]:
    return (yield from ctx.all(waits(ctx), fails_soon(ctx)))


@workflow
def in_a_branch_that_cleans_up(ctx: Context) -> Flow[Any]:
    return (yield from ctx.all(cleans_up(ctx), fails_soon(ctx)))


@workflow
def a_grandchild(ctx: Context) -> Flow[Any]:
    return (yield from ctx.all(ctx.child(between), fails_soon(ctx)))


@workflow
def spawned(ctx: Context) -> Flow[Any]:
    handle = yield from ctx.spawn(child)
    yield from ctx.sleep(1)
    yield from ctx.step(fragile)
    return (yield from handle.result())


@pytest.mark.parametrize(
    "parent", [in_a_branch, in_a_branch_that_cleans_up, a_grandchild, spawned], ids=lambda fn: fn.__name__
)
async def test_a_retry_opens_the_children_that_the_failure_cancelled(parent: Callable[..., Any]) -> None:
    async with Environment(workflows=[parent, child, between]) as env:
        run = await env.start(parent)
        with pytest.raises(RunFailed):
            await run.result()
        REPAIRED.append(True)
        assert await env.retry(run.id)
        assert "the child" in str(await run.result())
    assert DONE.count("the child began") == 1


@workflow
def loses_a_branch(ctx: Context) -> Flow[int]:
    won = yield from ctx.race(waits(ctx), ctx.sleep(1))
    yield from ctx.step(note, "last")
    return won.index


@workflow
def gives_up(ctx: Context) -> Flow[int]:
    try:
        yield from ctx.child(child)
    except Cancelled:
        yield from ctx.step(note, "last")
    return 1


@pytest.mark.parametrize("parent", [loses_a_branch, gives_up], ids=lambda fn: fn.__name__)
async def test_a_fork_starts_no_child_that_was_given_up_before_its_entry(parent: Callable[..., Any]) -> None:
    async with Environment(workflows=[parent, child]) as env:
        run = await env.start(parent)
        if parent is gives_up:
            await run.reached("waiting")
            await run.cancel()
        await run.result()
        [last] = [entry.position for entry in await run.history() if entry.value == "last"]
        DONE.clear()
        forked = await env.fork(run.id, from_entry=last)
        assert await forked.result() == 1
        assert DONE == ["last"]
