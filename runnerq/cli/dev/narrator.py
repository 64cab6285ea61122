"""How `runnerq dev` speaks: a line an event, with when it was and whose it is, in colour on a terminal."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from rich.text import Text

from runnerq.cli.rendering import terminal
from runnerq.cli.telling import harmless

STYLES = {
    "dev": "bold",
    "postgres": "blue",
    "console": "magenta",
    "worker": "cyan",
    "run": "green",
}
_WIDTH = max(map(len, STYLES))


def here_and_now() -> datetime:
    """The time on this machine, as its user reads it."""
    return datetime.now().astimezone()


class Narrator:
    """Says what happens, when, and who did it. Times are this machine's."""

    def __init__(self, now: Callable[[], datetime] = here_and_now) -> None:
        self._console = terminal()
        self._now = now
        self._gone: Callable[[], None] = lambda: None

    def when_gone(self, call: Callable[[], None]) -> None:
        """Have this called when nobody reads any more what is said, as behind `| head`."""
        self._gone = call

    def say(self, who: str, what: str, style: str = "") -> None:
        """``who`` is one of the voices; further lines of ``what`` stand below the first."""
        # Whoever says it, there are other people's texts in it: keys, messages of errors, what a step prints of them.
        first, *more = harmless(what).split("\n")
        line = Text.assemble((f"{self._now():%H:%M:%S} ", "dim"), (f"{who:<{_WIDTH}}  ", STYLES[who]), (first, style))
        indent = " " * (len("00:00:00 ") + _WIDTH + 2)
        for each in more:
            line.append(f"\n{indent}")
            line.append(each, _line_style(each) or style)
        self._have_it_wait()
        try:
            self._console.print(line, soft_wrap=True)
        except SystemExit:
            # So rich has it where the pipe is broken; it is silent from then on.
            self._gone()

    def _have_it_wait(self) -> None:
        """Another program may have set the terminal so that it refuses what it cannot take at once."""
        with suppress(OSError):  # it is none
            os.set_blocking(self._console.file.fileno(), True)

    def voice(self, who: str) -> Callable[[str], None]:
        """``say`` of this one."""

        def say(what: str) -> None:
            self.say(who, what, _line_style(what) or _tone(what))

        return say


class Logged(logging.Handler):
    """Has the narrator say what this process logs itself, such as that the database does not answer for a while."""

    def __init__(self, narrator: Narrator) -> None:
        super().__init__(logging.WARNING)
        self._say = narrator.voice("dev")

    def emit(self, record: logging.LogRecord) -> None:
        self._say(f"{record.levelname} {self.format(record)}")


def _line_style(line: str) -> str:
    """The style of a line of a diff: what is on record, and what is asked now."""
    match line.lstrip()[:2]:
        case "- ":
            return "green"
        case "+ ":
            return "red"
        case _:
            return ""


def _tone(line: str) -> str:
    """What a logged line sounds like."""
    if line.startswith(("ERROR ", "CRITICAL ", "Error: ")):
        return "red"
    return "yellow" if line.startswith("WARNING ") else ""
