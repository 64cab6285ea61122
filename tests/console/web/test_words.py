"""Times, spans and sizes in words, and the addresses of names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from runnerq.console.names import quoted, unquoted
from runnerq.console.web import words

NOW = datetime(2026, 11, 30, 15, 48, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-1, "0 ms"), (0, "0 ms"), (0.0451, "45 ms"), (0.9996, "1.00 s"), (1.234, "1.23 s"), (9.996, "9 s"),
        (59.9, "59 s"), (60, "1 m"), (63, "1 m 3 s"), (3600, "1 h"), (3725, "1 h 2 m"), (86400 * 3 + 7300, "3 d 2 h"),
        (timedelta(days=400), "400 d"),
    ],
)  # fmt: skip
def test_a_span_is_said_in_its_two_largest_units(seconds: float | timedelta, said: str) -> None:
    assert words.span(seconds) == said


@pytest.mark.parametrize(
    ("passed", "said"),
    [
        (0.4, "just now"),
        (-0.4, "just now"),
        (42, "42 s ago"),
        (-90, "in 1 min"),
        (-3600, "in 1 h"),
        (-7500, "in 2 h 5 min"),
        (-(86400 * 2 - 60), "in 1 d 23 h"),
        (7300, "2 h ago"),
        (86400 * 5, "5 d ago"),
    ],
)
def test_how_far_a_time_is_from_now_is_said_in_one_unit_and_days_and_hours_ahead_in_two(
    passed: float, said: str
) -> None:
    assert words.ago(NOW - timedelta(seconds=passed), NOW) == said


def test_a_time_is_said_in_its_zone_and_machines_read_it_in_utc() -> None:
    assert words.at(NOW, ZoneInfo("Asia/Tokyo")) == "2026-12-01 00:48:03"
    assert words.utc(NOW.astimezone(ZoneInfo("Asia/Tokyo"))) == "2026-11-30T15:48:03.000Z"


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (None, ""),
        (0, "0 B"),
        (999, "999 B"),
        (1200, "1.2 kB"),
        (900_000, "900 kB"),
        (999_600, "1.0 MB"),
        (5e15, "5000.0 TB"),
    ],
)
def test_a_size_is_said_in_steps_of_a_thousand(count: int | None, said: str) -> None:
    assert words.size(count) == said


@pytest.mark.parametrize(
    ("name", "part"), [("eu/mail %2F", "eu%2Fmail%20%252F"), ("..", "%2E%2E"), ("v1.2", "v1.2"), ("ü", "%C3%BC")]
)
def test_a_name_is_one_part_of_a_path_whatever_is_in_it(name: str, part: str) -> None:
    assert quoted(name) == part
    assert unquoted(part) == name
