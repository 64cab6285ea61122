"""How the demo speaks: a line an event with the seconds since the start, in colour on a terminal, plain elsewhere."""

from __future__ import annotations

import time

from rich.console import Console
from rich.text import Text

from runnerq.cli.rendering import terminal

STYLES = {
    "postgres": "blue",
    "worker 1": "magenta",
    "worker 2": "green",
    "process 3": "yellow",
    "run": "cyan",
    "kill -9": "bold red",
}


class Narrator:
    """Says what happens, when, and who did it."""

    def __init__(self) -> None:
        self.console: Console = terminal()
        self._began = time.monotonic()

    def title(self, text: str) -> None:
        self.console.print(Text(text, "bold"))
        self.console.print()

    def say(self, who: str, what: str) -> None:
        """``who`` is one of the voices; each has its colour."""
        style = STYLES[who]
        line = Text()
        line.append(f"{time.monotonic() - self._began:6.2f} s  ", "dim")
        line.append(f"{who:<9} ", style)
        line.append(what, "bold red" if who == "kill -9" else "")
        self.console.print(line)

    def verdict(self, text: str, good: bool) -> None:
        self.console.print()
        self.console.print(Text(text, "bold green" if good else "bold red"))
