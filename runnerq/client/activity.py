"""What was done when, and what failed alike: the stored records in the API's shape."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from runnerq.client.filters import check_time
from runnerq.client.info import failure_of
from runnerq.persistence import records
from runnerq.persistence.records import Status, percentile
from runnerq.retry import seconds

MINUTE = 60
MOST_SPANS = 20_000


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of one workflow or activity that failed alike, or are dead letters alike.

    ``type`` and ``message`` are those of the newest one, ``sample_id``, and its ``reason``; type and message are None
    for a run that ended without an error. ``RunFilter(workflow=, status=, fingerprint=)`` finds them. Times are those
    of ends. Errors that are sealed by a codec are one group, whatever they say.
    """

    workflow: str
    status: Status
    type: str | None
    message: str | None
    reason: str | None
    fingerprint: str
    count: int
    first_at: datetime
    last_at: datetime
    sample_id: str


class Failures(msgspec.Struct, frozen=True, kw_only=True):
    """The groups, the largest first. ``capped`` says that only the newest runs, or the largest groups, are in it."""

    groups: tuple[FailureGroup, ...]
    capped: bool


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in a span of time that begins ``at``: runs that were started, and that ended, by how.

    ``workflow`` is whose, None: of all. ``p50`` and ``p95`` are seconds from when a run was first taken up to its end,
    right to within a third, and no longer than the longest took; None where nothing ended.
    """

    at: datetime
    workflow: str | None
    started: int
    completed: int
    failed: int
    dead_letter: int
    cancelled: int
    p50: float | None
    p95: float | None


def failures_of(found: records.Failures) -> Failures:
    return Failures(groups=tuple(_group_of(group) for group in found.groups), capped=found.capped)


def _group_of(group: records.FailureGroup) -> FailureGroup:
    failure = failure_of(group.error, group.sample_id)
    return FailureGroup(
        workflow=group.name,
        status=group.status,
        type=None if failure is None else failure.type,
        message=None if failure is None else failure.message,
        reason=group.reason,
        fingerprint=group.fingerprint,
        count=group.count,
        first_at=group.first_at,
        last_at=group.last_at,
        sample_id=group.sample_id,
    )


def activity_of(record: records.Activity) -> Throughput:
    return Throughput(
        at=record.at,
        workflow=record.name,
        started=record.started,
        completed=record.completed,
        failed=record.failed,
        dead_letter=record.dead_letter,
        cancelled=record.cancelled,
        p50=percentile(record.durations, 0.5),
        p95=percentile(record.durations, 0.95),
    )


def checked_span(since: datetime, until: datetime, span: float | timedelta) -> tuple[datetime, datetime, int]:
    """Whole minutes that hold the times, and how many are a span. ValueError, TypeError for what can be none."""
    check_time("since", since)
    check_time("until", until)
    given = seconds(span, "span=")
    if given < MINUTE or given % MINUTE:
        raise ValueError(f"span={span!r}: expected whole minutes")
    first, last = _minute(since), _minute(until)
    if last < until:
        last += timedelta(minutes=1)
    if (last - first) / timedelta(seconds=given) > MOST_SPANS:
        raise ValueError(f"from {since} to {until} are more than {MOST_SPANS:,} spans of {span!r}: take longer ones")
    return first, last, int(given) // MINUTE


def all_spans(
    found: Iterable[records.Activity], workflow: str | None, since: datetime, until: datetime, minutes: int
) -> list[Throughput]:
    """Every span of a workflow, or of all, from one minute to another, also those in which nothing happened."""
    by_time = {record.at: record for record in found}
    spans: list[Throughput] = []
    at = since
    while at < until:
        spans.append(activity_of(by_time.get(at) or records.Activity(at=at, name=workflow)))
        at += timedelta(minutes=minutes)
    return spans


def _minute(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(second=0, microsecond=0)
