"""Filters of runs, checked where they are given."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from runnerq.ids import check_run_id
from runnerq.persistence.records import RunFilter, Status

LONGEST_SEARCHED = 200
"""Characters of an error's text that may be searched for."""

_HEX = re.compile(r"[0-9a-f]{1,32}")
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


def checked_filter(where: RunFilter | None) -> RunFilter:
    """The filter, of all runs if there is none, with statuses as a tuple, each once.

    ValueError for what nothing could fit, TypeError for a time that is none.
    """
    if where is None:
        return RunFilter()
    if where.status is not None:
        several = (where.status,) if isinstance(where.status, str) else where.status
        where = msgspec.structs.replace(where, status=tuple(dict.fromkeys(map(Status, several))))
    for related in (where.parent, where.root):
        if related is not None:
            check_run_id(related)
    _check_times(where)
    if where.id_prefix is not None:
        where = msgspec.structs.replace(where, id_prefix=_checked_prefix(where.id_prefix))
    if where.worker is not None and not 0 < where.worker < 1 << 63:
        raise ValueError(f"worker={where.worker!r} is no worker's id: take that of one of client.stats().workers")
    if where.error is not None and not 0 < len(where.error) <= LONGEST_SEARCHED:
        raise ValueError(f"error={where.error!r}: expected 1 to {LONGEST_SEARCHED} characters of an error's text")
    if where.fingerprint is not None and not _FINGERPRINT.fullmatch(where.fingerprint):
        raise ValueError(f"fingerprint={where.fingerprint!r} is none: take that of a group of client.failures()")
    return where


def check_time(name: str, at: object) -> None:
    """ValueError or TypeError for what is no time with a zone."""
    if not isinstance(at, datetime):
        raise TypeError(f"{name}={at!r} is no time: give a datetime with a zone, such as datetime.now(UTC)")
    if at.utcoffset() is None:
        raise ValueError(f"{name}={at!r} has no time zone: add tzinfo, such as datetime.UTC")


def _check_times(where: RunFilter) -> None:
    for name in ("since", "until", "ended_since", "ended_until"):
        at = getattr(where, name)
        if at is not None:
            check_time(name, at)


def _checked_prefix(text: str) -> str:
    """The prefix in lower case and without hyphens, as a storage takes it."""
    digits = text.lower().replace("-", "")
    if not _HEX.fullmatch(digits):
        raise ValueError(f"id_prefix={text!r} begins no run's id: expected up to 32 digits of 0 to 9 and a to f")
    return digits
