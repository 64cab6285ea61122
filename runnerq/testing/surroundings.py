"""What a test's worker takes from outside: the test's clock, no chance, a heart without a thread, watched attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from datetime import datetime
from typing import Any

import msgspec

from runnerq.clock import ManualClock
from runnerq.persistence.protocol import Heart
from runnerq.persistence.records import Load, Pulse, Wake
from runnerq.runtime.attempts import Attempts
from runnerq.runtime.callbacks import Fail
from runnerq.runtime.heartbeats import Heartbeats
from runnerq.runtime.reading import DatabaseTime
from runnerq.runtime.results import Call, Ended, Result, Running
from runnerq.runtime.surroundings import Beating, Surroundings
from runnerq.runtime.threads import Threads
from runnerq.testing.stage import Stage
from runnerq.testing.storage import at_once
from runnerq.workflow.identity import Drive


class StageSurroundings(Surroundings):
    """Of one worker on the stage."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self._stage = stage
        self.timers = stage.timers
        self.looks = stage.looks
        self.time = StandingTime(stage.clock)
        # The middle: retries come after exactly what their policy says.
        self.chance = lambda: 0.5

    def seed(self, run_id: str, generation: int) -> str:
        return self._stage.seed(run_id, generation)

    def drive(self, run_id: str) -> Drive:
        return self._stage.drive(run_id, copy_context())

    def attempts(
        self,
        threads: Threads,
        max_steps: int,
        fail: Fail,
        may_begin: Callable[[], bool],  # noqa: ARG002 - it always may
        surely: Callable[[], bool],  # noqa: ARG002 - as above
    ) -> Attempts:
        return WatchedAttempts(threads, max_steps, fail, self._stage)

    def heart(
        self,
        make: Callable[[], Heart],
        *,
        worker_id: int,
        interval: float,  # noqa: ARG002 - it beats when something has come
        lease: float,  # noqa: ARG002 - nobody judges it
        on_pulse: Callable[[Pulse], None],
        on_fence: Callable[[str], None],  # noqa: ARG002 - as above
        fail: Fail,  # noqa: ARG002 - a beat in memory does not fail
        load: Callable[[], Load],
        beats: Heartbeats,
    ) -> Beating:
        return QuietHeart(self._stage, make(), worker_id, on_pulse, load, beats)


class StandingTime(DatabaseTime):
    """The test's clock, to the microsecond."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def sync(self, now: datetime) -> None:
        """The clock is the storage's own."""

    def now(self) -> datetime:
        return self._clock.now()

    def past(self, when: datetime) -> float:
        return self.until(when)


class QuietHeart:
    """Beats when something has come for a run that its worker holds. It never judges others, nor is it judged."""

    good_beats = 0

    def __init__(
        self,
        stage: Stage,
        heart: Heart,
        worker_id: int,
        on_pulse: Callable[[Pulse], None],
        load: Callable[[], Load],
        beats: Heartbeats,
    ) -> None:
        self._load = load
        self._beats = beats
        self._loop = asyncio.get_running_loop()
        self._stage = stage
        self._heart = heart
        self._worker_id = worker_id
        self._on_pulse = on_pulse
        self._unsubscribe: Callable[[], None] | None = None

    def holds(self) -> bool:
        return True

    def surely_holds(self) -> bool:
        return True

    def start(self) -> None:
        self._unsubscribe = self._stage.storage.subscribe(self._hear)

    def hurry(self) -> None:
        """It has heard by itself."""

    async def last_words(self) -> None:
        self._beat()

    async def stop(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _hear(self, wake: Wake) -> None:
        if self._worker_id in wake.workers and self._unsubscribe is not None:
            pulse = self._beat()
            if pulse.alive:
                self._on_pulse(pulse)

    def _beat(self) -> Pulse:
        said = self._beats.take()
        pulse: Pulse = at_once(self._heart.beat(self._worker_id, self._load(), said))
        self._beats.written(said, pulse.held_back)
        return pulse


class WatchedAttempts(Attempts):
    """Calls what stands for a function, and tells the stage what is under way."""

    def __init__(self, threads: Threads, max_steps: int, fail: Fail, stage: Stage) -> None:
        super().__init__(threads, max_steps, fail, stage.timers)
        self._stage = stage

    def start(self, call: Call, ended: Ended) -> Running:
        stage = self._stage
        fake = stage.fake_of(call.fn)
        if fake is not None:
            call = _faked(call, fake)
        in_thread = not call.is_async
        stage.began(call.current, in_thread=in_thread)

        def over(result: Result) -> None:
            stage.ended(in_thread=in_thread)
            ended(result)

        return super().start(call, over)


def _faked(call: Call, fake: Callable[..., Any]) -> Call:
    """The fake's call: on the event loop, whatever it stands for, so that a test may keep what it likes in it."""

    async def run(*args: Any, **kwargs: Any) -> Any:
        answer = fake(*args, **kwargs)
        return await answer if hasattr(answer, "__await__") else answer

    call.current.is_async = True
    return msgspec.structs.replace(call, fn=run, is_async=True)
