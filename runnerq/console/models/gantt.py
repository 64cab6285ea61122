"""A run's commands over time, laid out for a drawing: pure numbers, no markup.

Rules
- A row a span, in the order in which they were asked for. Across, everything is in percent of the drawing's width.
- Time is even within a stretch. Where only waits go on for longer than all the work in view together, they are folded
  into a narrow gap that says how long it was: a day's sleep between two steps of a second must not hide the steps.
- Folding goes by the moments at which any span begins or ends, so that two waits in a row are two gaps.
- A span without an end is drawn as far as ``now``: of a run that has ended, give the time of its end.
- A span that begins and ends at one moment is a bar of no width: whoever draws gives each bar an outline.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Literal, TypeAlias

import msgspec

from runnerq.console.models.history import Span

BarShape: TypeAlias = Literal["work", "wait", "group", "point"]
"""``work``: something ran. ``wait``: nothing did. ``group``: it stands for others. ``point``: it took no time."""

SHAPES: dict[str, BarShape] = {
    "step": "work", "transaction": "work", "undo": "work", "child": "work",
    "sleep": "wait", "signal": "wait",
    "all": "group", "race": "group",
}  # fmt: skip
"""What is not here is a point: it was answered by being asked, or is a row of its own."""

CAP = 200
GAP_WIDTH = 4.0
GAPS_WIDTH = 50.0
"""Percent: of one gap, and of all of them together at most."""
TICK_SPACE = 13.0
"""Percent between two labels at least: a time of day to the millisecond needs that much of a narrow drawing."""
STEPS = tuple(
    unit * count
    for unit, counts in (
        (0.001, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1.0, (1, 2, 5, 10, 20, 30)),
        (60.0, (1, 2, 5, 10, 20, 30)),
        (3600.0, (1, 2, 4, 6, 12)),
        (86400.0, (1, 2, 5, 10, 30, 100, 365, 1000)),
    )
    for count in counts
)
"""Seconds between two ticks: what a reader counts in."""


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One span's bar. ``open``: it goes on. ``cut_left``, ``cut_right``: it began, or ends, out of view."""

    span: Span
    row: int
    depth: int
    shape: BarShape
    x: float
    width: float
    seconds: float
    open: bool
    cut_left: bool
    cut_right: bool


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """A line down the drawing. ``offset`` is seconds since the stretch's first tick, which is labelled with its time.
    ``labelled`` is False where a label would run into another; with ``leftward`` it stands before the line."""

    x: float
    at: datetime
    offset: float
    labelled: bool
    leftward: bool


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """A wait that is folded: ``seconds`` long, and drawn this narrow."""

    x: float
    width: float
    seconds: float


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the view in which time is even: what one can zoom into."""

    x: float
    width: float
    since: datetime
    until: datetime


class Gantt(msgspec.Struct, frozen=True, kw_only=True):
    """The drawing. ``more`` spans of those in view have no row: there were more than the cap."""

    since: datetime
    until: datetime
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    gaps: tuple[Gap, ...]
    stretches: tuple[Stretch, ...]
    more: int

    @property
    def rows(self) -> int:
        return len(self.bars)


def layout(
    spans: Sequence[Span],
    now: datetime,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    cap: int = CAP,
) -> Gantt | None:
    """The drawing of these spans, or of those in view between two times; None if there is nothing to draw."""
    seen = [
        span for span in spans if (since is None or _end(span, now) >= since) and (until is None or span.begin <= until)
    ]
    shown = seen[:cap]
    if not shown:
        return None
    begin = since if since is not None else min(span.begin for span in shown)
    last = until if until is not None else max(_end(span, now) for span in shown)
    axis = _Axis(shown, now, begin, max(last, begin + timedelta(milliseconds=1)))
    return Gantt(
        since=axis.begin,
        until=axis.end,
        bars=tuple(_bar(span, row, now, axis) for row, span in enumerate(shown)),
        ticks=tuple(_ticks(axis.stretches)),
        gaps=axis.gaps,
        stretches=axis.stretches,
        more=len(seen) - len(shown),
    )


class _Axis:
    """Where a time lies across the drawing."""

    def __init__(self, spans: Sequence[Span], now: datetime, begin: datetime, end: datetime) -> None:
        self.begin, self.end = begin, end
        pieces = _pieces(spans, now, begin, end)
        folded = _folded(pieces)
        gap = min(GAP_WIDTH, GAPS_WIDTH / len(folded)) if folded else 0.0
        even = sum(piece.seconds for piece in pieces if piece not in folded)
        scale = (100.0 - gap * len(folded)) / even  # never 0: what is folded is no work, and there is none without
        self._times: list[datetime] = []
        self._spots: list[tuple[float, float]] = []
        gaps: list[Gap] = []
        stretches: list[Stretch] = []
        x = 0.0
        for piece in pieces:
            width = gap if piece in folded else piece.seconds * scale
            self._times.append(piece.begin)
            self._spots.append((x, width / piece.seconds))
            if piece in folded:
                gaps.append(Gap(x=x, width=width, seconds=piece.seconds))
            elif stretches and stretches[-1].until == piece.begin:
                first = stretches.pop()
                stretches.append(Stretch(x=first.x, width=first.width + width, since=first.since, until=piece.end))
            else:
                stretches.append(Stretch(x=x, width=width, since=piece.begin, until=piece.end))
            x += width
        self.gaps, self.stretches = tuple(gaps), tuple(stretches)

    def x(self, at: datetime) -> float:
        """Percent from the left, within the drawing."""
        if at <= self.begin:
            return 0.0
        if at >= self.end:
            return 100.0
        place = bisect_right(self._times, at) - 1
        spot, scale = self._spots[place]
        return spot + (at - self._times[place]).total_seconds() * scale


class _Piece(msgspec.Struct, frozen=True):
    """Time between two moments at which any span begins or ends."""

    begin: datetime
    end: datetime
    busy: bool

    @property
    def seconds(self) -> float:
        return (self.end - self.begin).total_seconds()


def _pieces(spans: Iterable[Span], now: datetime, begin: datetime, end: datetime) -> list[_Piece]:
    moments = {begin, end}
    # How many spans of work more, or fewer, go on from a moment on.
    change: dict[datetime, int] = {}
    for span in spans:
        left, right = max(span.begin, begin), min(_end(span, now), end)
        moments |= {left, right}
        if _shape(span) == "work":
            change[left] = change.get(left, 0) + 1
            change[right] = change.get(right, 0) - 1
    pieces: list[_Piece] = []
    working = 0
    for left, right in pairwise(sorted(moments)):
        working += change.get(left, 0)
        pieces.append(_Piece(left, right, working > 0))
    return pieces


def _folded(pieces: Sequence[_Piece]) -> frozenset[_Piece]:
    work = sum(piece.seconds for piece in pieces if piece.busy)
    if not work:  # only waits: none of them hides anything
        return frozenset()
    return frozenset(piece for piece in pieces if not piece.busy and piece.seconds > work)


def _bar(span: Span, row: int, now: datetime, axis: _Axis) -> Bar:
    end = _end(span, now)
    left, right = axis.x(span.begin), axis.x(end)
    return Bar(
        span=span,
        row=row,
        depth=span.position.count("."),
        shape=_shape(span),
        x=left,
        width=right - left,
        seconds=(end - span.begin).total_seconds(),
        open=span.end is None,
        cut_left=span.begin < axis.begin,
        cut_right=end > axis.end,
    )


def _ticks(stretches: Sequence[Stretch]) -> Iterable[Tick]:
    free = 0.0
    for stretch in stretches:
        seconds = (stretch.until - stretch.since).total_seconds()
        step = next((step for step in STEPS if step / seconds * stretch.width >= TICK_SPACE), seconds)
        for count in range(int(seconds / step) + 1):
            x = stretch.x + count * step / seconds * stretch.width
            leftward = x > 100.0 - TICK_SPACE
            labelled = x - leftward * TICK_SPACE >= free
            if count and (not labelled or x > stretch.x + stretch.width - 1.0):
                continue  # it would stand on the gap's edge
            at = stretch.since + timedelta(seconds=count * step)
            yield Tick(x=x, at=at, offset=count * step, labelled=labelled, leftward=leftward)
            if labelled:
                free = x if leftward else x + TICK_SPACE


def _end(span: Span, now: datetime) -> datetime:
    return max(span.begin, now if span.end is None else span.end)


def _shape(span: Span) -> BarShape:
    return SHAPES.get(span.kind, "point")
