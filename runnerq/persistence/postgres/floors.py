"""Where claims begin in a queue's order while dead rows slow the walk to what is ready.

Rules
- Usually at the beginning. A transaction that is open somewhere else keeps the rows that claims have made dead, and
  each claim walks over all of them: a walk that took long is followed by claims that begin where the last one ended.
- They last for ten times as long as the walk took, then one begins at the beginning again: what came in front of the
  place, with a higher priority or woken at an older rank, waits no longer than that.
- A walk counts as slow only if there are dead rows to be slow for: on a busy machine any walk may take long.
- A claim that comes back short is made again from the beginning at once, so that nothing ready is overlooked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from runnerq.persistence.postgres.lending import Record

SLOW = 0.004
"""Seconds of a walk from which on it is slow; over live rows alone it takes a tenth of that."""

DEAD = 10_000
"""Dead rows from which on they can be the reason; these take a millisecond."""

SPAN = 10
"""How many times as long as a slow walk took the next ones begin later."""

Pair = tuple[str, str]
Place = tuple[datetime, str]


class Floors:
    """The places of one storage object. Times are of a monotonic clock."""

    def __init__(self) -> None:
        self._places: dict[Pair, Place] = {}
        self._until = 0.0

    def begin(self, pairs: Iterable[Pair], now: float) -> list[Place | None]:
        """Where to begin in each pair's order; None is its beginning."""
        if now >= self._until:
            return [None for _ in pairs]
        return [self._places.get(pair) for pair in pairs]

    def walked(self, scanned: float | None, dead: int, now: float) -> None:
        """A walk from the beginning took so long, and there are so many dead rows."""
        slow = scanned is not None and scanned > SLOW and dead > DEAD
        self._until = now + SPAN * scanned if scanned is not None and slow else 0.0

    def took(self, records: Sequence[Record]) -> None:
        """These runs were taken, in the order of their ranks."""
        for record in records:
            self._places[record["queue"], record["served"]] = (record["rank"], record["run_id"])
