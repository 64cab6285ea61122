"""When all is at rest, and what may still come by itself."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import anyio.to_thread
import pytest

from runnerq.errors import ConfigurationError
from runnerq.testing import Environment
from runnerq.testing.quiet import SOON, at_rest, busy_threads, check_loop, may_come, next_timer
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow


class Foreign:
    """Some event loop that keeps to itself what it is about to do."""


def test_another_loop_is_refused_with_what_to_do() -> None:
    with pytest.raises(ConfigurationError, match="not Foreign: run these tests without uvloop"):
        check_loop(Foreign())


async def test_rest_is_when_a_chain_of_callbacks_has_come_to_its_end() -> None:
    loop = asyncio.get_running_loop()
    check_loop(loop)
    steps: list[int] = []

    def step(left: int) -> None:
        steps.append(left)
        if left:
            loop.call_soon(step, left - 1)

    loop.call_soon(step, 100)
    await at_rest(loop)
    assert steps[-1] == 0


@pytest.fixture
def elsewhere() -> frozenset[int]:
    """What other tests have left behind."""
    return busy_threads()


async def test_a_timer_that_is_due_soon_may_come_and_a_guard_further_off_may_not(elsewhere: frozenset[int]) -> None:
    loop = asyncio.get_running_loop()
    assert not may_come(loop, elsewhere)
    guard = loop.call_later(1000 * SOON, lambda: None)
    assert not may_come(loop, elsewhere)
    soon = loop.call_later(1, lambda: None)
    assert may_come(loop, elsewhere)
    assert next_timer(loop) == soon.when()
    soon.cancel()
    assert not may_come(loop, elsewhere)
    guard.cancel()


async def test_a_watched_socket_may_bring_something(elsewhere: frozenset[int]) -> None:
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        loop.add_reader(ours, lambda: None)
        assert may_come(loop, elsewhere)
        loop.remove_reader(ours)
        assert not may_come(loop, elsewhere)


@asynccontextmanager
async def _held_in(how: str) -> AsyncIterator[None]:
    """Inside, a thread of this kind works."""
    entered, let_go = threading.Event(), threading.Event()

    def work() -> None:
        entered.set()
        let_go.wait()

    loop = asyncio.get_running_loop()
    working: asyncio.Future[None]
    if how == "asyncio":
        working = asyncio.ensure_future(asyncio.to_thread(work))
    elif how == "anyio":
        working = asyncio.ensure_future(anyio.to_thread.run_sync(work))
    else:
        working = loop.run_in_executor(ThreadPoolExecutor(1), work)
    while not entered.is_set():
        await asyncio.sleep(0)
    try:
        yield
    finally:
        let_go.set()
        await working


@pytest.mark.parametrize("how", ["asyncio", "anyio", "a pool"])
async def test_a_thread_that_was_given_something_may_bring_it_and_one_that_rests_will_not(
    how: str, elsewhere: frozenset[int]
) -> None:
    loop = asyncio.get_running_loop()
    async with _held_in(how):
        assert may_come(loop, elsewhere)
    # The thread tells the loop before it goes to rest; nothing tells of that.
    while may_come(loop, elsewhere):
        await asyncio.sleep(0)


@activity
def in_a_thread(number: int) -> int:
    return number


@workflow
def many_threads(ctx: Context) -> Flow[str]:
    for _ in range(20):
        yield ctx.gather([ctx.step(in_a_thread, number) for number in range(20)])
    return "done"


async def test_threads_that_call_the_loop_while_it_is_looked_at_stop_nothing() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(8):
            async with Environment(workflows=[many_threads]) as env, asyncio.timeout(20):
                assert await (await env.start(many_threads)).result() == "done"
    finally:
        sys.setswitchinterval(interval)
