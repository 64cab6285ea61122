"""Drawings of what ended and how long it took: pure numbers, no markup.

Rules
- A point of the series is ten units wide; upwards it is 0 at the top and 100 at the bottom, as SVG counts.
- The top of a drawing is a round number, so that its label can be read.
- A span in which nothing ended has no duration: the line is broken there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

from runnerq.console.models.overview import Point, Series

WIDTH = 10.0
"""Of one point."""
AIR = 1.5
"""Between two bars."""
ROUND = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)

Tone: TypeAlias = Literal["ok", "bad", "gone", "p50", "p95"]


class Rect(msgspec.Struct, frozen=True):
    """A part of a bar."""

    tone: Tone
    x: float
    y: float
    width: float
    height: float


class Line(msgspec.Struct, frozen=True):
    """A line of steps; ``path`` is what an SVG path draws."""

    tone: Tone
    path: str


class Hit(msgspec.Struct, frozen=True):
    """Where a point is asked about: its words, and the runs that it stands for."""

    x: float
    width: float
    title: str
    params: tuple[tuple[str, str], ...]


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A drawing, ``width`` wide and 100 high. ``top`` is what its upper edge stands for, ``ticks`` the times below."""

    width: float
    top: str
    rects: tuple[Rect, ...] = ()
    lines: tuple[Line, ...] = ()
    spots: tuple[Hit, ...]
    ticks: tuple[datetime, ...]


def ended_chart(series: Series, time_of: Callable[[datetime], str]) -> Chart:
    """Bars of the runs that ended: completed at the bottom, then what failed, then what was cancelled."""
    top = round_up(max((_ended(point) for point in series.points), default=0))
    rects: list[Rect] = []
    for index, point in enumerate(series.points):
        floor = 100.0
        for tone, count in _parts(point):
            height = round(100.0 * count / top, 2)
            floor -= height
            if count:
                rects.append(Rect(tone, round(index * WIDTH, 1), round(floor, 2), WIDTH - AIR, height))
    return Chart(
        width=len(series.points) * WIDTH,
        top=f"{top:,.0f}",
        rects=tuple(rects),
        spots=_spots(series, time_of),
        ticks=_ticks(series),
    )


def took_chart(series: Series, time_of: Callable[[datetime], str], words: Callable[[float], str]) -> Chart:
    """Lines of how long the runs took that ended: the median, and what 95 of 100 stayed below."""
    top = round_up(max((point.p95 for point in series.points if point.p95 is not None), default=0.0))
    lines = (
        Line("p95", _steps([point.p95 for point in series.points], top)),
        Line("p50", _steps([point.p50 for point in series.points], top)),
    )
    return Chart(
        width=len(series.points) * WIDTH,
        top=words(top),
        lines=tuple(line for line in lines if line.path),
        spots=_spots(series, time_of),
        ticks=_ticks(series),
    )


def round_up(value: float) -> float:
    """The next round number that is not below: what is drawn fills most of the height. 1 for nothing at all."""
    if value <= 0:
        return 1.0
    power = 1.0
    while power > value:
        power /= 10
    while power * 10 < value:
        power *= 10
    return next(step * power for step in ROUND if step * power >= value)


def _ended(point: Point) -> int:
    return point.completed + point.failed + point.dead_letter + point.cancelled


def _parts(point: Point) -> tuple[tuple[Tone, int], ...]:
    return ("ok", point.completed), ("bad", point.failed + point.dead_letter), ("gone", point.cancelled)


def _steps(values: Sequence[float | None], top: float) -> str:
    """A step a value, joined where two follow each other."""
    path: list[str] = []
    drawn = False
    for index, value in enumerate(values):
        if value is None:
            drawn = False
            continue
        height = round(100.0 - 100.0 * value / top, 2)
        path.append(f"{f'V{height:g}' if drawn else f'M{index * WIDTH:g} {height:g}'}H{(index + 1) * WIDTH:g}")
        drawn = True
    return "".join(path)


def _spots(series: Series, time_of: Callable[[datetime], str]) -> tuple[Hit, ...]:
    """Only where something ended: nothing is no list to go to."""
    spots: list[Hit] = []
    for index, point in enumerate(series.points):
        if not (ended := _ended(point)):
            continue
        until = point.at + timedelta(seconds=series.step)
        failed = point.failed + point.dead_letter
        parts = [f"{time_of(point.at)} to {time_of(until)}", f"{ended:,} ended"]
        parts += [f"{failed:,} failed"] if failed else []
        parts += [f"{point.cancelled:,} cancelled"] if point.cancelled else []
        params = (("ended_since", point.at.isoformat()), ("ended_until", until.isoformat()))
        spots.append(Hit(round(index * WIDTH, 1), WIDTH, " · ".join(parts), params))
    return tuple(spots)


def _ticks(series: Series) -> tuple[datetime, ...]:
    """Five times, evenly from the beginning to the end."""
    span = series.until - series.since
    return tuple(series.since + span * part / 4 for part in range(5))
