"""A worker in virtual time: its event loop's time jumps when idle, and all that it times is timed by that loop.

The heart beats in the worker's own loop then, and not in a thread: with it the order of all events is the same each
time a case is played.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from runnerq.persistence.protocol import Heart
from runnerq.runtime.heart import HeartThread
from runnerq.runtime.reading import DatabaseTime
from runnerq.runtime.surroundings import Beating, Surroundings
from tests.runtime.virtual_time import VirtualLoop

T = TypeVar("T")
START = datetime(2026, 1, 1, tzinfo=UTC)


class LoopClock:
    """The time of the running loop, as a date; the storage's."""

    def now(self) -> datetime:
        return START + timedelta(seconds=asyncio.get_running_loop().time())


class PassingLoop(VirtualLoop):
    """Each turn takes a microsecond: what waits for a time between two floats would otherwise turn for ever."""

    def _run_once(self) -> None:
        self._jumping.now += 1e-6
        super()._run_once()  # type: ignore[misc]  # not in the stubs


class LoopHeart(HeartThread):
    """Beats in the worker's own loop."""

    def __init__(self, *args: Any, **options: Any) -> None:
        time = asyncio.get_running_loop().time
        super().__init__(*args, **options | {"clock": time, "since": time()})

    def start(self) -> None:
        self._began = True
        self._here = asyncio.create_task(self._beat_here())

    async def _beat_here(self) -> None:
        try:
            await self._beat_on()
        except asyncio.CancelledError:
            pass
        finally:
            self._over.set()


class LoopSurroundings(Surroundings):
    """All that a worker takes from outside is the running loop's."""

    def __init__(self) -> None:
        super().__init__()
        self.time = DatabaseTime(asyncio.get_running_loop().time)

    def heart(self, make: Callable[[], Heart], **options: Any) -> Beating:
        return LoopHeart(make, **options)


def in_virtual_time(play: Callable[[], Awaitable[T]], seed: int) -> T:
    """Run it on a loop of its own; chance falls by this seed."""

    async def whole() -> T:
        return await play()

    state = random.getstate()
    random.seed(seed)
    try:
        with asyncio.Runner(loop_factory=PassingLoop) as runner:
            return runner.run(whole())
    finally:
        random.setstate(state)
