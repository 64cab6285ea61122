"""The tail of what happened: which transactions a reader has seen, and where it goes on.

Rules
- Every row that tells of something carries the id of the transaction that wrote it. Ids are given out in order, but
  transactions end in any order, so that "greater than the last one" would miss what commits late.
- A cursor is therefore a snapshot: all that was over then has been seen. What happened since is what is over in the
  present snapshot and was not in that one. Nothing is missed, nothing comes twice, and a transaction that is held
  open holds nothing up but itself.
- A page that does not hold everything between two snapshots has a cursor that names both, and the last place.
- A reader that is far behind is taken along in steps of transaction ids, so that no page reads all that it has missed.
- Within a page, order is that of the transactions' ids. What caused something is mostly told before it, because it was
  committed before the other transaction first wrote; one that wrote and then waited for the other is told before it.
- Ids are those of one server. Rows that were copied to another as rows (pg_restore, logical replication) keep the old
  server's, and would be told as new when the new one's have come so far: whoever copies sets them to null.
"""

from __future__ import annotations

import re
from uuid import UUID

import msgspec

from runnerq.persistence.postgres.lending import Record

STEP = 50
"""Transaction ids that a look goes over at first, for each may have written a thousand rows; twice as many after one
that filled less than a quarter of its page, and sixteen times as many after one in which nothing happened."""

_SNAPSHOT = r"(\d{1,19}):(\d{1,19}):((?:\d{1,19}(?:,\d{1,19})*)?)"
_CURSOR = re.compile(rf"{_SNAPSHOT}(?:/{_SNAPSHOT}/(\d{{1,19}})\.([0-2])\.([0-9a-f-]{{36}}))?", re.ASCII)


class Snapshot(msgspec.Struct, frozen=True):
    """Which transactions are over: those below ``xmax`` that are not ``open``."""

    xmax: int
    open: tuple[int, ...]

    @property
    def text(self) -> str:
        xmin = min(self.open, default=self.xmax)
        return f"{xmin}:{self.xmax}:{','.join(map(str, self.open))}"

    def up_to(self, xmax: int) -> Snapshot:
        """The same, as if nothing from there on had begun. What is between two snapshots and up to here is a beginning
        of what is between the two, in the order of the ids."""
        if xmax >= self.xmax:
            return self
        return Snapshot(xmax, tuple(xid for xid in self.open if xid < xmax))


class Place(msgspec.Struct, frozen=True):
    """Where a row stands between two snapshots."""

    xid: int
    source: int
    id: str


BEGINNING = Place(-1, 0, str(UUID(int=0)))


class Cursor(msgspec.Struct, frozen=True):
    """``seen`` is what a reader has seen; ``until`` and ``place`` are set in the midst of a page."""

    seen: Snapshot
    until: Snapshot | None = None
    place: Place = BEGINNING

    @property
    def text(self) -> str:
        if self.until is None:
            return self.seen.text
        place = self.place
        return f"{self.seen.text}/{self.until.text}/{place.xid}.{place.source}.{place.id}"

    def next_stop(self, now: Snapshot, step: int) -> Snapshot:
        """Up to where to look next: over so many ids, and not beyond what the reader has begun with."""
        return (self.until or now).up_to(max(self.seen.xmax, self.place.xid) + step)


def parsed(text: str, now: Snapshot) -> Cursor:
    """The cursor.

    Raises:
        ValueError: it is none, or one of a server whose transactions have come farther.
    """
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:200]!r} is no cursor of events: give one that events() has answered with, or None")
    _, xmax, open_, _, until_xmax, until_open, xid, source, row_id = found.groups()
    seen = _snapshot(xmax, open_)
    if max(seen.xmax, int(until_xmax or 0)) > now.xmax:
        raise ValueError(f"{text!r} is a cursor of another server, or of a copy of this one: begin anew with None")
    if until_xmax is None:
        return Cursor(seen)
    return Cursor(seen, _snapshot(until_xmax, until_open), Place(int(xid), int(source), str(UUID(row_id))))


def at(record: Record, seen: Snapshot, until: Snapshot) -> str:
    """The cursor behind a row of read_events.sql."""
    return Cursor(seen, until, Place(record["xid"], record["source"], record["id"])).text


def snapshot(text: str) -> Snapshot:
    """What Postgres calls a snapshot."""
    _, xmax, open_ = text.split(":")
    return _snapshot(xmax, open_)


def _snapshot(xmax: str, open_: str) -> Snapshot:
    return Snapshot(int(xmax), tuple(map(int, open_.split(","))) if open_ else ())
