"""``runnerq worker --processes N``: several worker processes, each started again when it ends.

Rules
- A process is started as one would start it, ``python -m runnerq worker ...``, never forked: nothing of a running event
  loop is copied. The supervisor imports no user code and has no connection, so that little can go wrong with it.
- How a process is told to stop stands in ``leashed``, what a signal to the supervisor asks in ``stops``.
- One that was drained stays away, so that a machine can be emptied.
- What says the same each time, wrong usage and a schema that does not fit, is not tried again. Once a process has been
  up for long that is no longer so, and none that works is to stop for another: it may be the moment, or the place.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence

import anyio

from runnerq.cli.leashed import DRAINED, Leashed, exit_code, how, leash
from runnerq.cli.stops import Stops
from runnerq.cli.telling import say

NO_USE = frozenset({2, 5})
"""Exit codes of a process that would end so again: see ``runnerq --help``."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
STEADY = 60.0
"""Seconds after which a process that has ended counts as the first that did."""


def supervise(commands: Sequence[Sequence[str]], environment: Mapping[str, str]) -> int:
    """Keep a process of each until a signal says stop. The exit code, unless a second signal has ended this process."""
    supervisor = Supervisor(commands, environment)
    code = asyncio.run(supervisor.run())
    supervisor.stops.end_as_asked()
    return code


def pause_after(deaths: int) -> float:
    """Seconds to wait after so many deaths in a row: 1, 2, 4, ... 30."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (min(deaths, 10) - 1))


class Supervisor:
    """Keeps a process of each command."""

    def __init__(
        self,
        commands: Sequence[Sequence[str]],
        environment: Mapping[str, str] | None = None,
        *,
        pause: Callable[[int], float] = pause_after,
        steady: float = STEADY,
    ) -> None:
        self._commands = tuple(commands)
        self._environment = environment
        self._pause = pause
        self._steady = steady
        self._running: dict[Leashed, float] = {}
        self._steadied = False
        self._codes: list[int] = []
        self.stops = Stops(lambda: say("stopping: no more claims, running steps may end"), self._kill)

    async def run(self) -> int:
        """Return once all have ended: 0, or the first exit code that is another."""
        self.stops.listen()
        say(f"supervisor {os.getpid()}: {len(self._commands)} worker processes; Ctrl-C stops them")
        async with asyncio.TaskGroup() as places:
            for command in self._commands:
                places.create_task(self._keep(command))
        say("all have stopped")
        return next((code for code in self._codes if code), 0)

    def _kill(self) -> None:
        for process in self._running:
            process.kill()

    async def _keep(self, command: Sequence[str]) -> None:
        """One process after the other, until they are to stop or one was drained."""
        clock = asyncio.get_running_loop().time
        deaths = 0
        while not self.stops.asked.is_set():
            began = clock()
            ended = await self._one(command)
            if ended is None:
                return
            deaths = 1 if clock() - began >= self._steady else deaths + 1
            if not self.stops.asked.is_set():
                pause = self._pause(deaths)
                say(f"{ended}; another one starts in {pause:g} s")
                with anyio.move_on_after(pause):
                    await self.stops.asked.wait()

    async def _one(self, command: Sequence[str]) -> str | None:
        """One process, to its end. How it ended, where another one is to follow."""
        try:
            process = await leash(command, self._environment)
        except OSError as error:
            return f"no worker process can be started: {error}"
        self._running[process] = asyncio.get_running_loop().time()
        if self.stops.second is not None:
            process.kill()
        code = await self._ended(process)
        self._look_for_steady_ones()
        del self._running[process]
        if self.stops.asked.is_set():
            # Who signals a group signals each: one that still imported, and could not catch it, has stopped by it.
            if code != DRAINED and (self.stops.first is None or code != -self.stops.first):
                self._codes.append(exit_code(code))
            return None
        if code == DRAINED:
            say(f"worker {process.pid} {how(code)}: no other is started in its place")
            return None
        if code in NO_USE and not self._steadied:
            say(f"worker {process.pid} ended with exit code {code}, as another one would")
            self._codes.append(code)
            self.stops.asked.set()
            return None
        return f"worker {process.pid} {how(code)}"

    def _look_for_steady_ones(self) -> None:
        now = asyncio.get_running_loop().time()
        self._steadied |= any(now - began >= self._steady for began in self._running.values())

    async def _ended(self, process: Leashed) -> int:
        """The process's exit code, or less than 0 for a signal, once it has ended: by itself, or told to stop."""
        ending = asyncio.create_task(process.ended())
        stopping = asyncio.create_task(self.stops.asked.wait())
        await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        process.let_go()
        return await ending
