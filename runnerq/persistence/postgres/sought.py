"""A filter of runs, as the statements take it: which way leads to the runs that fit, and by what they are judged.

Rules
- The way is the one that passes by the fewest others: a family, what is open, what did not complete, else all.
- Ids are in the order in which they were made, so a beginning of one is a range of them; and a run was not made after
  it was started or ended, by more than ``SKEW``. It may have been long before: a child is given its id when it is asked
  for, and may be started much later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

from runnerq.persistence.records import RunFilter, Status, failed_ones

Way: TypeAlias = Literal["all", "open", "few", "unwell", "parent", "root"]

SKEW = timedelta(days=1)
"""How far the clock of whoever made an id may have been ahead of the database's."""

_STORED = {
    "pending": "pending",
    "scheduled": "pending",
    "retrying": "pending",
    "running": "running",
    "waiting": "waiting",
    "blocked": "blocked",
}
_FEW = frozenset({"running", "blocked"})
_UNWELL = ("failed", "dead_letter", "cancelled")
_MOST_READ = 6_000
_MOST_TOLD_APART = 4_000
"""Failures that are read for one page, to look for a text, or for what is alike: a tenth of a second's work."""
_DIGITS = 32
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Sought(msgspec.Struct, frozen=True):
    """``arguments`` are those of list_runs.sql from ``$3``. Without any of ``statuses`` nothing fits; None are all.
    ``most`` is how many can be looked at in a moment, where each takes long."""

    way: Way
    statuses: list[str] | None
    most: int | None
    before: tuple[object, ...]
    behind: tuple[object, ...]

    def arguments(self, look: int | None) -> tuple[object, ...]:
        if look is not None and self.most is not None:
            look = min(look, self.most)
        return (*self.before, look, *self.behind)


def sought(where: RunFilter) -> Sought:
    """How to look for what fits."""
    statuses = _statuses(where)
    way = _way(where, statuses)
    low, high = _ids(where)
    return Sought(
        way,
        statuses,
        _most(where),
        before=(
            statuses,
            where.workflow,
            where.queue,
            where.key_prefix,
            None if where.metadata is None else _patterns(where.metadata),
            where.parent,
            where.root,
            where.since,
            where.until,
            sorted({_STORED[status] for status in statuses or ()}) if way in ("open", "few") else None,
            low,
            high,
        ),
        behind=(
            where.version,
            where.roots,
            None if where.error is None else _json(where.error)[1:-1],
            where.fingerprint,
            where.ended_since,
            where.ended_until,
            where.worker,
        ),
    )


def _most(where: RunFilter) -> int | None:
    if where.fingerprint is not None:
        return _MOST_TOLD_APART
    return None if where.error is None else _MOST_READ


def _statuses(where: RunFilter) -> list[str] | None:
    """Those that may fit; None for all."""
    if where.fingerprint is not None:
        where = failed_ones(where)
    given = _given(where.status)
    if where.error is not None:
        given = [status for status in _UNWELL if given is None or status in given]
    if where.worker is not None:
        # Who has a run claimed is known of no others.
        given = [status for status in ("running",) if given is None or status in given]
    return given


def _given(status: Iterable[Status] | Status | str | None) -> list[str] | None:
    match status:
        case None:
            return None
        case str():
            return [str(status)]
        case _:
            return list(dict.fromkeys(map(str, status)))  # what is counted of each status is added up


def _way(where: RunFilter, statuses: list[str] | None) -> Way:
    if where.parent is not None:
        return "parent"
    if where.root is not None:
        return "root"
    if not statuses:
        return "all"
    if _FEW.issuperset(statuses):
        return "few"
    if _STORED.keys() >= set(statuses):
        return "open"
    return "unwell" if frozenset(_UNWELL).issuperset(statuses) else "all"


def _ids(where: RunFilter) -> tuple[str, str]:
    """The first and the last id that may fit."""
    prefix = where.id_prefix or ""
    low, high = prefix.ljust(_DIGITS, "0"), prefix.ljust(_DIGITS, "f")
    for until in (where.until, where.ended_until):
        if until is not None:
            high = min(high, _last_made_by(until))
    return _uuid(low), _uuid(high)


def _last_made_by(until: datetime) -> str:
    until = until.astimezone(UTC)
    if until < _EPOCH:
        return "0" * _DIGITS
    milliseconds = (min(until, datetime.max.replace(tzinfo=UTC) - SKEW) + SKEW - _EPOCH) // _MILLISECOND
    return f"{milliseconds:012x}".ljust(_DIGITS, "f")


def _uuid(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _patterns(metadata: Mapping[str, str]) -> list[str]:
    """A regular expression for each pair, over JSON text: taking the text apart would fail on a NUL in any run's."""
    return [
        rf"[{{,]\s*{re.escape(_json(name))}\s*:\s*{re.escape(_json(value))}\s*[,}}]" for name, value in metadata.items()
    ]


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()
