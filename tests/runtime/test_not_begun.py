"""Attempts that are never begun: the worker stops, or may have lost its lease."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import pytest

from runnerq.persistence.records import Status
from runnerq.runtime.attempts import Attempts
from runnerq.runtime.current import Current
from runnerq.runtime.results import Call, NotBegun, Result, Returned
from runnerq.runtime.threads import Threads
from runnerq.workflow.declare import activity
from tests.runtime.stage import SOON, HeartClock, Stage, Tapped
from tests.runtime.virtual_time import in_virtual_time, settle


def call(fn: Any, *args: Any, timeout: float | None = None) -> Call:
    is_async = inspect.iscoroutinefunction(fn)
    now = Current(run_id="r", workflow="w", name=fn.__name__, entry="1", is_async=is_async)
    return Call(fn, args, {}, is_async, timeout, now)


def attempts_of(max_steps: int = 10, may_begin: Any = lambda: True, surely: Any = lambda: True) -> Attempts:
    return Attempts(Threads(1), max_steps, pytest.fail, asyncio.get_running_loop(), may_begin, surely)


@in_virtual_time
async def test_what_waits_for_a_place_when_it_stops_is_told_so_and_never_begins() -> None:
    attempts = attempts_of(max_steps=1)
    gate, ran = asyncio.Event(), []

    async def work(number: int) -> int:
        ran.append(number)
        await gate.wait()
        return number

    results: list[list[Result]] = [[], [], []]
    for number, result in enumerate(results):
        attempts.start(call(work, number), result.append)
    await settle()
    attempts.stop()
    assert results[1] == [], "not from within the call"
    await settle()
    assert [type(result) for [result] in results[1:]] == [NotBegun, NotBegun]
    gate.set()
    await settle()
    assert results[0] == [Returned(0)]
    assert ran == [0]


async def test_what_waits_for_a_thread_when_it_stops_is_told_so_and_may_be_cancelled_all_the_same() -> None:
    attempts = attempts_of()
    release, results = threading.Event(), []
    over = asyncio.Event()

    def work() -> str:
        release.wait(20)
        return "done"

    attempts.start(call(work), lambda _: over.set())
    waiting = [attempts.start(call(work), results.append) for _ in range(2)]
    attempts.stop()
    waiting[1].cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    assert sorted(type(result).__name__ for result in results) == ["Interrupted", "NotBegun"]
    release.set()
    async with asyncio.timeout(20):
        await over.wait()
    assert attempts.stats.waiting == attempts.stats.stuck == 0


@in_virtual_time
async def test_nothing_is_begun_that_may_not_begin_and_that_is_told_after_whoever_said_so() -> None:
    order: list[str] = []

    def may_not() -> bool:
        asyncio.get_running_loop().call_soon(order.append, "fenced")
        return False

    async def work() -> None:
        order.append("ran")

    attempts = attempts_of(may_begin=may_not)
    attempts.start(call(work, timeout=1), lambda result: order.append(type(result).__name__))
    await settle()
    assert order == ["fenced", "NotBegun"]
    assert attempts.stats.running == 0


async def test_a_function_is_not_called_in_a_thread_where_it_may_not_begin_any_more() -> None:
    asked, ran, told = [], [], []
    over = asyncio.Event()

    def may_not() -> bool:
        asked.append(threading.get_ident())
        return False

    def work() -> None:
        ran.append(1)

    def ended(result: Result) -> None:
        told.append(result)
        over.set()

    attempts_of(may_begin=may_not).start(call(work, timeout=1), ended)
    async with asyncio.timeout(20):
        await over.wait()
    assert [type(result) for result in told] == [NotBegun]
    assert ran == []
    # Right before the call, and not when its thread is found.
    assert asked != [threading.get_ident()]


async def test_a_thread_in_which_a_lease_is_found_gone_fences_its_worker_and_burns_no_attempt(memory: Stage) -> None:
    """The event loop is in debug mode, where it refuses to be told anything from another thread but in one way."""
    hearts = HeartClock()

    @activity(retry=1)
    def first() -> None:
        # The process stands still, long enough for another worker to have taken everything.
        hearts.ahead = 3600

    @activity(retry=1)
    def second() -> str:
        return "done"

    tapped = Tapped(memory.storage)
    stage = memory.on(tapped)
    asyncio.get_running_loop().set_debug(True)
    runs = [await stage.client.start(each) for each in (first, second)]
    async with stage.worker(first, second, max_threads=1, beat=60, surroundings=hearts.surroundings) as worker:
        before = worker.worker_id
        assert await stage.client.handle(runs[1].id).result(timeout=SOON) == "done"
        assert worker.worker_id != before
    assert not any(turn.attempts for turn in tapped.turns)
    assert await runs[1].status() is Status.COMPLETED


@in_virtual_time
async def test_what_is_not_sure_waits_in_order_until_it_is() -> None:
    sure, ran = [False], []

    async def work(number: int) -> int:
        ran.append(number)
        return number

    results: list[Result] = []
    attempts = attempts_of(surely=lambda: sure[0])
    for number in range(3):
        attempts.start(call(work, number, timeout=1), results.append)
    attempts.resume()
    await asyncio.sleep(10)
    assert ran == []
    assert results == [], "its timeout does not count before it begins"
    sure[0] = True
    attempts.resume()
    await settle()
    assert results == [Returned(0), Returned(1), Returned(2)]


async def test_in_a_thread_a_function_is_called_once_it_is_sure_and_never_if_it_may_not_begin_meanwhile() -> None:
    asked = threading.Event()
    sure, may_begin = [False], [True]

    def surely() -> bool:
        asked.set()
        return sure[0]

    def work() -> str:
        return "done"

    attempts = attempts_of(may_begin=lambda: may_begin[0], surely=surely)
    results: asyncio.Queue[Result] = asyncio.Queue()
    for becomes, told in ((sure, Returned("done")), (may_begin, NotBegun())):
        asked.clear()
        sure[0] = False
        attempts.start(call(work), results.put_nowait)
        await asyncio.to_thread(asked.wait, SOON)
        assert results.empty()
        becomes[0] = not becomes[0]
        async with asyncio.timeout(SOON):
            assert await results.get() == told
