"""What a check has found."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Level: TypeAlias = Literal["ok", "warn", "error"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What a check has found: ``error`` where runs cannot go on or can be lost, ``warn`` where they are slower, or may
    come to harm. ``advice`` is what to do; ``details`` are a line each of what it is about."""

    check: str
    level: Level
    found: str
    advice: str | None = None
    details: tuple[str, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All findings. ``skipped`` are the checks that had to be left out, because something before them is wrong."""

    ok: bool
    place: str
    findings: tuple[Finding, ...]
    skipped: tuple[str, ...] = ()


def ok(check: str, found: str, *details: str) -> Finding:
    """Nothing is wrong here."""
    return Finding(check=check, level="ok", found=found, details=details)


def warn(check: str, found: str, advice: str, *details: str) -> Finding:
    """Something should be seen to."""
    return Finding(check=check, level="warn", found=found, advice=advice, details=details)


def error(check: str, found: str, advice: str, *details: str) -> Finding:
    """Something must be seen to."""
    return Finding(check=check, level="error", found=found, advice=advice, details=details)


def many(count: int, thing: str, things: str | None = None) -> str:
    """So many of them, in words."""
    return f"{count:,} {thing if count == 1 else things or f'{thing}s'}"


def span(seconds: float) -> str:
    """A time span for people, by its largest unit."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def size(count: float) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
