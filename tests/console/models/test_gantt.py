from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerq.console.models.gantt import TICK_SPACE, layout
from runnerq.console.models.history import Span

BEGIN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DAY = 86400.0


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def a_span(kind: str, begin: float, end: float | None, position: str = "1") -> Span:
    return Span(
        number=1,
        position=position,
        kind=kind,
        name="charge",
        begin=at(begin),
        end=None if end is None else at(end),
        state="asked" if end is None else "answered",
        attempts=1,
        child_id=None,
    )


def test_nothing_makes_no_drawing():
    assert layout([], BEGIN) is None


def test_steps_one_after_another_share_the_width_by_their_time():
    drawing = layout([a_span("step", 0, 1), a_span("step", 1, 4)], at(4))
    assert drawing is not None
    first, second = drawing.bars
    assert (first.x, first.width) == pytest.approx((0, 25))
    assert (second.x, second.width) == pytest.approx((25, 75))
    assert not drawing.gaps


def test_a_day_of_sleep_between_steps_is_folded_and_the_steps_keep_the_width():
    drawing = layout([a_span("step", 0, 1), a_span("sleep", 1, DAY), a_span("step", DAY, DAY + 1)], at(DAY + 1))
    assert drawing is not None
    step, sleep, last = drawing.bars
    assert [gap.seconds for gap in drawing.gaps] == [DAY - 1]
    assert step.width == last.width == pytest.approx(48)
    assert (sleep.x, sleep.width) == pytest.approx((48, 4))
    assert sleep.shape == "wait"
    assert [(stretch.since, stretch.until) for stretch in drawing.stretches] == [
        (at(0), at(1)),
        (at(DAY), at(DAY + 1)),
    ]


def test_two_long_waits_in_a_row_are_two_gaps():
    waits = [a_span("sleep", 1, DAY), a_span("signal", DAY, 3 * DAY)]
    drawing = layout([a_span("step", 0, 1), *waits], at(3 * DAY))
    assert drawing is not None
    assert [gap.seconds for gap in drawing.gaps] == [DAY - 1, 2 * DAY]


def test_a_wait_beside_a_running_step_is_not_folded():
    drawing = layout([a_span("step", 0, 10), a_span("sleep", 0, 9)], at(10))
    assert drawing is not None
    assert not drawing.gaps


def test_where_there_are_only_waits_none_is_folded():
    drawing = layout([a_span("sleep", 0, 1), a_span("sleep", 1, DAY)], at(DAY))
    assert drawing is not None
    assert not drawing.gaps


def test_what_goes_on_is_drawn_as_far_as_now_and_marked_as_open():
    drawing = layout([a_span("step", 0, 1), a_span("step", 1, None)], at(2))
    assert drawing is not None
    bar = drawing.bars[1]
    assert bar.open
    assert (bar.x, bar.width, bar.seconds) == pytest.approx((50, 50, 1))


def test_zooming_shows_what_lies_between_two_times_and_says_what_is_cut():
    spans = [a_span("step", 0, 1), a_span("step", 1, 3), a_span("step", 3, 4)]
    drawing = layout(spans, at(4), since=at(2), until=at(3.5))
    assert drawing is not None
    through, after = drawing.bars
    assert (through.cut_left, through.cut_right, through.x) == (True, False, 0)
    assert (after.cut_left, after.cut_right, after.x + after.width) == (False, True, 100)
    assert (drawing.since, drawing.until) == (at(2), at(3.5))


def test_a_view_in_which_nothing_lies_makes_no_drawing():
    assert layout([a_span("step", 0, 1)], at(1), since=at(5), until=at(6)) is None


def test_spans_past_the_cap_get_no_row_and_are_counted():
    drawing = layout([a_span("step", n, n + 1) for n in range(250)], at(250))
    assert drawing is not None
    assert (drawing.rows, drawing.more) == (200, 50)


def test_many_gaps_leave_half_of_the_width_to_the_work():
    spans = [each for n in range(60) for each in (a_span("step", n * DAY, n * DAY + 1),)]
    drawing = layout(spans, at(60 * DAY))
    assert drawing is not None
    assert sum(gap.width for gap in drawing.gaps) == pytest.approx(50)
    assert sum(bar.width for bar in drawing.bars) == pytest.approx(50)


def test_members_of_a_composite_are_indented_by_the_depth_of_their_position():
    drawing = layout([a_span("all", 0, 2, "5"), a_span("step", 0, 1, "5.1.2")], at(2))
    assert drawing is not None
    assert [(bar.shape, bar.depth) for bar in drawing.bars] == [("group", 0), ("work", 2)]


seconds = st.floats(min_value=0, max_value=1e8, allow_nan=False)
span = st.builds(
    lambda kind, begin, length: a_span(kind, begin, None if length is None else begin + length),
    st.sampled_from(["step", "child", "sleep", "signal", "all", "publish", "cancel"]),
    seconds,
    st.one_of(st.none(), seconds),
)


@given(st.lists(span, min_size=1, max_size=30), seconds)
def test_whatever_is_drawn_lies_within_the_drawing_and_no_two_labels_touch(spans: list[Span], now: float):
    drawing = layout(spans, at(now))
    assert drawing is not None
    assert len(drawing.bars) == len(spans)
    for bar in drawing.bars:
        assert bar.width >= -1e-6
        assert -1e-6 <= bar.x <= bar.x + bar.width <= 100 + 1e-6
    pieces = sorted([*drawing.gaps, *drawing.stretches], key=lambda piece: piece.x)
    assert sum(piece.width for piece in pieces) == pytest.approx(100)
    ends = [
        (tick.x - TICK_SPACE * tick.leftward, tick.x + TICK_SPACE * (not tick.leftward))
        for tick in drawing.ticks
        if tick.labelled
    ]
    assert all(before[1] <= after[0] + 1e-6 for before, after in pairwise(ends))
    assert all(left >= -1e-6 and right <= 100 + 1e-6 for left, right in ends)
    assert len(drawing.ticks) < 200
