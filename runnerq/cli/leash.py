"""How a worker process hears that its supervisor says stop, or is gone: a pipe, which then closes.

Rules
- It comes as stdin, and user code finds /dev/null there, as systemd has it: what reads stdin must not wait for a
  supervisor that writes nothing.
- A thread watches it: an event loop that user code blocks would hear nothing.
- Who has not stopped ``LONGEST_STOP`` later, whatever keeps it, is ended as it is. What it ran is then taken up
  elsewhere; one that stayed would beat on, and hold its runs.
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future

from runnerq.cli.shared import say

LONGEST_STOP = 60.0
"""Seconds: the grace that a worker gives its steps, and as much again to give back the rest and to sign off."""

_STDIN = 0
_BROKEN_OFF = 1


class Leash:
    """A pipe that is watched from now on, until it closes. ``closed`` is then done, in a thread of its own; so many
    seconds later the process is ended, if it is there still."""

    def __init__(self, pipe: int, longest_stop: float) -> None:
        self.closed: Future[None] = Future()
        self._longest_stop = longest_stop
        threading.Thread(target=self._watch, args=(pipe,), name="runnerq-leash", daemon=True).start()

    def _watch(self, pipe: int) -> None:
        while os.read(pipe, 1024):
            pass  # nothing is ever written to it
        self.closed.set_result(None)
        time.sleep(self._longest_stop)
        try:
            say(f"worker {os.getpid()} has not stopped for {self._longest_stop:g} s, and is ended as it is")
        finally:
            # stderr may be gone with the supervisor.
            os._exit(_BROKEN_OFF)


def taken_from_stdin() -> int:
    """The pipe that came as stdin, which is /dev/null from here on, for processes that this one starts as well."""
    pipe = os.dup(_STDIN)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)
    return pipe
