"""Drawings of the overview: what is drawn where, as numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from runnerq.console.models.overview import Point, Series
from runnerq.console.pages.charts import ended_chart, round_up, took_chart

BEGIN = datetime(2026, 3, 1, 9, tzinfo=UTC)


def series(*points: tuple[int, int, int, float | None, float | None]) -> Series:
    """A minute each: completed, failed, cancelled, median, 95th percentile."""
    return Series(
        since=BEGIN,
        until=BEGIN + timedelta(minutes=len(points)),
        step=60,
        points=tuple(
            Point(
                at=BEGIN + timedelta(minutes=index),
                started=0,
                completed=completed,
                failed=failed,
                dead_letter=0,
                cancelled=cancelled,
                p50=p50,
                p95=p95,
            )
            for index, (completed, failed, cancelled, p50, p95) in enumerate(points)
        ),
    )


def clock(moment: datetime) -> str:
    return f"{moment:%H:%M}"


@pytest.mark.parametrize(
    ("value", "top"),
    [(0, 1), (0.0031, 0.004), (0.01, 0.01), (1, 1), (3, 3), (7, 8), (9, 10), (101, 150), (4_200, 5_000)],
)
def test_the_top_of_a_drawing_is_a_round_number_that_is_not_below(value: float, top: float) -> None:
    assert round_up(value) == pytest.approx(top)


def test_a_bar_stands_on_the_ground_with_what_completed_and_carries_what_failed() -> None:
    chart = ended_chart(series((6, 3, 1, None, None)), clock)

    assert [(rect.tone, rect.y, rect.height) for rect in chart.rects] == [
        ("ok", 40.0, 60.0),
        ("bad", 10.0, 30.0),
        ("gone", 0.0, 10.0),
    ]
    assert chart.top == "10"


def test_a_minute_in_which_nothing_ended_has_no_bar_and_nothing_to_go_to() -> None:
    chart = ended_chart(series((0, 0, 0, None, None), (1, 0, 0, 1.0, 1.0)), clock)

    assert [rect.x for rect in chart.rects] == [10.0]
    assert [spot.x for spot in chart.spots] == [10.0]


def test_a_bar_leads_to_the_runs_that_ended_in_its_minute() -> None:
    [spot] = ended_chart(series((2, 1, 0, None, None)), clock).spots

    assert spot.title == "09:00 to 09:01 · 3 ended · 1 failed"
    assert spot.params == (("ended_since", "2026-03-01T09:00:00+00:00"), ("ended_until", "2026-03-01T09:01:00+00:00"))


def test_a_line_is_broken_where_nothing_ended() -> None:
    chart = took_chart(
        series((1, 0, 0, 0.5, 1.0), (1, 0, 0, 0.25, 1.0), (0, 0, 0, None, None), (1, 0, 0, 1.0, 1.0)), clock, str
    )

    assert {line.tone: line.path for line in chart.lines} == {
        "p50": "M0 50H10V75H20M30 0H40",
        "p95": "M0 0H10V0H20M30 0H40",
    }


def test_five_times_stand_below_a_drawing_from_its_beginning_to_its_end() -> None:
    chart = ended_chart(series(*[(0, 0, 0, None, None)] * 60), clock)

    assert [clock(tick) for tick in chart.ticks] == ["09:00", "09:15", "09:30", "09:45", "10:00"]
