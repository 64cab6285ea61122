"""How times, spans and sizes are written on pages. ``static/ui.js`` writes the same where it counts on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise

_FAR = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"), (1, ""))
_SIZES = ("kB", "MB", "GB", "TB")


def span(seconds: float | timedelta) -> str:
    """How long something took or takes, in its two largest units: ``45 ms``, ``1.23 s``, ``1 m 3 s``, ``3 d 2 h``."""
    value = max(0.0, seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds))
    if value < 0.9995:
        return f"{round(value * 1000)} ms"
    if value < 9.995:
        return f"{value:.2f} s"
    return _units(int(value))


def ago(at: datetime, now: datetime) -> str:
    """How far a time is from now: ``just now``, ``42 s ago``, ``3 min ago``, ``in 2 h 5 min``, ``5 d ago``.

    In one unit; of what lies hours or days ahead in two, since somebody may have to be there in time.
    """
    passed = (now - at).total_seconds()
    far = abs(passed)
    for (length, word), (lesser, part) in pairwise(_FAR):
        if far >= length:
            words, rest = f"{int(far // length)} {word}", int(far % length // lesser)
            if passed > 0:
                return f"{words} ago"
            return f"in {words} {rest} {part}" if rest and length > 60 else f"in {words}"
    return "just now"


def _units(seconds: int) -> str:
    """The two largest units; the second is left out where it is none."""
    for word, length, lesser, part in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if seconds >= length:
            rest = seconds % length // part
            return f"{seconds // length} {word}" + (f" {rest} {lesser}" if rest else "")
    return f"{seconds} s"


def at(when: datetime, zone: tzinfo) -> str:
    """A time in a zone, to the second: ``2026-11-30 15:48:03``."""
    return f"{when.astimezone(zone):%Y-%m-%d %H:%M:%S}"


def utc(when: datetime) -> str:
    """A time as machines read it: RFC 3339 in UTC, to the millisecond."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def short(run_id: str) -> str:
    """An id by its ends: the first part is its time, and the last one differs between runs of one moment."""
    return f"{run_id[:8]}…{run_id[-6:]}"


def size(count: int | None) -> str:
    """Bytes, in steps of a thousand: ``812 B``, ``1.2 kB``, ``900 kB``."""
    if count is None:
        return ""
    value = float(count)
    if value < 1000:
        return f"{count} B"
    for unit in _SIZES[:-1]:
        value /= 1000
        if value < 999.5:
            return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"
    return f"{value / 1000:.1f} {_SIZES[-1]}"
