"""When the ticks of a schedule come: by a cron expression in a time zone, or at an interval.

Rules
- A tick is an instant, in UTC. Which ones come does not depend on where one begins to look. (It does where a clock
  jumps a minute past a full hour, as St. John's did until 2011.)
- Zones are those of the tzdata package, on every machine.
- An expression has the five fields of Debian's cron, and means what it means there (cronsim). If one of day-of-month
  and day-of-week begins with a star, a day must fit both; else one of them is enough.
- Where clocks change: with a minute and an hour that both begin with no star, ticks are local times. One that the clock
  jumps over comes when it has jumped, one that it shows twice comes the first time. All others go by real time.
- Whatever is written costs little: an expression has 1 kB at most, and what does not come in fifty years is none.
- The ticks of an interval are so far apart from each other, from a given time on, without drift.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TypeAlias
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from runnerq.errors import ConfigurationError

MOST_EXPRESSION = 1_024
"""Characters."""
MOST_SHOWN = 100
FIELDS = (
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day-of-month", "1-31 as far as a month of the fourth field has it, L or LW"),
    ("month", "1-12 or JAN-DEC"),
    ("day-of-week", "0-7 or SUN-SAT (MON to SUN is 1-7: a range goes up), 5L or 5#2"),
)

_SOME_DAY = datetime(2024, 1, 1, tzinfo=UTC)
_MINUTE = timedelta(minutes=1)
_UNITS = (
    ("d", timedelta(days=1)),
    ("h", timedelta(hours=1)),
    ("min", _MINUTE),
    ("s", timedelta(seconds=1)),
    ("ms", timedelta(milliseconds=1)),
)


class Cron:
    """The ticks of a cron expression in a time zone. ConfigurationError if it cannot be read, or never comes."""

    __slots__ = ("_zone", "expression", "zone")

    def __init__(self, expression: str, zone: str = "UTC") -> None:
        self.expression = _checked(expression)
        self.zone = zone
        self._zone = zone_of(zone)
        try:
            CronSim(expression, _SOME_DAY)
        except CronSimError as error:
            raise ConfigurationError(_what_is_wrong(expression, str(error))) from error
        if self.next(_SOME_DAY) is None:
            raise ConfigurationError(f"cron={expression!r} never comes: no day of the next fifty years fits it")

    def ticks(self, after: datetime) -> Iterator[datetime]:
        """All ticks after this time, in order."""
        last = after
        try:
            for tick in CronSim(self.expression, after.astimezone(self._zone)):
                at = tick.astimezone(UTC)
                # Where the clock shows a time twice, cronsim may begin with the first one, which is over.
                if at > last:
                    last = at
                    yield at
        except OverflowError:
            return  # there are no more dates

    def next(self, after: datetime) -> datetime | None:
        """The first tick after this time; None if none comes within fifty years."""
        return next(self.ticks(after), None)

    def last(self, after: datetime, until: datetime) -> datetime | None:
        """The last tick after the one time and not after the other."""
        found = None
        tick = self.next(after)
        end = until
        while tick is not None and tick <= until:
            found = tick
            # By halves: years of minutes are not gone through for the last one, and cronsim's own way back has other
            # ticks where an hour comes twice.
            middle = found + (end - found) / 2
            tick = self.next(middle)
            while tick is None or tick > until:
                if middle - found < _MINUTE:
                    return found
                end = middle
                middle = found + (end - found) / 2
                tick = self.next(middle)
        return found

    def words(self) -> str:
        """The expression in English."""
        return CronSim(self.expression, _SOME_DAY).explain()


class Every:
    """Ticks at an interval, counted from ``since``."""

    __slots__ = ("_since", "_step")

    def __init__(self, seconds: float, since: datetime) -> None:
        self._since = since
        self._step = timedelta(seconds=seconds)

    def ticks(self, after: datetime) -> Iterator[datetime]:
        """All ticks after this time, in order."""
        number = (after - self._since) // self._step
        while True:
            number += 1
            try:
                tick = self._since + number * self._step
            except OverflowError:
                return  # there are no more dates
            yield tick

    def next(self, after: datetime) -> datetime | None:
        """The first tick after this time; None where there are no more dates."""
        return next(self.ticks(after), None)

    def last(self, after: datetime, until: datetime) -> datetime | None:
        """The last tick after the one time and not after the other."""
        tick = self._since + (until - self._since) // self._step * self._step
        return tick if tick > after else None

    def words(self) -> str:
        """The interval in English."""
        left = self._step
        parts = []
        for unit, size in _UNITS:
            number, left = divmod(left, size)
            if number:
                parts.append(f"{number} {unit}")
        return f"Every {' '.join(parts)}"


Rule: TypeAlias = Cron | Every


@lru_cache(maxsize=1024)
def cron(expression: str, zone: str) -> Cron:
    """The same, kept: workers ask for the same ones again and again."""
    return Cron(expression, zone)


def zone_of(name: object) -> tzinfo:
    """A time zone by its name in the tz database. ConfigurationError if there is none."""
    if name == "UTC":
        return UTC
    if isinstance(name, str) and name in _zone_names():
        return _zone(name)
    shown = repr(name)
    raise ConfigurationError(
        f"zone={shown if len(shown) <= MOST_SHOWN else f'{shown[:MOST_SHOWN]}...'} is no time zone of the tz database: "
        "give a name such as 'Europe/Berlin' or 'UTC'; a new one may need a newer tzdata package"
    )


# From the package alone, and past what the machine has: two workers must mean the same by a name.
@lru_cache(maxsize=1)
def _zone_names() -> frozenset[str]:
    return frozenset((_tzdata() / "zones").read_text("utf-8").split())


@lru_cache(maxsize=1024)
def _zone(name: str) -> ZoneInfo:
    with _tzdata().joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def _tzdata() -> Traversable:
    return resources.files("tzdata")


def _checked(expression: object) -> str:
    if not isinstance(expression, str):
        raise ConfigurationError(f"cron={expression!r}: expected a str such as '30 3 * * MON-FRI'")
    if len(expression) > MOST_EXPRESSION:
        raise ConfigurationError(
            f"cron={expression[:40]!r}... has {len(expression):,} characters, and {MOST_EXPRESSION:,} are the most"
        )
    given = len(expression.split())
    if given != len(FIELDS):
        names = ", ".join(name for name, _ in FIELDS)
        raise ConfigurationError(
            f"cron={expression!r} has {given} field{'' if given == 1 else 's'}, and there are five: {names}; every= is "
            "for intervals, those under a minute too"
        )
    return expression


def _what_is_wrong(expression: str, told: str) -> str:
    """cronsim says "Bad hour", and nothing more."""
    for (name, takes), part in zip(FIELDS, expression.split(), strict=True):
        if told.endswith(name):
            return (
                f"cron={expression!r} cannot be read: {part!r} is no {name}. It takes {takes}; * is all of them, and "
                "there are a-b, a,b and /n"
            )
    return f"cron={expression!r} cannot be read: {told}"
