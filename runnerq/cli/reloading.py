"""A worker process that is replaced whenever its code is saved.

Rules
- The old one stops in order before the new one starts: what it had parked, or gives back, goes on under the new code.
- One that ends by itself, since its code cannot be imported or it was drained, say, is not started again before the
  next save. One whose database does not answer is: nobody has to save anything for that.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from runnerq.cli.leashed import NOT_YET, Leashed, how, leash
from runnerq.cli.sources import Sources
from runnerq.cli.stops import Stops
from runnerq.cli.telling import say

MOST_NAMED = 3
AGAIN = 3.0
"""Seconds until a database that did not answer is tried again."""
PATIENCE = 5.0
"""Seconds after which one that has not stopped yet is spoken of."""


class Reloading:
    """Keeps one process of a command. ``tell`` gets what is said of it, ``hear`` what it prints; without ``hear`` it
    prints where this process does."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        sources: Sources,
        tell: Callable[[str], None],
        hear: Callable[[str], None] | None = None,
        again: float = AGAIN,
        patience: float = PATIENCE,
    ) -> None:
        self._command = tuple(command)
        self._environment = environment
        self._sources = sources
        self._tell = tell
        self._hear = hear
        self._again = again
        self._patience = patience
        self._process: Leashed | None = None

    def kill(self) -> None:
        """End what runs at once."""
        if self._process is not None:
            self._process.kill()

    async def run(self, stops: Stops) -> None:
        """Return once it was asked to stop, and the process has. Raises Refused: there is too much to be watched."""
        await self._sources.begin()
        while not stops.asked.is_set():
            self._process = await leash(self._command, self._environment, self._hear)
            if stops.second is not None:
                self._process.kill()
            await self._one(self._process, stops)
            self._process = None

    async def _one(self, process: Leashed, stops: Stops) -> None:
        ended = asyncio.create_task(process.ended())
        saved = asyncio.create_task(self._sources.saved())
        asked = asyncio.create_task(stops.asked.wait())
        try:
            await asyncio.wait({ended, saved, asked}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done() and not asked.done():
                soon = self._again if ended.result() == NOT_YET else None
                then = "the next save starts another" if soon is None else f"another one starts in {soon:g} s"
                self._tell(f"worker {process.pid} {how(ended.result())}; {then}")
                await asyncio.wait({saved, asked}, timeout=soon, return_when=asyncio.FIRST_COMPLETED)
            if saved.done() and not asked.done():
                self._tell(f"saved {named(saved.result())}: the worker is replaced")
        finally:
            saved.cancel()
            asked.cancel()
            process.let_go()
            await self._gone(process, ended)

    async def _gone(self, process: Leashed, ended: asyncio.Task[int]) -> None:
        done, _ = await asyncio.wait({ended}, timeout=self._patience)
        if not done:
            self._tell(
                f"worker {process.pid} has not stopped yet: its steps have the drain timeout to end, and code that "
                "lets nothing else run has 30 s more"
            )
        await ended


def named(files: Sequence[str]) -> str:
    """Some of the files, seen from this folder."""
    here = str(Path.cwd()) + os.sep
    shown = [file.removeprefix(here) for file in files[:MOST_NAMED]]
    rest = len(files) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def reload(command: Sequence[str], environment: Mapping[str, str], watch: Sequence[Path]) -> None:
    """Keep a process of this command until a signal says stop."""
    asyncio.run(_reload(command, environment, watch)).end_as_asked()


async def _reload(command: Sequence[str], environment: Mapping[str, str], watch: Sequence[Path]) -> Stops:
    reloading = Reloading(command, environment, Sources(watch or (Path.cwd(),)), say)
    stops = Stops(lambda: say("stopping: no more claims, running steps may end"), reloading.kill)
    stops.listen()
    await reloading.run(stops)
    say("stopped")
    return stops
