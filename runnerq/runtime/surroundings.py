"""What a worker takes from outside of it: time, chance, a heart. The testing kit gives it others.

Rules
- ``timers`` tell of what falls due in a run (a wait's deadline, a step's timeout), ``looks`` pace what is looked at
  again and again (claims, maintenance). In production both are the event loop.
- Nothing in the runtime asks the event loop for the time, or for a timer, where a test would have to wait for it.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import Protocol

from runnerq.persistence.protocol import Heart
from runnerq.persistence.records import Load, Pulse
from runnerq.runtime.attempts import Attempts
from runnerq.runtime.callbacks import Fail
from runnerq.runtime.heart import HeartThread
from runnerq.runtime.heartbeats import Heartbeats
from runnerq.runtime.reading import DatabaseTime
from runnerq.runtime.threads import Threads
from runnerq.runtime.timers import Timers
from runnerq.workflow.identity import Drive


class Beating(Protocol):
    """What keeps a worker's leases, and hears what has come for its runs."""

    @property
    def good_beats(self) -> int:
        """How many beats in a row have succeeded."""
        ...

    def holds(self) -> bool:
        """Whether the lease surely holds."""
        ...

    def surely_holds(self) -> bool:
        """Whether nobody can have taken the worker for gone yet."""
        ...

    def start(self) -> None: ...

    def hurry(self) -> None:
        """Beat now."""
        ...

    async def last_words(self) -> None:
        """Return when what attempts have said of themselves is written, or will not be soon."""
        ...

    async def stop(self) -> None: ...


class Surroundings:
    """Those of production, on the running event loop."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.timers: Timers = loop
        self.looks: Timers = loop
        self.time = DatabaseTime()
        self.chance: Callable[[], float] = random.random

    def seed(self, run_id: str, generation: int) -> str:  # noqa: ARG002 - chance alone
        """The seed of a journal that begins."""
        return secrets.token_hex(8)

    def drive(self, run_id: str) -> Drive:  # noqa: ARG002 - whose code it is matters to those who watch it
        """The context in which this run's workflow code is called."""
        return copy_context()

    def attempts(
        self,
        threads: Threads,
        max_steps: int,
        fail: Fail,
        may_begin: Callable[[], bool],
        surely: Callable[[], bool],
    ) -> Attempts:
        return Attempts(threads, max_steps, fail, self.timers, may_begin, surely)

    def heart(
        self,
        make: Callable[[], Heart],
        *,
        worker_id: int,
        interval: float,
        lease: float,
        on_pulse: Callable[[Pulse], None],
        on_fence: Callable[[str], None],
        fail: Fail,
        load: Callable[[], Load],
        beats: Heartbeats,
    ) -> Beating:
        return HeartThread(
            make,
            worker_id=worker_id,
            interval=interval,
            lease=lease,
            on_pulse=on_pulse,
            on_fence=on_fence,
            fail=fail,
            load=load,
            beats=beats,
            since=time.monotonic(),
        )
