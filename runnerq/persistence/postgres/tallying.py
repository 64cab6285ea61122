"""The count of what happened, minute by minute, by whoever comes to it.

Rules
- How far it has come is a snapshot, as a reader's of the tail is: nothing that commits late is missed, nothing is
  counted twice. It is moved on with what is counted, in one statement, by whom has seen it last.
- A look goes over so many transactions that it counts some thousand rows, whatever each of them has written. It is
  known from the last look how many these are, so that a burst may come as a surprise: only a look that came to the end
  of its stride says that the next may be longer, none is longer than ``_LONGEST``, and one that fails, as what is too
  much at once does, makes the next one shorter, down to a single transaction.
- A cursor of another server, as a copy of a database has it, is begun anew: what is between is not counted. Rows that
  were copied with it are counted again, into the minutes of their own times, if the new server comes to the transaction
  ids that they bear: who copies a database sets these to null (see tail.py).
"""

from __future__ import annotations

from runnerq.persistence.postgres import tail
from runnerq.persistence.postgres.core import Core

_FEW, _MANY = 2_000, 20_000
"""Rows of a look, below and above which the next one goes over more or fewer transactions."""
_LONGEST = 4_096
"""Transactions of a look, at most: of a thousand rows each, as ``start_many`` writes them, they are counted in time."""


class Tallying(Core):
    """Counts minutes."""

    _stride = 256
    """Transaction ids that the next look goes over."""

    async def tally(self) -> bool:
        places = await self._connections.fetch_prompt(self._statements["read_tally"])
        if not places or not places[0]["due"]:
            return False
        text = places[0]["seen"]
        seen, now = tail.snapshot(text), tail.snapshot(places[0]["snapshot"])
        until = now.up_to(seen.xmax + self._stride)
        if seen.xmax > now.xmax:
            seen = until = now
        try:
            moved = await self._connections.fetch_fresh(
                self._statements["tally_minutes"],
                text,
                seen.xmax,
                sorted(set(seen.open) - set(until.open)),
                until.xmax,
                list(until.open),
                until.text,
                until == now,
            )
        except BaseException:
            self._shorten()
            raise
        if not moved:
            return False
        counted = moved[0]["counted"]
        if counted > _MANY:
            self._shorten()
        elif counted < _FEW and until != now:
            self._stride = min(_LONGEST, self._stride * 2)
        return until != now

    def _shorten(self) -> None:
        self._stride = max(1, self._stride // 4)
