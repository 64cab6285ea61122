"""One `runnerq dev`, from its start to its end.

Rules
- The database is open here from the first to the last, so that the embedded one starts once and stops at the end. Until
  it is open there is nothing that has to stop in order.
- Worker and console are processes that stop when this one goes, however it goes (see ``leashed``).
- The order of the end: the worker, so that its steps may end; the console; the database.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from re import search

import msgspec

from runnerq.cli.console import MISSING
from runnerq.cli.dev.happenings import Happenings
from runnerq.cli.dev.narrator import Narrator
from runnerq.cli.leashed import Leashed, environment_of, how, leash
from runnerq.cli.reloading import Reloading, named
from runnerq.cli.shared import Database
from runnerq.cli.sources import Sources
from runnerq.cli.stops import Stops
from runnerq.cli.worker_options import WorkerOptions
from runnerq.client.client import Client

LOOPBACK = "127.0.0.1"
_CONSOLE_NEEDS = ("litestar", "jinja2", "uvicorn")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is developed, and with what around it. ``port`` is the console's, None for no console."""

    options: WorkerOptions
    watch: tuple[Path, ...]
    port: int | None
    opens: bool
    database: Database


class Session:
    """Runs until it is told to stop. ``stops`` says by what."""

    def __init__(self, wanted: Wanted, narrator: Narrator) -> None:
        self._wanted = wanted
        self._narrator = narrator
        self._environment = environment_of(wanted.database) | {"PYTHONUNBUFFERED": "1"}
        self._opening: asyncio.Task[None] | None = None
        self._console: Leashed | None = None
        self._console_end: asyncio.Task[None] | None = None
        self._address: str | None = None
        watched = wanted.watch or (Path.cwd(),)
        self._worker = Reloading(
            wanted.options.command("dev"),
            self._environment,
            Sources(watched),
            lambda what: narrator.say("dev", what, "yellow"),
            narrator.voice("worker"),
        )
        self.stops = Stops(
            lambda: narrator.say("dev", "stopping: running steps may end; a second Ctrl-C ends all at once"), self._kill
        )
        narrator.when_gone(self.stops.ask)

    def _kill(self) -> None:
        if self._opening is not None:
            # An embedded server is made in a thread, which nothing else breaks off.
            self.stops.end_as_asked()
        self._worker.kill()
        if self._console is not None:
            self._console.kill()

    async def run(self) -> None:
        say = self._narrator.say
        self.stops.listen()
        client = self._wanted.database.client()
        say("postgres", f"opening {client.place}")
        try:
            if await self._opened(client):
                say("postgres", f"ready{self._for_others()}")
                await self._open_console()
                await self._work(client)
        finally:
            await self._close_console()
            await client.close()
        say("dev", "stopped")

    async def _opened(self, client: Client) -> bool:
        """Open it; False if this is to stop before it is open."""
        self._opening = asyncio.create_task(client.open(), name="runnerq-dev-opening")
        asked = asyncio.create_task(self.stops.asked.wait())
        try:
            await asyncio.wait({self._opening, asked}, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                self._opening.cancel()
            with suppress(asyncio.CancelledError):
                await self._opening
        finally:
            asked.cancel()
            self._opening = None
        return not self.stops.asked.is_set()

    def _for_others(self) -> str:
        if self._wanted.database.dsn is not None:
            return ""
        return "; other commands, such as `runnerq list`, find it from this folder, too"

    async def _work(self, client: Client) -> None:
        watched = named([str(folder) for folder in self._wanted.watch]) or "this folder"
        self._narrator.say("dev", f"watches the Python files of {watched}; Ctrl-C stops all")
        happenings = Happenings(client, lambda what, style: self._narrator.say("run", what, style), self._link)
        telling = asyncio.create_task(happenings.run(), name="runnerq-dev-happenings")
        working = asyncio.create_task(self._worker.run(self.stops), name="runnerq-dev-worker")
        try:
            await asyncio.wait({telling, working}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Both end here, and what one of them raised is raised.
            self.stops.asked.set()
            telling.cancel()
            await asyncio.gather(working, telling, return_exceptions=True)
        for task in (working, telling):
            if not task.cancelled():
                task.result()

    # --- the console --------------------------------------------------------------------------------------------------

    async def _open_console(self) -> None:
        if self._wanted.port is None:
            return
        if any(find_spec(name) is None for name in _CONSOLE_NEEDS):
            self._narrator.say("console", f"there is none: {MISSING}")
            return
        options = ["--host", LOOPBACK, "--port", str(_port(self._wanted.port)), "--prefix", "/", "--kept"]
        options += ["--open"] if self._wanted.opens else []
        self._console = await leash(
            [sys.executable, "-m", "runnerq", "console", *options], self._environment, self._hear_console
        )
        self._console_end = asyncio.create_task(self._ended(self._console), name="runnerq-dev-console")

    async def _ended(self, console: Leashed) -> None:
        code = await console.ended()
        if not self.stops.asked.is_set():
            self._address = None
            self._narrator.say(
                "console", f"process {console.pid} {how(code)}; the next `runnerq dev` starts another", "red"
            )

    def _hear_console(self, line: str) -> None:
        found = search(r"console at (http://[^\s;,]+)", line)
        if found is None:
            self._narrator.voice("console")(line)
            return
        self._address = address = found[1].rstrip("/")
        self._narrator.say("console", address, "bold underline")

    def _link(self, run_id: str) -> str | None:
        return None if self._address is None else f"{self._address}/runs/{run_id}"

    async def _close_console(self) -> None:
        if self._console is not None and self._console_end is not None:
            self._console.let_go()
            await self._console_end


def _port(wanted: int) -> int:
    """The port; one that is free, where somebody has it: another `runnerq dev`, mostly."""
    try:
        with socket.create_server((LOOPBACK, wanted)):
            return wanted
    except OSError:
        return 0
