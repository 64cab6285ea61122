"""Threads, for real: a test holds a call with an event and lets it go."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import TypeVar

import pytest
import pytest_asyncio

from runnerq.runtime.threads import IDLE, Threads
from tests.runtime.virtual_time import until

T = TypeVar("T")

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


class Held:
    """A function that returns when the test says so; ``began`` is set on the event loop."""

    def __init__(self, answer: object = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._go = threading.Event()
        self._answer = answer
        self.began = asyncio.Event()
        self.ran = False

    def __call__(self) -> object:
        self.ran = True
        self._loop.call_soon_threadsafe(self.began.set)
        self._go.wait(30)
        return self._answer

    def let_go(self) -> None:
        self._go.set()


async def call(threads: Threads, fn: Callable[[], T]) -> T:
    """What ``fn`` does in a thread; whoever is cancelled here gives it up."""
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def ended(value: T, error: BaseException | None) -> None:
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)

    lent = threads.start(fn, ended)
    try:
        return await answer
    except asyncio.CancelledError:
        lent.abandon()
        raise


@pytest_asyncio.fixture
async def make() -> AsyncIterator[Callable[[int], Threads]]:
    made: list[Threads] = []

    def threads(limit: int) -> Threads:
        made.append(Threads(limit))
        return made[-1]

    yield threads
    for each in made:
        each.close()


async def test_a_call_answers_what_the_function_returns(make: Callable[[int], Threads]) -> None:
    threads = make(1)
    assert await call(threads, threading.current_thread) is not threading.current_thread()


async def test_a_call_raises_what_the_function_raises(make: Callable[[int], Threads]) -> None:
    def broken() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await call(make(1), broken)


async def test_the_function_sees_the_callers_contextvars_and_changes_only_its_copy(
    make: Callable[[int], Threads],
) -> None:
    WHO.set("caller")

    def look() -> str:
        seen = WHO.get()
        WHO.set("thread")
        return seen

    threads = make(1)
    assert await call(threads, look) == "caller"
    assert await call(threads, look) == "caller"
    assert WHO.get() == "caller"


async def test_an_idle_thread_is_used_again(make: Callable[[int], Threads]) -> None:
    threads = make(5)
    first = await call(threads, threading.get_ident)
    assert await call(threads, threading.get_ident) == first


async def test_more_calls_than_the_limit_wait_in_order(make: Callable[[int], Threads]) -> None:
    threads = make(1)
    held = Held()
    order: list[str] = []
    first = asyncio.create_task(call(threads, held))
    await held.began.wait()
    others = [asyncio.create_task(call(threads, lambda name=name: order.append(name))) for name in "abc"]
    await until(lambda: threads.waiting == 3)
    assert threads.busy == 1
    held.let_go()
    await asyncio.gather(first, *others)
    assert order == ["a", "b", "c"]
    assert threads.busy == 0


async def test_a_call_that_is_given_up_goes_on_counts_as_stuck_and_its_late_return_is_ignored(
    make: Callable[[int], Threads],
) -> None:
    threads = make(1)
    held = Held("late")
    calling = asyncio.create_task(call(threads, held))
    await held.began.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    waiting = asyncio.create_task(call(threads, lambda: "next"))
    await until(lambda: threads.waiting == 1)
    assert (threads.busy, threads.stuck, threads.late) == (1, 1, 0)
    held.let_go()
    assert await waiting == "next"
    assert (threads.busy, threads.stuck, threads.late) == (0, 0, 1)


async def test_a_waiting_call_that_is_given_up_never_runs(make: Callable[[int], Threads]) -> None:
    threads = make(1)
    held, never = Held(), Held()
    first = asyncio.create_task(call(threads, held))
    await held.began.wait()
    second = asyncio.create_task(call(threads, never))
    await until(lambda: threads.waiting == 1)
    second.cancel()
    await asyncio.wait([second])
    held.let_go()
    await first
    assert await call(threads, lambda: "after") == "after"
    assert not never.ran
    assert (threads.stuck, threads.late) == (0, 0)


async def test_ended_is_not_told_from_within_start(make: Callable[[int], Threads]) -> None:
    told = asyncio.Event()
    threads = make(1)
    threads.start(lambda: None, lambda value, error: told.set())
    assert not told.is_set()
    await told.wait()


async def test_threads_that_were_idle_for_long_end(make: Callable[[int], Threads], monkeypatch) -> None:
    threads = make(2)
    thread = await call(threads, threading.current_thread)
    loop = asyncio.get_running_loop()
    later = loop.time() + IDLE + 1
    monkeypatch.setattr(loop, "time", lambda: later)
    await until(lambda: not thread.is_alive())
    monkeypatch.undo()
    assert await call(threads, threading.current_thread) is not thread


async def test_closing_ends_idle_threads_now_and_busy_ones_when_they_return(make: Callable[[int], Threads]) -> None:
    before = set(threading.enumerate())
    threads = make(2)
    held = Held()
    busy = asyncio.create_task(call(threads, held))
    await held.began.wait()
    idle = await call(threads, threading.current_thread)
    threads.close()
    await until(lambda: not idle.is_alive())
    held.let_go()
    await busy
    await until(lambda: set(threading.enumerate()) <= before)


def test_a_stuck_thread_does_not_hold_up_exit() -> None:
    program = """
import asyncio, threading
from runnerq.runtime.threads import Threads

async def main():
    stuck = asyncio.Event()
    loop = asyncio.get_running_loop()
    def never():
        loop.call_soon_threadsafe(stuck.set)
        threading.Event().wait()
    lent = Threads(1).start(never, lambda value, error: None)
    await stuck.wait()
    lent.abandon()

asyncio.run(main())
print("left")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "left\n", "")


async def test_a_call_fails_if_the_system_gives_no_more_threads(make: Callable[[int], Threads], monkeypatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = make(1)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        await call(threads, lambda: None)
    monkeypatch.undo()
    assert await call(threads, lambda: "again") == "again"
