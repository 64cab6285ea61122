"""What every part of the in-memory storage stands on: the book, its lock, the clock, and who listens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from runnerq.clock import Clock, SystemClock
from runnerq.persistence.memory.book import Book
from runnerq.persistence.memory.wakeups import Heard, Wakeups


class Core:
    """One book, for one writer or reader at a time, from any thread."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = clock or SystemClock()
        self._book = Book()
        self._wakeups = Wakeups()
        self._lock = threading.RLock()

    @contextmanager
    def writing(self) -> Iterator[tuple[Book, datetime]]:
        """The book and the time, alone; who listens is told of what changed when it is left."""
        with self._lock:
            self._book.heard = Heard()
            yield self._book, self._clock.now()
            wake = self._book.heard.wake()
            if wake is not None:
                self._wakeups.deliver(wake)

    @contextmanager
    def _reading(self) -> Iterator[tuple[Book, datetime]]:
        with self._lock:
            yield self._book, self._clock.now()
