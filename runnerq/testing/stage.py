"""A test's time, and when it moves.

Rules
- Time stands still but while somebody waits: for a result, a status, a state, or for ``advance``. Then it jumps to what
  is due next, whenever all is at rest; what is due at one time comes in the order it would come in production.
- All is at rest when the event loop has nothing to do, nothing that was heard is left to be looked at, and no step is
  under way. A step that waits for a timer of the loop, a socket or a pool's thread is waited for, in real time. One
  that waits for something else (a library's own thread, a process) has PATIENCE, and is then passed over: so a step
  that never ends can lose a race.
- Who waited is answered before time moves on. Where nothing is due any more, who waits without an end is told so; also
  where nothing but schedules has been due for MANY_TICKS of them: they go on for ever.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from runnerq.clock import ManualClock
from runnerq.errors import ConfigurationError, NondeterminismError
from runnerq.persistence.records import Wake
from runnerq.runtime.current import Current
from runnerq.runtime.reading import later
from runnerq.testing.faults import Faults
from runnerq.testing.quiet import at_rest, busy_threads, check_loop, may_come, next_timer
from runnerq.testing.storage import StageStorage
from runnerq.testing.timers import Looks, VirtualTimers
from runnerq.testing.traps import TrappedDrive, Traps
from runnerq.workflow.identity import Drive

T = TypeVar("T")

START = datetime(2025, 1, 1, tzinfo=UTC)
"""When a test begins, unless it says otherwise: the same each day."""

PATIENCE = 1.0
"""Seconds of real time for steps that wait for what cannot be seen from here."""

MANY_TICKS = 1000

Attempted = tuple[str, int, str, int]


class NothingLeft(Exception):
    """Nothing is due, and nothing is under way: what is waited for will never be."""


class _Waiter(Generic[T]):
    """Somebody who waits until ``look`` finds something, or for a time."""

    def __init__(self, look: Callable[[], Awaitable[T | None]] | None, until: datetime | None) -> None:
        self.look = look
        self.until = until
        self.answer: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()


class Stage:
    """The clock, the storage and the timers of one test, and the one who moves them."""

    def __init__(self, start: datetime | None = None) -> None:
        self.clock = ManualClock(START if start is None else _checked(start))
        self.storage = StageStorage(self.clock)
        self.faults = Faults()
        self.roots: dict[str, str] = {}
        self.timers = VirtualTimers(self.clock)
        self.looks = Looks()
        self.calls: Counter[tuple[Attempted, str]] = Counter()
        self._fakes: list[tuple[Any, Callable[..., Any]]] = []
        self._seeds: dict[tuple[str, int], int] = {}
        self._under_way = 0
        self._in_threads = 0
        self._waited = False
        self._ticks_alone = 0
        self._waiters: list[_Waiter[Any]] = []
        self._stirred = asyncio.Event()
        self._heard = 0
        self._looked = 0
        self._mover: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._elsewhere = frozenset[int]()
        self._unsubscribe: Callable[[], None] | None = None

    def now(self) -> datetime:
        return self.clock.now()

    # --- life ---------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        loop = asyncio.get_running_loop()
        check_loop(loop)
        self._loop = loop
        self._elsewhere = busy_threads()
        self._unsubscribe = self.storage.subscribe(self._hear)
        self._mover = loop.create_task(self._move(loop), name="runnerq-test-clock")

    async def close(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
        if self._mover is not None:
            self._mover.cancel()
            await asyncio.wait({self._mover})

    # --- waiting ------------------------------------------------------------------------------------------------------

    async def until(self, look: Callable[[], Awaitable[T | None]], within: float | None) -> T | None:
        """What ``look`` finds once all is at rest; None after ``within`` seconds. Raises NothingLeft."""
        return await self._wait(_Waiter(look, None if within is None else later(self.now(), within)))

    async def advance(self, seconds: float) -> None:
        """Let this much time pass."""
        await self._wait(_Waiter[None](None, later(self.now(), seconds)))

    async def _wait(self, waiter: _Waiter[T]) -> T | None:
        if self._mover is None:
            raise ConfigurationError("this environment is not open: use `async with Environment(...) as env`")
        if asyncio.get_running_loop() is not self._loop:
            raise ConfigurationError(
                "this environment was opened on another event loop: give the fixture and its test the same loop_scope"
            )
        if self._mover.done():
            await self._mover
        self._waiters.append(waiter)
        self._ticks_alone = 0
        self._stirred.set()
        try:
            return await waiter.answer
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    # --- moving -------------------------------------------------------------------------------------------------------

    async def _move(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while True:
                await self._stirred.wait()
                self._stirred.clear()
                while self._waiters:
                    await at_rest(loop)
                    if not await self._answered():
                        await self._go_on(loop)
        except Exception as error:
            # A fault of our own: whoever waits is to hear of it.
            for waiter in self._waiters:
                if not waiter.answer.done():
                    waiter.answer.set_exception(error)
            raise

    async def _answered(self) -> bool:
        """Whether somebody has what he waited for: he goes on first."""
        answered = False
        for waiter in list(self._waiters):
            if waiter.look is None or waiter.answer.done():
                continue
            try:
                found = await waiter.look()
            except Exception as error:  # noqa: BLE001 - what a look raises is the answer to it
                found = error
            if found is not None:
                self._tell(waiter, found)
                answered = True
        return answered

    def _tell(self, waiter: _Waiter[Any], answer: object) -> None:
        self._waiters.remove(waiter)
        if waiter.answer.done():
            return
        if isinstance(answer, Exception):
            waiter.answer.set_exception(answer)
        else:
            waiter.answer.set_result(answer)

    async def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take the next step that leads on: look at what was heard, wait for a step, or move time."""
        if self.storage.is_due(self.now()):
            self._look_again()
            return
        if self._in_threads or (self._under_way and may_come(loop, self._elsewhere)):
            await self._something(loop)
            return
        if self._under_way and not self._waited:
            self._waited = True
            await self._something(loop, PATIENCE)
            return
        over = [waiter for waiter in self._waiters if waiter.until is not None and waiter.until <= self.now()]
        at = None if over else self._next_due()
        if at is not None:
            self.clock.advance(at - self.now())
            self.timers.fire()
            self._look_again()
        elif self._heard != self._looked:
            # Maintenance may have something to do with it: the children of a parent that was terminated, say.
            self._look_again()
        elif over:
            for waiter in over:
                self._tell(waiter, None)
        elif may_come(loop, self._elsewhere):
            await self._something(loop)
        else:
            for waiter in list(self._waiters):
                self._tell(waiter, NothingLeft())

    def _look_again(self) -> None:
        self._looked = self._heard
        self.looks.ring()

    def _next_due(self) -> datetime | None:
        due = [self.storage.next_due(self.now()), *(waiter.until for waiter in self._waiters)]
        if self._under_way:
            # Of held runs. Where nothing is under way none is held, and what is kept is nobody's any more.
            due.append(self.timers.next_due())
        at = min((at for at in due if at is not None and at > self.now()), default=None)
        tick = self.storage.next_tick(self.now())
        if tick is None or (at is not None and at <= tick):
            self._ticks_alone = 0
            return at
        self._ticks_alone = 0 if at is not None else self._ticks_alone + 1
        return tick if self._ticks_alone <= MANY_TICKS else None

    async def _something(self, loop: asyncio.AbstractEventLoop, within: float | None = None) -> None:
        """Return when a step has ended, something was heard, a timer of the loop was due, or ``within`` has passed."""
        self._stirred.clear()
        when = next_timer(loop) if within is None else loop.time() + within
        timer = None if when is None else loop.call_at(when, self._stirred.set)
        try:
            await self._stirred.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _hear(self, wake: Wake) -> None:  # noqa: ARG002 - whatever it names
        self._heard += 1
        self._stirred.set()

    # --- what the worker tells and asks -------------------------------------------------------------------------------

    def seed(self, run_id: str, generation: int) -> str:
        """Seeds in the order in which they are first drawn, so that a test sees the same chance each time."""
        number = self._seeds.setdefault((run_id, generation), len(self._seeds) + 1)
        return f"{number:016x}"

    def drive(self, run_id: str, context: Drive) -> Drive:
        return TrappedDrive(context, Traps(run_id, self._caught(run_id)))

    def _caught(self, run_id: str) -> Callable[[NondeterminismError], None]:
        return lambda error: self.faults.add(self.roots.get(run_id, run_id), error)

    def began(self, current: Current, *, in_thread: bool) -> None:
        """An attempt is under way."""
        self._under_way += 1
        self._waited = False
        self._in_threads += in_thread
        if current.kind != "transaction":
            # One that is called again was rolled back before.
            self.calls[(current.run_id, current.generation, current.entry, current.attempt), current.name] += 1

    def ended(self, *, in_thread: bool) -> None:
        self._under_way -= 1
        self._in_threads -= in_thread
        self._stirred.set()

    def replace(self, fn: Any, fake: Callable[..., Any]) -> None:
        self._fakes = [(of, by) for of, by in self._fakes if of != fn]
        self._fakes.append((fn, fake))

    def fake_of(self, fn: Any) -> Callable[..., Any] | None:
        return next((fake for of, fake in self._fakes if of == fn), None)


def _checked(start: datetime) -> datetime:
    if start.tzinfo is None:
        raise ConfigurationError(f"start={start!r} has no zone: give it one, such as tzinfo=UTC")
    return start.astimezone(UTC)
