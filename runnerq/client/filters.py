"""Filters of runs, checked where they are given."""

from __future__ import annotations

from datetime import datetime

import msgspec

from runnerq.ids import check_run_id
from runnerq.persistence.records import RunFilter, Status


def checked_filter(where: RunFilter | None) -> RunFilter:
    """The filter, of all runs if there is none, with statuses as a tuple.

    ValueError for what nothing could fit, TypeError for a time that is none.
    """
    if where is None:
        return RunFilter()
    if where.status is not None:
        several = (where.status,) if isinstance(where.status, str) else where.status
        where = msgspec.structs.replace(where, status=tuple(Status(status) for status in several))
    for related in (where.parent, where.root):
        if related is not None:
            check_run_id(related)
    for name, at in (("since", where.since), ("until", where.until)):
        if at is not None and not isinstance(at, datetime):
            raise TypeError(f"{name}={at!r} is no time: give a datetime with a zone, such as datetime.now(UTC)")
        if at is not None and at.utcoffset() is None:
            raise ValueError(f"{name}={at!r} has no time zone: add tzinfo, such as datetime.UTC")
    return where
