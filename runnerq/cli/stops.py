"""What SIGTERM and Ctrl-C ask of a process that keeps others: the first to stop in order, the second to end at once.

Rules
- A terminal that is closed (SIGHUP) asks to stop in order, however often, since a shell may say so beside the system.
  Where whoever started this process has had it ignore that, as nohup does, it goes on.
- The others are in sessions of their own, so that a terminal's Ctrl-C reaches this process alone.
- Who signals all of them (systemd does) signals each once: this process passes no signal on, for a second one would end
  a worker at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def on_hangup(loop: asyncio.AbstractEventLoop, told: Callable[[], None]) -> None:
    """Have this called whenever the terminal is closed, unless that is ignored."""
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, told)


class Stops:
    """``asked`` is set by the first signal, ``first``, which calls ``said``; the second one, ``second``, calls
    ``at_once``."""

    def __init__(self, said: Callable[[], None], at_once: Callable[[], None]) -> None:
        self.asked = asyncio.Event()
        self.first: signal.Signals | None = None
        self.second: signal.Signals | None = None
        self._said = said
        self._at_once = at_once

    def listen(self) -> None:
        """From now on."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.signalled, number)
        on_hangup(loop, self.ask)

    def ask(self) -> None:
        """The same as the first signal, for another reason than one."""
        if not self.asked.is_set():
            self.asked.set()
            self._said()

    def signalled(self, number: signal.Signals) -> None:
        if not self.asked.is_set():
            self.first = number
            self.ask()
            return
        self.second = number
        self._at_once()

    def end_as_asked(self) -> None:
        """End this process by the second signal, if there was one: as if it were not caught, which is what a worker
        does."""
        if self.second is not None:
            signal.signal(self.second, signal.SIG_DFL)
            os.kill(os.getpid(), self.second)
