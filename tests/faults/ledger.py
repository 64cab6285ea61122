"""A log outside the database: what was asked, accepted, done and seen, whatever becomes of the server.

Rules
- A book is a file that is only appended to, one line a write: a killed process leaves all that it had written.
- A line begins with the time of the machine's real clock. The server runs on the same machine, so these times compare
  with its commit times; a worker whose own clock is off writes the true time all the same.

| book | a line says | by |
|---|---|---|
| asked | a run with this key will be asked for | load |
| accepted | key, run id: the start was answered | load |
| sent | run id: its signal was answered | load |
| results | run id, status, result: as the waiting client saw it | load |
| ran | idempotency key, attempt: this attempt has its side effect | worker |
| claimed | worker id, run id, token, crashes | worker |
| mended | how many: a sweep has found something | worker |
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

FOLDER_VARIABLE = "RUNNERQ_FAULTS_LEDGER"


def real_time() -> float:
    """Seconds since 1970, also in a process whose ``time.time`` is off."""
    return time.clock_gettime(time.CLOCK_REALTIME)


class Line(msgspec.Struct, frozen=True):
    """One line of a book."""

    at: float
    words: tuple[str, ...]


class Ledger:
    """The books of one folder. Any number of processes may write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, int] = {}

    @classmethod
    def of_environment(cls) -> Ledger:
        return cls(Path(os.environ[FOLDER_VARIABLE]))

    def write(self, book: str, *words: object) -> None:
        self.write_all(book, [words])

    def write_all(self, book: str, lines: list[tuple[object, ...]]) -> None:
        now = f"{real_time():.6f}"
        text = "".join("\t".join((now, *map(str, words))) + "\n" for words in lines)
        if text:
            os.write(self._descriptor(book), text.encode())

    def read(self, book: str) -> Iterator[Line]:
        path = self._folder / book
        if path.exists():
            for line in path.read_text().splitlines():
                at, *words = line.split("\t")
                yield Line(float(at), tuple(words))

    def _descriptor(self, book: str) -> int:
        if book not in self._open:
            self._open[book] = os.open(self._folder / book, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        return self._open[book]
