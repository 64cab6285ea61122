"""Where claims begin in a queue's order, and wake-ups in that of due times, while dead rows slow the walk.

Rules
- Usually at the beginning. A transaction that is open somewhere else keeps the rows that claims and wake-ups have made
  dead, and each of them walks over all of those: a walk that took long is followed by ones that begin where the last
  one ended.
- They last for ten times as long as the walk took, then one begins at the beginning again: what came in front of the
  place, with a higher priority or woken at an older rank, waits no longer than that.
- A walk counts as slow only if there are dead rows to be slow for: on a busy machine any walk may take long.
- A claim that comes back short from such a place names the time of the next walk from the beginning as the time when
  the next run is due. To walk at once would cost each claim of a worker with little to do the whole walk.
- Claims look for the next due time from where all that was due is known to have been woken; a little earlier, because a
  park may be written late.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from runnerq.persistence.postgres.lending import Record

SLOW = 0.001
"""Seconds of a walk from which on it is slow; over live rows alone it takes less than half of that."""

DEAD = 10_000
"""Dead rows from which on they can be the reason; these take a millisecond."""

SPAN = 10
"""How many times as long as a slow walk took the next ones begin later."""

LATE = timedelta(seconds=2)
"""How long before the time up to which all is known to be taken or woken the next one still looks."""

_FIRST = "00000000-0000-0000-0000-000000000000"

Pair = tuple[str, str]
Place = tuple[datetime, str]


def _is_slow(scanned: float, dead: int) -> bool:
    return scanned > SLOW and dead > DEAD


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

    def walked(self, scanned: float, dead: int, now: float) -> None:
        """A walk from the beginning took so long, and there are so many dead rows."""
        self._until = now + SPAN * scanned if _is_slow(scanned, dead) else 0.0

    def took(self, pairs: Iterable[Pair], last: Record | None, all_until: datetime | None) -> None:
        """What these pairs had was taken, by rank: up to ``last``, or all of it up to this time."""
        place = None if last is None else (last["rank"], last["run_id"])
        if all_until is not None:
            rest = (all_until - LATE, _FIRST)
            place = rest if place is None else max(place, rest)
        if place is not None:
            # In one order for all: of a pair that had nothing before the last one taken nothing is before it either.
            self._places.update(dict.fromkeys(pairs, place))

    def anew(self, now: float) -> timedelta:
        """How long it is until a claim begins at the beginning again."""
        return timedelta(seconds=max(0.0, self._until - now))


class DueFloor:
    """From when on one storage object looks for what is due. Times are of a monotonic clock."""

    def __init__(self) -> None:
        self._until = 0.0
        self.known: datetime | None = None
        """For claims, which look for the next due time; None is from ever."""

    def begin(self, now: float) -> datetime | None:
        """For a wake-up; None is from ever."""
        return self.known if now < self._until else None

    def walked(self, began: datetime | None, last: datetime, scanned: float, dead: int, now: float) -> None:
        """All that was due up to ``last`` has been woken, from ``began`` on, by a walk of so many seconds."""
        if began is None:
            slow = _is_slow(scanned, dead)
            self._until = now + SPAN * scanned if slow else 0.0
        else:
            slow = True
        self.known = last - LATE if slow else None
