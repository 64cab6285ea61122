"""Attempts that are never begun: the worker stops, or may have lost its lease."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from runnerq.runtime.attempts import Attempts
from runnerq.runtime.current import Current
from runnerq.runtime.results import Call, NotBegun, Result, Returned
from runnerq.runtime.threads import Threads
from tests.runtime.virtual_time import in_virtual_time, settle


def call(fn: Any, *args: Any, timeout: float | None = None) -> Call:
    is_async = asyncio.iscoroutinefunction(fn)
    now = Current(run_id="r", workflow="w", name=fn.__name__, entry="1", is_async=is_async)
    return Call(fn, args, {}, is_async, timeout, now)


def attempts_of(max_steps: int = 10, may_begin: Any = lambda: True) -> Attempts:
    return Attempts(Threads(1), max_steps, pytest.fail, asyncio.get_running_loop(), may_begin)


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
