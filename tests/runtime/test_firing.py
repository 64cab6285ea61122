"""What a due schedule does: what becomes of ticks that nobody was up for, in two zones across a change of the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from runnerq.persistence.records import Definition, Firing, Limit, Missed, Overlap, ScheduleRecord
from runnerq.persistence.scheduling import MOST_RUNS
from runnerq.runtime.firing import firing_of
from runnerq.testing.conformance.schedules import a_schedule

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def a_record(next_at: str, **given: Any) -> ScheduleRecord:
    """A schedule whose next tick was to come then."""
    row = a_schedule(**{"every": None} | given)
    return ScheduleRecord(
        row=row, serial=7, since=at("2025-01-01 00:00"), created_at=at("2025-01-01 00:00"), next_at=at(next_at)
    )


def ticks_of(firing: Firing) -> list[str]:
    """The ticks that have a run, in UTC, as its metadata says."""
    found = [msgspec.json.decode(run.metadata or "{}")["scheduled_for"] for run in firing.runs]
    assert [run.key for run in firing.runs] == [f"nightly@{tick}" for tick in found]
    return found


HOURLY_IN_BERLIN = {"cron": "0 * * * *", "zone": BERLIN}
NIGHTLY_IN_BERLIN = {"cron": "30 2 * * *", "zone": BERLIN}
NIGHTLY_IN_NEW_YORK = {"cron": "30 1 * * *", "zone": NEW_YORK}

# Four nights without a worker, over the change to summer time (Berlin) and to winter time (New York).
SPRING = ["2025-03-29T01:30:00Z", "2025-03-30T01:00:00Z", "2025-03-31T00:30:00Z", "2025-04-01T00:30:00Z"]
AUTUMN = ["2025-11-01T05:30:00Z", "2025-11-02T05:30:00Z", "2025-11-03T06:30:00Z", "2025-11-04T06:30:00Z"]


@pytest.mark.parametrize(
    ("rule", "next_at", "now", "missed", "ticks", "then"),
    [
        # On time, by whatever rule.
        (NIGHTLY_IN_BERLIN, "2025-03-30 01:00", "2025-03-30 01:00", "skip", SPRING[1:2], SPRING[2]),
        (NIGHTLY_IN_BERLIN, "2025-03-30 01:00", "2025-03-30 01:00", "once", SPRING[1:2], SPRING[2]),
        (NIGHTLY_IN_BERLIN, "2025-03-30 01:00", "2025-03-30 01:00", "all", SPRING[1:2], SPRING[2]),
        (NIGHTLY_IN_NEW_YORK, "2025-11-02 05:30", "2025-11-02 05:31", "skip", AUTUMN[1:2], AUTUMN[2]),
        # Four were missed.
        (NIGHTLY_IN_BERLIN, "2025-03-29 01:30", "2025-04-01 12:00", "skip", [], "2025-04-02T00:30:00Z"),
        (NIGHTLY_IN_BERLIN, "2025-03-29 01:30", "2025-04-01 12:00", "once", SPRING[3:], "2025-04-02T00:30:00Z"),
        (NIGHTLY_IN_BERLIN, "2025-03-29 01:30", "2025-04-01 12:00", "all", SPRING, "2025-04-02T00:30:00Z"),
        (NIGHTLY_IN_NEW_YORK, "2025-11-01 05:30", "2025-11-04 12:00", "skip", [], "2025-11-05T06:30:00Z"),
        (NIGHTLY_IN_NEW_YORK, "2025-11-01 05:30", "2025-11-04 12:00", "once", AUTUMN[3:], "2025-11-05T06:30:00Z"),
        (NIGHTLY_IN_NEW_YORK, "2025-11-01 05:30", "2025-11-04 12:00", "all", AUTUMN, "2025-11-05T06:30:00Z"),
        # Three were missed, and the last one is on time.
        (NIGHTLY_IN_BERLIN, "2025-03-29 01:30", "2025-04-01 00:30", "skip", SPRING[3:], "2025-04-02T00:30:00Z"),
        (NIGHTLY_IN_NEW_YORK, "2025-11-01 05:30", "2025-11-04 06:30", "skip", AUTUMN[3:], "2025-11-05T06:30:00Z"),
        # One alone, late by an hour.
        (HOURLY_IN_BERLIN, "2025-03-30 01:00", "2025-03-30 01:59", "skip", [], "2025-03-30T02:00:00Z"),
        (
            HOURLY_IN_BERLIN,
            "2025-03-30 01:00",
            "2025-03-30 01:59",
            "once",
            ["2025-03-30T01:00:00Z"],
            "2025-03-30T02:00:00Z",
        ),
        (
            {"every": 1800.0},
            "2025-03-30 01:00",
            "2025-03-30 02:10",
            "once",
            ["2025-03-30T02:00:00Z"],
            "2025-03-30T02:30:00Z",
        ),
    ],
)
def test_missed_ticks_are_run_as_the_schedule_says(
    rule: dict[str, Any], next_at: str, now: str, missed: Missed, ticks: list[str], then: str
) -> None:
    firing = firing_of(a_record(next_at, missed=missed, **rule), at(now))
    assert ticks_of(firing) == ticks
    assert firing.next_at == datetime.fromisoformat(then)
    assert not firing.behind


def test_many_missed_ticks_are_run_so_many_a_firing_and_overlap_is_judged_once() -> None:
    record = a_record("2025-01-01 00:00", cron="* * * * *", missed="all", overlap="skip")
    now = at("2025-01-01 00:00") + timedelta(minutes=2 * MOST_RUNS + 4)
    first = firing_of(record, now)
    assert (len(first.runs), first.overlap, first.behind) == (MOST_RUNS, "skip", True)
    second = firing_of(msgspec.structs.replace(record, next_at=first.next_at, behind=True), now)
    assert (len(second.runs), second.overlap, second.behind) == (MOST_RUNS, "allow", True)
    last = firing_of(msgspec.structs.replace(record, next_at=second.next_at, behind=True), now)
    assert (len(last.runs), last.overlap, last.behind) == (5, "allow", False)
    ticks = [tick for firing in (first, second, last) for tick in ticks_of(firing)]
    assert len(set(ticks)) == 2 * MOST_RUNS + 5
    assert last.next_at is not None
    assert last.next_at > now


def test_large_arguments_are_fewer_runs_a_firing() -> None:
    record = a_record("2025-01-01 00:00", cron="* * * * *", missed="all", input=f'["{"x" * 1_000_000}"]')
    firing = firing_of(record, at("2025-01-01 01:00"))
    assert (len(firing.runs), firing.behind) == (8, True)
    assert firing.next_at == at("2025-01-01 00:08")
    huge = msgspec.structs.replace(record, row=msgspec.structs.replace(record.row, input=f'["{"x" * 20_000_000}"]'))
    assert len(firing_of(huge, at("2025-01-01 01:00")).runs) == 1


@pytest.mark.parametrize("overlap", ["allow", "skip", "cancel"])
def test_a_firing_carries_what_was_seen_and_what_becomes_of_it(overlap: Overlap) -> None:
    record = a_record("2025-01-01 00:00", cron="0 0 * * *", overlap=overlap)
    firing = firing_of(record, at("2025-01-01 00:00"))
    assert (firing.name, firing.serial, firing.overlap) == ("nightly", 7, overlap)
    assert (firing.last_at, firing.next_at) == (at("2025-01-01 00:00"), at("2025-01-02 00:00"))


def test_the_run_of_a_tick_is_what_was_put() -> None:
    record = a_record(
        "2025-01-01 00:00", cron="0 0 * * *", queue="reports", priority=1, metadata='{"team":"a"}',
        options='{"timeout":5}', limit=Limit("stripe"), input="[1]",
    )  # fmt: skip
    [run] = firing_of(record, at("2025-01-01 00:00")).runs
    assert (run.served, run.queue, run.priority, run.input) == ("order@1", "reports", 1, "[1]")
    assert (run.options, run.limit, run.due_at) == ('{"timeout":5}', Limit("stripe"), None)
    assert msgspec.json.decode(run.metadata or "") == {
        "team": "a", "schedule": "nightly", "scheduled_for": "2025-01-01T00:00:00Z",
    }  # fmt: skip


def test_by_name_it_is_the_highest_version_that_is_served_with_what_is_declared() -> None:
    known = [
        Definition(kind="workflow", name="order", version=3, queue="default", build="b"),
        Definition(
            kind="workflow", name="order", version=2, queue="slow", build="b", served=True,
            options='{"priority":0,"metadata":{"team":"b","size":"l"}}',
        ),
    ]  # fmt: skip
    record = a_record("2025-01-01 00:00", cron="0 0 * * *", kind=None, version=0, metadata='{"team":"a"}')
    [run] = firing_of(record, at("2025-01-01 00:00"), known).runs
    assert (run.version, run.queue, run.priority) == (2, "slow", 0)
    assert msgspec.json.decode(run.metadata or "")["team"] == "a"
    assert msgspec.json.decode(run.metadata or "")["size"] == "l"
    [run] = firing_of(record, at("2025-01-01 00:00"), known[:1]).runs
    assert (run.version, run.queue, run.priority) == (3, "default", 2)
    [run] = firing_of(record, at("2025-01-01 00:00"), []).runs
    assert run.served == "order@?"


def test_jitter_is_the_same_whoever_works_it_out_and_within_its_bound() -> None:
    record = a_record("2025-01-01 00:00", cron="* * * * *", missed="all", jitter=3600.0)
    now = at("2025-01-01 00:10")
    runs = firing_of(record, now).runs
    assert [run.due_at for run in runs] == [run.due_at for run in firing_of(record, now).runs]
    delays = [run.due_at - now for run in runs if run.due_at is not None]
    assert len(set(delays)) == len(delays) > 5
    assert all(timedelta(0) < delay < timedelta(hours=1) for delay in delays)
