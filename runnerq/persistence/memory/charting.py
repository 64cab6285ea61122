"""What went wrong alike, and what was done when."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

from runnerq.persistence.memory import finding
from runnerq.persistence.memory.book import Book
from runnerq.persistence.records import (
    BUCKETS,
    MOST_GROUPS,
    Activity,
    FailureGroup,
    Failures,
    RunFilter,
    Status,
    bucket_of,
    failed_ones,
    fingerprint,
)


def failures(book: Book, where: RunFilter, cap: int) -> Failures:
    """The newest that failed, by what they failed with."""
    found, capped = finding.newest(book, failed_ones(where), cap, None)
    alike: dict[tuple[str, str, str], list[str]] = {}
    for run_id in found:
        outcome = book.outcomes[run_id]
        key = (book.runs[run_id].new.name, outcome.status, fingerprint(outcome.error, outcome.reason))
        alike.setdefault(key, []).append(run_id)
    groups = [_group(book, *key, run_ids) for key, run_ids in alike.items()]
    groups.sort(key=lambda group: (-group.count, group.sample_id))
    return Failures(groups=tuple(groups[:MOST_GROUPS]), capped=capped or len(groups) > MOST_GROUPS)


def _group(book: Book, name: str, status: str, mark: str, run_ids: Sequence[str]) -> FailureGroup:
    ends = [book.outcomes[run_id].ended_at for run_id in run_ids]
    sample = book.outcomes[max(run_ids)]
    return FailureGroup(
        name=name,
        status=Status(status),
        fingerprint=mark,
        count=len(run_ids),
        first_at=min(ends),
        last_at=max(ends),
        sample_id=sample.run_id,
        error=sample.error,
        reason=sample.reason,
    )


def activity(book: Book, since: datetime, until: datetime, minutes: int, names: Sequence[str] | None) -> list[Activity]:
    """What happened, from what is there: a run that was deleted is not counted any more."""
    spans: defaultdict[tuple[datetime, str], Counter[str]] = defaultdict(Counter)
    durations: defaultdict[tuple[datetime, str], list[int]] = defaultdict(lambda: [0] * BUCKETS)

    def span(at: datetime, name: str) -> tuple[datetime, str]:
        return since + (at - since) // timedelta(minutes=minutes) * timedelta(minutes=minutes), name

    for run_id, run in book.runs.items():
        name = "" if names is None else run.new.name
        if names and name not in names:
            continue
        if since <= run.created_at < until:
            spans[span(run.created_at, name)]["started"] += 1
        outcome = book.outcomes.get(run_id)
        if outcome is not None and since <= outcome.ended_at < until:
            at = span(outcome.ended_at, name)
            spans[at][outcome.status] += 1
            if run.started_at is not None:
                durations[at][bucket_of((outcome.ended_at - run.started_at).total_seconds())] += 1
    return [
        Activity(
            at=at,
            name=name or None,
            started=counted["started"],
            completed=counted["completed"],
            failed=counted["failed"],
            dead_letter=counted["dead_letter"],
            cancelled=counted["cancelled"],
            durations=tuple(durations.get((at, name), ())),
        )
        for (at, name), counted in sorted(spans.items())
    ]
