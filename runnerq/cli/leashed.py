"""A process that this one keeps: it stops in order when the pipe closes that is its stdin (see ``leash``).

Rules
- The keeper holds the other end: to close it is how it says stop, and it closes by itself when the keeper dies, by
  SIGKILL too, on every system.
- It has ended when it has exited. Processes that it has started may hold its pipes for as long as they like: they are
  pipes of our own, as asyncio waits for the ends of those that it makes.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio import StreamReader, StreamReaderProtocol
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from io import FileIO
from typing import TypeAlias

from runnerq.cli.codecs import CODEC_VARIABLE
from runnerq.cli.shared import SCHEMA_VARIABLE, Database
from runnerq.client.connect import DIRECT_DSN_VARIABLE, DSN_VARIABLE, POOLED_VARIABLE

LONGEST_LINE = 1 << 16
LAST_WORDS = 1.0
"""Seconds for what a process printed before it ended. What comes later is of processes that it has started; it is
heard as well, so that they do not stand still at a full pipe."""
_OPTIONS = ("RUNNERQ_WORKER_", "RUNNERQ_CONSOLE_")
NOT_YET = 75
"""Exit code of a kept worker whose database does not answer: a keeper that waits for a save tries again by itself."""
DRAINED = 76
"""Exit code of a kept worker that was drained by ``runnerq workers drain``: no keeper starts another in its place."""
BY_SIGNAL = 128
"""What a shell adds to the number of the signal that ended a process, and so do we."""


Heard: TypeAlias = tuple[FileIO, Callable[[str], None]]
"""Where what a process prints comes out, and who gets each line of it."""


class Leashed:
    """A process in a session of its own, so that Ctrl-C reaches its keeper alone."""

    def __init__(self, process: Process, tie: int, heard: Heard | None) -> None:
        self._process = process
        self._tie: int | None = tie
        self._failure: Exception | None = None
        self._lines = None if heard is None else asyncio.create_task(self._read(*heard), name="runnerq-lines")

    @property
    def pid(self) -> int:
        return self._process.pid

    def let_go(self) -> None:
        """Have it stop in order."""
        if self._tie is not None:
            os.close(self._tie)
            self._tie = None

    def kill(self) -> None:
        # One that has ended meanwhile is not to keep the others from it.
        with suppress(ProcessLookupError):
            self._process.kill()

    async def ended(self) -> int:
        """Its exit code, or less than 0 for a signal, once it has ended and what it printed was heard. Raises what
        ``hear`` has raised, which has it stop in order."""
        code = await self._process.wait()
        self.let_go()
        if self._lines is not None:
            await asyncio.wait({self._lines}, timeout=LAST_WORDS)
        if self._failure is not None:
            raise self._failure
        return code

    async def _read(self, pipe: FileIO, hear: Callable[[str], None]) -> None:
        stream = StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: StreamReaderProtocol(stream), pipe)
        try:
            async for line in _printed(stream):
                # Read to the end all the same: whoever writes to a pipe that is full stands still.
                if self._failure is None:
                    self._tell(hear, line)
        finally:
            transport.close()

    def _tell(self, hear: Callable[[str], None], line: str) -> None:
        try:
            hear(line)
        except Exception as error:  # noqa: BLE001 - ended() raises it
            self._failure = error
            self.let_go()


async def _printed(stream: StreamReader) -> AsyncIterator[str]:
    """Each line that is to come."""
    kept = b""
    while chunk := await stream.read(LONGEST_LINE):
        *lines, kept = (kept + chunk).split(b"\n")
        if len(kept) > LONGEST_LINE:
            lines, kept = [*lines, kept], b""
        for line in lines:
            yield line.decode(errors="replace")
    if kept:
        yield kept.decode(errors="replace")


async def leash(
    command: Sequence[str], environment: Mapping[str, str] | None, hear: Callable[[str], None] | None = None
) -> Leashed:
    """Start it. ``hear`` gets each line that it prints, on stdout and stderr; without one they go where this process's
    go. Raises OSError."""
    with ExitStack() as theirs, ExitStack() as ours:
        stdin, tie = os.pipe()
        theirs.callback(os.close, stdin)
        ours.callback(os.close, tie)
        out: int | None = None
        heard: Heard | None = None
        if hear is not None:
            printed, out = os.pipe()
            theirs.callback(os.close, out)
            heard = ours.enter_context(FileIO(printed)), hear
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdin=stdin, stdout=out, stderr=out, start_new_session=True
        )
        ours.pop_all()
        return Leashed(process, tie, heard)


def how(code: int) -> str:
    """How a process ended, in words."""
    if code == DRAINED:
        return "was drained"
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def exit_code(code: int) -> int:
    """As a shell has it."""
    return BY_SIGNAL - code if code < 0 else code


def environment_of(database: Database) -> dict[str, str]:
    """The environment in which a process finds this database; on a command line everybody could read its password.

    What it says of the options of these processes is left out: their command lines have them all.
    """
    environment = {name: text for name, text in os.environ.items() if not name.startswith(_OPTIONS)}
    environment[SCHEMA_VARIABLE] = database.schema
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
