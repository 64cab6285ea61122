"""The demo's processes: real ones, each a command that one could type, none left behind."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from runnerq.errors import RunnerQError

GRACE = 10.0
"""Seconds that a worker may take to stop in order before it is killed."""
LAST_LINES = 12


class DemoFailed(RunnerQError):
    """The demo could not go on; what was said last on stderr is in the message."""


class Program:
    """``runnerq ARGUMENTS`` in a process of its own. ``hear`` gets each line that it prints, stderr goes to a file."""

    def __init__(self, name: str, arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self.name = name
        self._arguments = ("-m", "runnerq", *arguments)
        self._environment = dict(environment)
        self._stderr = folder / f"{name.replace(' ', '-')}.stderr"
        self._process: asyncio.subprocess.Process | None = None
        self._lines: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise DemoFailed(f"{self.name} was not started")
        return self._process

    async def start(self, hear: Callable[[str], None]) -> None:
        """Start it. It is in a session of its own, so that Ctrl-C reaches this process alone, which ends the others."""
        with self._stderr.open("wb") as stderr:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *self._arguments,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        self._lines = asyncio.create_task(self._read(hear), name=f"demo-{self.name}")

    async def _read(self, hear: Callable[[str], None]) -> None:
        if self._running.stdout is not None:
            async for line in self._running.stdout:
                hear(line.decode(errors="replace").rstrip())

    async def ended(self) -> int:
        """Its exit code, once it has ended and all it printed was heard."""
        code = await self._running.wait()
        if self._lines is not None:
            # Not awaited itself: whoever is cancelled here must not cancel the reader with it.
            await asyncio.wait({self._lines})
        return code

    async def kill(self) -> int:
        """SIGKILL: it gets no chance to say anything."""
        if self._running.returncode is None:
            self._running.kill()
        return await self.ended()

    async def stop(self) -> int:
        """SIGTERM: it stops in order, or is killed after its grace."""
        if self._running.returncode is None:
            self._running.terminate()
        try:
            async with asyncio.timeout(GRACE):
                return await self.ended()
        except TimeoutError:
            return await self.kill()

    async def leave_nothing(self) -> None:
        """Make sure that it is gone, whatever happened."""
        if self._process is not None:
            await self.kill()

    def last_words(self) -> str:
        """What it said last on stderr."""
        text = self._stderr.read_text(errors="replace") if self._stderr.exists() else ""
        return " | ".join(text.strip().splitlines()[-LAST_LINES:])
