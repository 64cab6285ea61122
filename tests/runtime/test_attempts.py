"""Attempts: async ones in virtual time, sync ones in real threads that a test holds and lets go."""

from __future__ import annotations

import asyncio
import gc
import inspect
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest

from runnerq.errors import Cancelled, UsageError
from runnerq.runtime.attempts import Attempts
from runnerq.runtime.current import Current, current
from runnerq.runtime.results import Call, Interrupted, Raised, Result, Returned, Running, TimedOut
from runnerq.runtime.threads import Threads
from tests.runtime.virtual_time import in_virtual_time, settle, until

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


class Trial:
    """Attempts, and what they told."""

    def __init__(self, max_steps: int, max_threads: int) -> None:
        self.failures: list[BaseException] = []
        self.threads = Threads(max_threads)
        self.attempts = Attempts(self.threads, max_steps, self.failures.append, asyncio.get_running_loop())
        self.results: list[Result] = []
        self._told = asyncio.Event()

    def start(self, fn: Callable[..., Any], *args: Any, timeout: float | None = None, **kwargs: Any) -> Running:
        is_async = inspect.iscoroutinefunction(fn)
        now = Current(run_id="r", workflow="w", name=fn.__name__, entry="1", is_async=is_async)
        return self.begin(Call(fn, args, kwargs, is_async, timeout, now), self._tell)

    def begin(self, call: Call, ended: Callable[[Result], None]) -> Running:
        running = self.attempts.start(call, ended)
        asyncio.get_running_loop().call_soon(self.attempts.tell_ended)
        return running

    def _tell(self, result: Result) -> None:
        self.results.append(result)
        self._told.set()

    async def result(self) -> Result:
        """The one result so far, when it is there."""
        await self._told.wait()
        [result] = self.results
        return result


class Heard:
    """What a listener hears of attempts."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def began(self, call: Call) -> None:
        self.told.append("began")

    def ended(self, call: Call, result: Result) -> None:
        self.told.append(str(result))


@asynccontextmanager
async def trying(max_steps: int = 10, max_threads: int = 2) -> AsyncIterator[Trial]:
    trial = Trial(max_steps, max_threads)
    running = asyncio.create_task(trial.attempts.run())
    await asyncio.sleep(0)
    yield trial
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def add(a: int, b: int = 0) -> int:
    return a + b


def add_in_thread(a: int, b: int = 0) -> int:
    return a + b


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


async def takes(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "slow"


# --- async ------------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_an_async_attempt_answers_its_value() -> None:
    async with trying() as trial:
        trial.start(add, 1, b=2)
        assert trial.results == []
        assert await trial.result() == Returned(3)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), GeneratorExit(), MemoryError(), Cancelled("why")])
@in_virtual_time
async def test_whatever_an_async_function_raises_is_its_result(error: BaseException) -> None:
    async def broken() -> None:
        raise error

    async with trying() as trial:
        trial.start(broken)
        assert await trial.result() == Raised(error)
        assert trial.failures == []


@in_virtual_time
async def test_a_stop_iteration_out_of_a_coroutine_is_told_as_such() -> None:
    async def broken() -> None:
        next(iter(()))

    async with trying() as trial:
        trial.start(broken)
        result = await trial.result()
        assert isinstance(result, Raised)
        assert isinstance(result.error, StopIteration)


@in_virtual_time
async def test_a_cancelled_error_that_nobody_asked_for_is_a_failed_attempt() -> None:
    async def cancels_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    async with trying() as trial:
        trial.start(cancels_itself)
        result = await trial.result()
        assert isinstance(result, Raised)
        assert isinstance(result.error, asyncio.CancelledError)


@in_virtual_time
async def test_a_keyboard_interrupt_stops_the_worker_and_is_nobodys_result() -> None:
    async def interrupted() -> None:
        raise KeyboardInterrupt

    async with trying() as trial:
        trial.attempts.listener = heard = Heard()
        trial.start(interrupted)
        await settle()
        assert heard.told == ["began", "Raised(error=KeyboardInterrupt())"]
        assert trial.results == []
        assert [type(failure) for failure in trial.failures] == [KeyboardInterrupt]
        assert trial.attempts.stats.running == 0


@in_virtual_time
async def test_an_attempt_sees_its_current_and_nobody_else_does() -> None:
    async def look() -> str:
        await asyncio.sleep(0)
        return current().idempotency_key

    seen: list[str] = []

    def tell(result: Result) -> None:
        with pytest.raises(UsageError):
            current()
        seen.append(str(result))

    async with trying() as trial:
        now = Current(run_id="r", workflow="w", name="look", entry="1")
        trial.begin(Call(look, (), {}, True, None, now), tell)
        await settle()
        assert seen == [str(Returned("r:1:1:step:look"))]
        with pytest.raises(UsageError):
            current()


@in_virtual_time
async def test_each_attempt_has_a_fresh_copy_of_the_workers_context() -> None:
    async def look() -> str:
        seen = WHO.get()
        WHO.set("a step")
        return seen

    WHO.set("worker")
    async with trying() as trial:
        trial.start(look)
        trial.start(look)
        await settle()
        assert trial.results == [Returned("worker"), Returned("worker")]


@in_virtual_time
async def test_more_async_attempts_than_allowed_wait_in_order() -> None:
    begun: list[int] = []

    async def step(number: int) -> None:
        begun.append(number)
        await asyncio.sleep(1)

    async with trying(max_steps=2) as trial:
        for number in range(5):
            trial.start(step, number)
        await settle()
        assert begun == [0, 1]
        assert (trial.attempts.stats.running, trial.attempts.stats.waiting) == (2, 3)
        await asyncio.sleep(1.5)
        assert begun == [0, 1, 2, 3]


@in_virtual_time
async def test_an_async_attempt_past_its_timeout_is_timed_out() -> None:
    async with trying() as trial:
        trial.start(takes, 10, timeout=2)
        assert await trial.result() == TimedOut()
        assert asyncio.get_running_loop().time() == pytest.approx(2)


@in_virtual_time
async def test_an_attempt_that_ends_in_time_is_not_timed_out_later() -> None:
    async with trying() as trial:
        trial.start(takes, 1, timeout=2)
        await asyncio.sleep(60)
        assert trial.results == [Returned("slow")]


@in_virtual_time
async def test_the_timeout_does_not_count_the_wait_for_a_place() -> None:
    async with trying(max_steps=1) as trial:
        trial.start(takes, 10)
        trial.start(takes, 1, timeout=2)
        await asyncio.sleep(12)
        assert trial.results == [Returned("slow"), Returned("slow")]


@in_virtual_time
async def test_what_an_attempt_returns_after_its_timeout_changes_nothing() -> None:
    async def saved() -> str:
        try:
            await for_ever()
        except asyncio.CancelledError:
            return "too late"
        return ""

    async with trying() as trial:
        trial.start(saved, timeout=1)
        assert await trial.result() == TimedOut()


@in_virtual_time
async def test_a_cancelled_async_attempt_is_interrupted() -> None:
    async with trying() as trial:
        running = trial.start(for_ever, timeout=100)
        await settle()
        running.cancel()
        running.cancel()
        assert trial.results == []
        assert await trial.result() == Interrupted()


@in_virtual_time
async def test_an_answer_that_a_cancelled_attempt_still_gives_counts() -> None:
    async def saved() -> str:
        try:
            await for_ever()
        except asyncio.CancelledError:
            await asyncio.sleep(5)
            return "booked"
        return ""

    async with trying() as trial:
        running = trial.start(saved)
        await settle()
        running.cancel()
        assert await trial.result() == Returned("booked")


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="there it has its first turn within start")
@in_virtual_time
async def test_an_attempt_that_is_cancelled_before_its_first_turn_runs_nothing() -> None:
    ran = []

    async def step() -> None:
        ran.append(1)

    async with trying() as trial:
        trial.start(step).cancel()
        assert trial.results == []
        await settle()
        assert (trial.results, ran) == ([Interrupted()], [])
        assert trial.attempts.stats.running == 0


@in_virtual_time
async def test_an_attempt_that_is_cancelled_while_it_waits_for_a_place_runs_nothing() -> None:
    ran = []

    async def first() -> None:
        await asyncio.Event().wait()

    async def second() -> None:
        ran.append(2)

    async with trying(max_steps=1) as trial:
        begun = trial.start(first)
        waiting = trial.start(second)
        begun.cancel()
        waiting.cancel()
        assert trial.results == []
        await settle()
        assert (trial.results, ran) == ([Interrupted(), Interrupted()], [])
        assert (trial.attempts.stats.running, trial.attempts.stats.waiting) == (0, 0)


@in_virtual_time
async def test_a_result_is_never_told_from_within_the_start_of_its_attempt() -> None:
    async with trying() as trial:
        trial.start(add, 1)
        assert trial.results == []
        assert await trial.result() == Returned(1)


@in_virtual_time
async def test_an_attempt_that_cancels_itself_before_its_first_wait_is_cut_off_there() -> None:
    begun: list[Running] = []

    async def cancels_itself() -> None:
        await asyncio.sleep(0)
        begun[0].cancel()
        await asyncio.Event().wait()

    async with trying() as trial:
        begun.append(trial.start(cancels_itself))
        assert await trial.result() == Interrupted()


@in_virtual_time
async def test_thousands_of_attempts_that_wait_for_one_place_end_one_after_another() -> None:
    async def first() -> None:
        await asyncio.sleep(1)

    async with trying(max_steps=1) as trial:
        trial.start(first)
        for nth in range(3000):
            trial.start(add, nth)
        await asyncio.sleep(2)
        await settle()
        assert trial.results == [Returned(None), *map(Returned, range(3000))]


@in_virtual_time
async def test_attempts_are_told_where_the_loop_makes_every_task_eager() -> None:
    if sys.version_info < (3, 12):
        pytest.skip("eager tasks came with Python 3.12")
    loop = asyncio.get_running_loop()
    loop.set_task_factory(asyncio.eager_task_factory)
    async with trying() as trial:
        trial.start(add, 1)
        assert await trial.result() == Returned(1)


@in_virtual_time
async def test_an_attempt_that_ignores_its_cancel_is_given_up_after_ten_seconds_and_keeps_its_place() -> None:
    let_go = asyncio.Event()

    async def stubborn() -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    async with trying(max_steps=1) as trial:
        running = trial.start(stubborn)
        trial.start(add, 1)
        await settle()
        running.cancel()
        assert await trial.result() == Interrupted()
        assert asyncio.get_running_loop().time() == pytest.approx(10)
        assert (trial.attempts.stats.stuck, trial.attempts.stats.late) == (1, 0)
        let_go.set()
        await settle()
        assert trial.results == [Interrupted(), Returned(1)]
        assert (trial.attempts.stats.stuck, trial.attempts.stats.late) == (0, 1)


@in_virtual_time
async def test_ending_interrupts_what_runs_and_what_waits_and_leaves_the_stubborn_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    let_go = asyncio.Event()

    async def stubborn() -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    trial = Trial(max_steps=2, max_threads=1)
    ending = asyncio.create_task(trial.attempts.run())
    for step in (stubborn, for_ever, add):
        trial.start(step)
    await settle()
    ending.cancel()
    await asyncio.wait([ending])
    await settle()
    assert ending.cancelled()
    assert trial.results == [Interrupted()] * 3
    assert "left behind" in caplog.text
    let_go.set()
    await settle()
    assert len(trial.results) == 3


@in_virtual_time
async def test_a_callback_that_raises_is_reported_and_the_others_go_on() -> None:
    def broken(_: Result) -> None:
        raise ValueError("a bug")

    async with trying() as trial:
        now = Current(run_id="r", workflow="w", name="add", entry="1")
        trial.begin(Call(add, (1,), {}, True, None, now), broken)
        trial.start(add, 2)
        assert await trial.result() == Returned(2)
        assert [type(failure) for failure in trial.failures] == [ValueError]
        assert trial.attempts.stats.running == 0


@in_virtual_time
async def test_an_attempt_may_be_started_from_the_end_of_another() -> None:
    async with trying(max_steps=1) as trial:
        now = Current(run_id="r", workflow="w", name="add", entry="1")
        trial.begin(Call(add, (1,), {}, True, None, now), lambda _: trial.start(add, 2))
        assert await trial.result() == Returned(2)


# --- sync -------------------------------------------------------------------------------------------------------------


class Gate:
    """Where a sync step waits for the test."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._open = threading.Event()
        self.reached = asyncio.Event()

    def wait(self) -> None:
        self._loop.call_soon_threadsafe(self.reached.set)
        self._open.wait(30)

    def open(self) -> None:
        self._open.set()


async def test_a_sync_attempt_runs_in_a_thread_and_answers_its_value() -> None:
    async with trying() as trial:
        trial.start(add_in_thread, 1, b=2)
        assert trial.results == []
        assert await trial.result() == Returned(3)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), StopIteration(), GeneratorExit(), Cancelled()])
async def test_whatever_a_sync_function_raises_is_its_result(error: BaseException) -> None:
    def broken() -> None:
        raise error

    async with trying() as trial:
        trial.start(broken)
        assert await trial.result() == Raised(error)
        assert trial.failures == []


async def test_a_keyboard_interrupt_in_a_thread_stops_the_worker() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    async with trying() as trial:
        trial.attempts.listener = heard = Heard()
        trial.start(interrupted)
        await until(lambda: bool(trial.failures))
        assert heard.told == ["began", "Raised(error=KeyboardInterrupt())"]
        assert isinstance(trial.failures[0], KeyboardInterrupt)
        assert trial.results == []


async def test_a_sync_attempt_sees_its_current() -> None:
    def look() -> str:
        return current().name

    async with trying() as trial:
        trial.start(look)
        assert await trial.result() == Returned("look")


async def test_a_sync_attempt_past_its_timeout_is_timed_out_at_once_and_keeps_its_thread() -> None:
    gate = Gate()
    heard: list[object] = []

    def slow() -> None:
        gate.wait()
        try:
            current().heartbeat()
        except Cancelled as cancelled:
            heard.append(cancelled.reason)

    async with trying(max_threads=1) as trial:
        trial.start(slow, timeout=0.01)
        assert await trial.result() == TimedOut()
        stats = trial.attempts.stats
        assert (stats.threads, stats.stuck, stats.late) == (1, 1, 0)
        gate.open()
        await until(lambda: trial.attempts.stats.late == 1)
        assert heard == ["timeout"]
        assert trial.results == [TimedOut()]
        assert trial.attempts.stats.stuck == 0


async def test_the_timeout_of_a_sync_attempt_does_not_count_the_wait_for_a_thread() -> None:
    gate = Gate()
    async with trying(max_threads=1) as trial:
        trial.start(gate.wait)
        await gate.reached.wait()
        trial.start(add_in_thread, 1, timeout=5)
        loop = asyncio.get_running_loop()
        loop.call_later(0, gate.open)
        await until(lambda: len(trial.results) == 2)
        assert trial.results == [Returned(None), Returned(1)]


async def test_a_cancelled_sync_attempt_hears_of_it_from_its_heartbeat() -> None:
    gate = Gate()

    def beats() -> None:
        now = current()
        now.heartbeat({"row": 1})
        gate.wait()
        assert now.cancelled
        now.heartbeat({"row": 2})

    async with trying() as trial:
        running = trial.start(beats)
        await gate.reached.wait()
        running.cancel("not wanted")
        assert trial.results == []
        gate.open()
        assert await trial.result() == Interrupted()


async def test_a_cancelled_sync_attempt_that_does_not_listen_is_waited_for() -> None:
    gate = Gate()

    def deaf() -> str:
        gate.wait()
        return "booked"

    async with trying() as trial:
        running = trial.start(deaf)
        await gate.reached.wait()
        running.cancel()
        gate.open()
        assert await trial.result() == Returned("booked")


async def test_a_cancelled_sync_attempt_still_times_out() -> None:
    gate = Gate()
    async with trying() as trial:
        running = trial.start(gate.wait, timeout=0.05)
        await gate.reached.wait()
        running.cancel()
        assert await trial.result() == TimedOut()
        gate.open()


async def test_a_sync_attempt_that_is_cancelled_before_it_has_a_thread_never_runs() -> None:
    gate = Gate()
    async with trying(max_threads=1) as trial:
        trial.start(gate.wait)
        await gate.reached.wait()
        waiting = trial.start(add_in_thread, 1)
        waiting.cancel()
        assert trial.results == []
        assert await trial.result() == Interrupted()
        gate.open()
        await until(lambda: len(trial.results) == 2)
        assert trial.results == [Interrupted(), Returned(None)]


def test_what_a_dead_event_loop_leaves_behind_is_nobodys_result() -> None:
    results: list[Result] = []

    async def leave_one_running() -> None:
        trial = Trial(max_steps=1, max_threads=1)
        trial.results = results
        trial.start(for_ever)
        await settle()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave_one_running())
    loop.close()
    gc.collect()
    assert results == []


@in_virtual_time
async def test_cancelling_an_attempt_that_has_ended_changes_nothing() -> None:
    async with trying() as trial:
        running = trial.start(add, 1)
        await settle()
        running.cancel()
        await asyncio.sleep(60)
        assert trial.results == [Returned(1)]
        assert trial.attempts.stats.stuck == 0
