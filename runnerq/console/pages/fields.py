"""What is typed into forms, read; BadFields for what cannot be, by the name of the field."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from runnerq.console.models.filters import BadFields
from runnerq.errors import ConfigurationError
from runnerq.workflow.given import checked_time

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SPAN = re.compile(r"(?:in\s+)?(\d{1,9}(?:\.\d{1,3})?)\s?(ms|s|m|h|d|w)", re.IGNORECASE)


def needed(field: str, text: str) -> str:
    """The text, if there is any."""
    if not text:
        raise BadFields({field: "this cannot be empty"})
    return text


def json_of(field: str, text: str) -> Any:
    """The value of JSON text."""
    if not text:
        raise BadFields({field: 'write a value as JSON, such as true or {"ok": true}; null where there is none'})
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        if _SURROGATE.search(text):
            raise BadFields({field: "it holds half of a surrogate pair, which is no character"}) from error
        raise BadFields({field: f"this is no JSON: {error}. Text stands in double quotes."}) from error


def seconds_of(field: str, text: str) -> float | None:
    """A span of time such as ``30s``, ``5m``, ``2h``; None for nothing."""
    if not text:
        return None
    match = _SPAN.fullmatch(text)
    if match is None:
        raise BadFields({field: f"{text!r} is no span of time: write it as 30s, 5m or 2h"})
    return float(match[1]) * _UNITS[match[2].lower()]


def moment_of(field: str, text: str, now: datetime, zone: ZoneInfo) -> datetime:
    """A time: ISO text, in the zone where it names none, or so long from now, such as ``2h``."""
    try:
        at = _moment(field, text, now, zone)
        return checked_time(at, field)
    except (OverflowError, ConfigurationError) as error:
        raise BadFields({field: f"{text!r} is too far off: give a time that may come"}) from error


def _moment(field: str, text: str, now: datetime, zone: ZoneInfo) -> datetime:
    try:
        at = datetime.fromisoformat(text)
        return at if at.tzinfo is not None else at.replace(tzinfo=zone)
    except ValueError:
        pass  # then it may be a span
    if _SPAN.fullmatch(text) is None:
        raise BadFields({field: f"{text!r} is no time: write it as 2026-03-01 09:00, or 2h for so long from now"})
    return now + timedelta(seconds=seconds_of(field, text) or 0.0)


def pairs_of(field: str, text: str) -> dict[str, str] | None:
    """``name=value``, a line each; None for nothing."""
    pairs: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise BadFields({field: f"{line!r} is no pair: write name=value, a line each"})
        pairs[name.strip()] = value.strip()
    return pairs or None
