"""``runnerq worker --processes N``: several worker processes, each started again when it ends.

Rules
- A process is started as one would start it, ``python -m runnerq worker ...``, never forked: nothing of a running event
  loop is copied. The supervisor imports no user code and has no connection, so that little can go wrong with it.
- A process stops in order when the pipe closes that is its stdin at first (see ``leash``). The supervisor holds the
  other end: to close it is how it says stop, and it closes by itself when the supervisor dies, by SIGKILL too, on every
  system.
- Each is in a session of its own, so that Ctrl-C reaches the supervisor alone. Who signals all of them (systemd does)
  signals each once: the supervisor sends none, and a second one would end a process at once.
- What says the same each time, wrong usage and a schema that does not fit, is not tried again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import anyio

from runnerq.cli.codecs import CODEC_VARIABLE
from runnerq.cli.shared import SCHEMA_VARIABLE, Database, say
from runnerq.client.connect import DIRECT_DSN_VARIABLE, DSN_VARIABLE, POOLED_VARIABLE

STOPPING = (signal.SIGTERM, signal.SIGINT)
NO_USE = frozenset({2, 5})
"""Exit codes of a process that would end so again: see ``runnerq --help``."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
STEADY = 60.0
"""Seconds after which a process that has ended counts as the first that did."""
BY_SIGNAL = 128
"""What a shell adds to the number of the signal that ended a process, and so do we."""


def supervise(modules: Sequence[str], queues: Sequence[str], concurrency: int, count: int, database: Database) -> int:
    """Keep so many workers until a signal says stop. The exit code, unless a second signal has ended this process."""
    command = [sys.executable, "-m", "runnerq", "worker", *modules, "-c", str(concurrency), "--until-stdin-closes"]
    for queue in queues:
        command += ["-q", queue]
    supervisor = Supervisor(command, count, environment_of(database))
    code = asyncio.run(supervisor.run())
    if supervisor.ended_by is not None:
        # As if it were not caught, which is what a single worker does.
        signal.signal(supervisor.ended_by, signal.SIG_DFL)
        os.kill(os.getpid(), supervisor.ended_by)
    return code


def environment_of(database: Database) -> dict[str, str]:
    """The environment in which a worker finds this database; on a command line everybody could read its password."""
    environment = {**os.environ, SCHEMA_VARIABLE: database.schema}
    if database.dsn is not None:
        # What the environment says of a pooler belongs to the DSN that stood there.
        environment.pop(DIRECT_DSN_VARIABLE, None)
        environment.pop(POOLED_VARIABLE, None)
        environment[DSN_VARIABLE] = database.dsn
    if database.direct_dsn is not None:
        environment[DIRECT_DSN_VARIABLE] = database.direct_dsn
    if database.pooled:
        environment[POOLED_VARIABLE] = "1"
    if database.codec is not None:
        environment[CODEC_VARIABLE] = database.codec
    return environment


def pause_after(deaths: int) -> float:
    """Seconds to wait after so many deaths in a row: 1, 2, 4, ... 30."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (min(deaths, 10) - 1))


class Supervisor:
    """Keeps ``count`` processes of one command. ``ended_by`` is the second signal, which ended them all at once."""

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        environment: Mapping[str, str] | None = None,
        *,
        pause: Callable[[int], float] = pause_after,
        steady: float = STEADY,
    ) -> None:
        self._command = tuple(command)
        self._count = count
        self._environment = environment
        self._pause = pause
        self._steady = steady
        self._running: set[Process] = set()
        self._stopping = asyncio.Event()
        self._codes: list[int] = []
        self._stopped_by: signal.Signals | None = None
        self.ended_by: signal.Signals | None = None

    async def run(self) -> int:
        """Return once all have ended: 0, or the first exit code that is another."""
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.add_signal_handler(number, self._signalled, number)
        say(f"supervisor {os.getpid()}: {self._count} worker processes; Ctrl-C stops them")
        async with asyncio.TaskGroup() as places:
            for _ in range(self._count):
                places.create_task(self._keep())
        say("all have stopped")
        return next((code for code in self._codes if code), 0)

    def _signalled(self, number: signal.Signals) -> None:
        if not self._stopping.is_set():
            say("stopping: no more claims, running steps may end")
            self._stopped_by = number
            self._stopping.set()
            return
        self.ended_by = number
        for process in self._running:
            _kill(process)

    async def _keep(self) -> None:
        """One process after the other, until they are to stop."""
        clock = asyncio.get_running_loop().time
        deaths = 0
        while not self._stopping.is_set():
            began = clock()
            ended = await self._one()
            deaths = 1 if clock() - began >= self._steady else deaths + 1
            if ended is not None and not self._stopping.is_set():
                pause = self._pause(deaths)
                say(f"{ended}; another one starts in {pause:g} s")
                with anyio.move_on_after(pause):
                    await self._stopping.wait()

    async def _one(self) -> str | None:
        """One process, to its end. How it ended, where another one is to follow."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, env=self._environment, stdin=asyncio.subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            return f"no worker process can be started: {error}"
        self._running.add(process)
        if self.ended_by is not None:
            _kill(process)
        code = await self._ended(process)
        self._running.discard(process)
        if self._stopping.is_set():
            # Who signals a group signals each: one that still imported, and could not catch it, has stopped by it.
            if self._stopped_by is None or code != -self._stopped_by:
                self._codes.append(_exit_code(code))
            return None
        if code in NO_USE:
            say(f"worker {process.pid} ended with exit code {code}, as another one would")
            self._codes.append(code)
            self._stopping.set()
            return None
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"worker {process.pid} {how}"

    async def _ended(self, process: Process) -> int:
        """The process's exit code, or less than 0 for a signal, once it has ended: by itself, or told to stop."""
        ending = asyncio.create_task(process.wait())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if process.stdin is not None:
            process.stdin.close()
        return await ending


def _kill(process: Process) -> None:
    # One that has ended meanwhile is not to keep the others from it.
    with suppress(ProcessLookupError):
        process.kill()


def _exit_code(code: int) -> int:
    return BY_SIGNAL - code if code < 0 else code
