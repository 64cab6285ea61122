"""Runs attempts of steps and activities: one call of a user's function each, to its one result.

Rules
- ``ended`` is told exactly once an attempt, on the event loop, never from within ``start`` or ``cancel``. Nothing that
  a function raises gets past here.
- From Python 3.12 on an async function runs up to its first wait within ``start``, while all it needs is in the
  processor's cache (18 of 128 µs a step); one that ends there is told by ``tell_ended``, when the caller is ready.
- At most ``max_steps`` async attempts run at once, and ``Threads`` bounds the sync ones; more wait in order. The
  timeout counts from when an attempt begins.
- A timeout or a cancel reaches an async function as asyncio.CancelledError. It has GRACE seconds to clean up; then it
  is given up: its result is told without it, it keeps its place while it lasts, and its late return is only counted.
  What it does after its timeout changes nothing; after a cancel, an answer of its own is its result.
- A sync function cannot be stopped. Past its timeout it is TimedOut at once, and its thread is on its own; after a
  cancel it is waited for, and hears of it from ``heartbeat``.
- Nothing is begun where ``may_begin`` says no, which is asked right before a function is called, in threads too. It is
  told as NotBegun, and not before what ``may_begin`` has brought about with ``call_soon_threadsafe``.
- Nothing is begun while ``surely`` says no: it waits, and ``resume`` says that it may be asked again.
- An asyncio.CancelledError that nobody here asked for, SystemExit, GeneratorExit and StopIteration are results like any
  other exception. A KeyboardInterrupt is none: ``fail`` is told, and ``ended`` never is.
- The tasks are held here and not in a TaskGroup: one that refuses to end must not hold up the others' end, and the
  group's own bookkeeping costs almost as much again as the task (3.7 µs on top of 5.1).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from runnerq.errors import Cancelled
from runnerq.runtime.callbacks import Fail, log, of_run, report
from runnerq.runtime.coroutines import task_of, unwrapped
from runnerq.runtime.deadlines import Deadlines
from runnerq.runtime.results import (
    INTERRUPTED,
    NOT_BEGUN,
    TIMED_OUT,
    AttemptListener,
    AttemptStats,
    Call,
    Ended,
    Interrupted,
    Raised,
    Result,
    Returned,
    Running,
    TimedOut,
)
from runnerq.runtime.threads import Lent, NeverBegan, Threads
from runnerq.runtime.timers import Timers
from runnerq.runtime.under_way import InTask, InThread
from runnerq.telemetry.here import HERE

UNSURE = 0.05
"""Seconds after which a thread asks again whether its worker surely has the run."""
GRACE = 10.0
"""Seconds that an async function has to end after a timeout or a cancel."""


class Attempts:
    """Starts attempts. Made on the event loop that it works for, in the context its attempts get a copy of.

    ``listener`` is told of each, where somebody listens.
    """

    listener: AttemptListener | None = None

    def __init__(
        self,
        threads: Threads,
        max_steps: int,
        fail: Fail,
        timers: Timers,
        may_begin: Callable[[], bool] = lambda: True,
        surely: Callable[[], bool] = lambda: True,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._timers = timers
        self._context = copy_context()
        self._threads = threads
        self._max_steps = max_steps
        self._fail = fail
        self._may_begin = may_begin
        self._surely = surely
        self._open: dict[InTask, asyncio.Task[None] | None] = {}
        self._waiting: deque[InTask] = deque()
        self._starting = False
        self._filling = False
        self._ended: deque[tuple[InTask, Result]] = deque()
        self.deadlines: Deadlines[InTask | InThread] = Deadlines(self._timers, _timed_out)
        self._stuck = 0
        self._late = 0

    @property
    def stats(self) -> AttemptStats:
        return AttemptStats(
            running=len(self._open) + self._threads.busy,
            waiting=len(self._waiting) + self._threads.waiting,
            threads=self._threads.busy,
            stuck=self._stuck + self._threads.stuck,
            late=self._late + self._threads.late,
        )

    def start(self, call: Call, ended: Ended) -> Running:
        """Begin an attempt, or have it wait for a place. Call ``tell_ended`` once its result may come."""
        if not call.is_async:
            return InThread(self, call, ended)
        attempt = InTask(self, call, ended)
        if len(self._open) < self._max_steps and self._surely():
            self._starting = True
            self._begin(attempt)
            self._starting = False
        else:
            self._waiting.append(attempt)
        return attempt

    def tell_ended(self) -> None:
        """Tell the results of those that ended within their ``start``."""
        ended = self._ended
        while ended:
            self.tell(*ended.popleft())

    def resume(self) -> None:
        """Begin those that waited to be sure."""
        if self._waiting:
            self._fill()

    def stop(self) -> None:
        """Begin none of those that wait for a place: each is told as NotBegun."""
        waiting, self._waiting = self._waiting, deque()
        for attempt in waiting:
            self._loop.call_soon(self.tell, attempt, NOT_BEGUN)
        self._threads.stop()

    async def run(self) -> None:
        """Return never; when cancelled, cancel the async attempts and give them their grace.

        Each is told as Interrupted unless it has an answer. Sync ones are left to their threads, which then end.
        """
        try:
            await self._loop.create_future()
        finally:
            waiting, self._waiting = self._waiting, deque()
            for attempt in (*waiting, *self._open):
                attempt.cancel()
            tasks = [task for task in self._open.values() if task is not None]
            if tasks:
                _, stubborn = await asyncio.wait(tasks, timeout=GRACE)
                for task in stubborn:
                    log.error("an async step ignores its cancel and is left behind: %r", task)
            self.deadlines.clear()
            self._threads.close()

    # --- async --------------------------------------------------------------------------------------------------------

    def _begin(self, attempt: InTask) -> None:
        timeout = attempt.call.timeout
        if timeout is not None:
            self.deadlines.keep(attempt, timeout)
        # Known before its task is made, which may run it to its end.
        self._open[attempt] = None
        task = task_of(self._loop, self._run_async(attempt), self._context.copy())
        if attempt in self._open:
            self._open[attempt] = task
            if attempt.entered and attempt.cut is not None:
                task.cancel()

    async def _run_async(self, attempt: InTask) -> None:
        call = attempt.call
        result: Result
        if attempt.cut is not None:
            # Cancelled before its first turn. The task itself is not: then this code would not run either.
            result = attempt.cut
        elif not self._may_begin():
            self._leave(attempt)
            self._loop.call_soon(self.tell, attempt, NOT_BEGUN)
            return
        else:
            attempt.entered = True
            call.current.began = time.monotonic()
            HERE.set(call.current)
            if self.listener is not None:
                self.listener.began(call)
            try:
                around = call.around
                result = Returned(await (call.fn(*call.args, **call.kwargs) if around is None else around.run()))
            except asyncio.CancelledError as error:
                result = attempt.cancelled_with(error)
            except KeyboardInterrupt as interrupt:
                self._leave(attempt)
                self._interrupted_by(interrupt, attempt)
                return
            except GeneratorExit as error:
                if self._loop.is_closed():
                    # Not the function's: the interpreter throws away what a dead loop has left, at some time and in
                    # some thread, where nobody is to be told anything.
                    raise
                result = Raised(error)
            except BaseException as error:  # noqa: BLE001 - whatever a user's function raises is its result
                result = Raised(unwrapped(error))
            HERE.set(None)
        self._leave(attempt)
        if attempt.told:
            self._stuck -= 1
            self._late += 1
        else:
            if attempt.cut is TIMED_OUT and not (call.around is not None and isinstance(result, Returned)):
                result = TIMED_OUT
            if self._starting:
                self._ended.append((attempt, result))
            else:
                self.tell(attempt, result)
        if self._waiting:
            self._fill()

    def _leave(self, attempt: InTask) -> None:
        del self._open[attempt]
        timeout = attempt.call.timeout
        if timeout is not None:
            self.deadlines.drop(attempt, timeout)
        if attempt.grace is not None:
            attempt.grace.cancel()

    def _fill(self) -> None:
        """Begin those that wait. Some may end at once, and come back here: they leave the next one to this loop."""
        if self._filling:
            return
        self._filling = True
        while self._waiting and len(self._open) < self._max_steps and self._surely():
            self._begin(self._waiting.popleft())
        self._filling = False

    def cut(self, attempt: InTask, why: TimedOut | Interrupted) -> None:
        if attempt.cut is not None or attempt.told:
            return
        attempt.cut = why
        if attempt not in self._open:
            if attempt in self._waiting:
                self._waiting.remove(attempt)
            self._loop.call_soon(self.tell, attempt, why)
        elif attempt.entered and (attempt.call.around is None or attempt.call.around.may_be_cut):
            self.cancel(attempt)
            attempt.grace = self._timers.call_later(GRACE, self._give_up, attempt, why)

    def cancel(self, attempt: InTask) -> None:
        task = self._open[attempt]
        if task is not None:
            task.cancel()

    def _give_up(self, attempt: InTask, why: TimedOut | Interrupted) -> None:
        self._stuck += 1
        current = attempt.call.current
        log.error("run %s: step %r does not end %g s after its cancel", current.run_id, current.name, GRACE,
                  extra={**of_run(current.run_id, current.workflow), "step": current.name,
                         "attempt": current.attempt})  # fmt: skip
        self.tell(attempt, why)
        if attempt.call.around is not None:
            attempt.call.around.abandon()

    # --- sync ---------------------------------------------------------------------------------------------------------

    def lend(self, attempt: InThread) -> Lent[Any]:
        """Get a sync attempt its thread."""
        call = attempt.call
        context = self._context.copy()
        context.run(HERE.set, call.current)
        fn = partial(self._in_thread, call)
        began = partial(self._thread_began, attempt, context)
        return self._threads.start(fn, attempt.returned, context=context, began=began)

    def _in_thread(self, call: Call) -> Any:
        while (may_begin := self._may_begin()) and not self._surely():
            time.sleep(UNSURE)
        if not may_begin:
            raise NeverBegan
        return call.fn(*call.args, **call.kwargs)

    def _thread_began(self, attempt: InThread, context: Context) -> None:
        call = attempt.call
        call.current.began = time.monotonic()
        if self.listener is not None:
            context.run(self.listener.began, call)
        if call.timeout is not None:
            self.deadlines.keep(attempt, call.timeout)

    def back(self, attempt: InThread, value: Any, error: BaseException | None) -> None:
        """A sync attempt's function has returned, before its timeout; or it was never called."""
        call = attempt.call
        if call.timeout is not None:
            self.deadlines.drop(attempt, call.timeout)
        if isinstance(error, NeverBegan):
            self._loop.call_soon(self.tell, attempt, NOT_BEGUN)
            return
        if error is None:
            self.tell(attempt, Returned(value))
        elif isinstance(error, KeyboardInterrupt):
            self._interrupted_by(error, attempt)
        elif attempt.cancelled and isinstance(error, Cancelled):
            self.tell(attempt, INTERRUPTED)
        else:
            self.tell(attempt, Raised(error))

    def later(self, attempt: InThread, result: Result) -> None:
        """Tell a sync attempt's result, but not from within this call."""
        self._loop.call_soon(self.tell, attempt, result)

    # --- telling ------------------------------------------------------------------------------------------------------

    def tell(self, attempt: InTask | InThread, result: Result) -> None:
        """Tell the result, once."""
        if attempt.told:
            return
        attempt.told = True
        if self.listener is not None:
            self.listener.ended(attempt.call, result)
        try:
            attempt.ended(result)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the other attempts go on
            current = attempt.call.current
            report(error, f"run {current.run_id}: taking the result of {current.name!r} failed", self._fail)

    def _interrupted_by(self, interrupt: KeyboardInterrupt, attempt: InTask | InThread) -> None:
        log.error("a step was interrupted by a KeyboardInterrupt: the worker stops")
        if self.listener is not None and not attempt.told:
            self.listener.ended(attempt.call, Raised(interrupt))
        attempt.told = True
        self._fail(interrupt)


def _timed_out(attempt: InTask | InThread) -> None:
    attempt.timed_out()
