"""How a worker process hears that its supervisor says stop, or is gone: a pipe, which then closes.

Rules
- It comes as stdin, and user code finds /dev/null there, as systemd has it: what reads stdin must not wait for a
  supervisor that writes nothing.
- A thread watches it: an event loop that user code blocks would hear nothing.
- Who imports, or waits for its database, has nothing to stop in order yet, and ends at once: it may last for long.
- Who has not stopped when its time is up, whatever keeps it, is ended as it is. What it ran is then taken up elsewhere;
  one that stayed would beat on, and hold its runs.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from runnerq.cli.telling import say

_STDIN = 0
_STOPPED, _BROKEN_OFF = 0, 1
_LAST_WORDS = 1.0
"""Seconds for what is said of it."""


class Leash:
    """A pipe that is watched from now on, until it closes. ``closed`` is then done, in a thread of its own; so many
    seconds later the process is ended, if it is there still."""

    def __init__(self, pipe: int, longest_stop: float) -> None:
        self.closed: Future[None] = Future()
        self._longest_stop = longest_stop
        self._nothing_to_stop = False
        threading.Thread(target=self._watch, args=(pipe,), name="runnerq-leash", daemon=True).start()

    @contextmanager
    def nothing_to_stop(self) -> Iterator[None]:
        """Have the process end at once where the pipe closes meanwhile."""
        self._nothing_to_stop = True
        try:
            yield
        finally:
            self._nothing_to_stop = False

    def _watch(self, pipe: int) -> None:
        while os.read(pipe, 1024):
            pass  # nothing is ever written to it
        if self._nothing_to_stop:
            os._exit(_STOPPED)
        self.closed.set_result(None)
        time.sleep(self._longest_stop)
        told = f"worker {os.getpid()} has not stopped for {self._longest_stop:g} s, and is ended as it is"
        # stderr may be gone with the supervisor, or be a pipe that is full and read by nobody.
        telling = threading.Thread(target=say, args=(told,), name="runnerq-last-words", daemon=True)
        telling.start()
        telling.join(_LAST_WORDS)
        os._exit(_BROKEN_OFF)


def taken_from_stdin() -> int:
    """The pipe that came as stdin, which is /dev/null from here on, for processes that this one starts as well."""
    pipe = os.dup(_STDIN)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)
    return pipe
