"""What the timeline of a run is drawn with: the layout, and where its links lead."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from runnerq.console.models.gantt import CAP, SHAPES, Gantt, layout
from runnerq.console.models.history import Span
from runnerq.console.models.run import RunDetail
from runnerq.console.web.context import Here
from runnerq.console.web.words import at as time_words
from runnerq.console.web.words import span as span_words

DRAWN = {*SHAPES, "spawn", "send", "cancel", "reopened"}
"""What else there is (a publish, a patch) takes no time and leads nowhere: it is in the history."""
MOST_ROWS = 2_000
MOST_ZOOMS = 8
STATES = {
    "asked": "goes on", "answered": "answered", "failed": "failed", "closed": "closed", "interrupted": "interrupted",
}  # fmt: skip


class Zoom(msgspec.Struct, frozen=True):
    """A link that shows a part of the timeline, or all of it: ``now`` if that is what is shown."""

    words: str
    hint: str
    url: str
    now: bool = False


def timeline_values(here: Here, detail: RunDetail, spans: Sequence[Span]) -> dict[str, Any]:
    """The values of ``gantt.html``; ``drawing`` is None where there is nothing to draw."""
    path = f"/runs/{detail.run.id}"
    since, until = _moment(here.query.get("from")), _moment(here.query.get("to"))
    zoomed = since is not None and until is not None and since < until
    shown = [span for span in spans if span.kind in DRAWN]
    now = detail.run.ended_at or detail.now
    cap = MOST_ROWS if here.query.get("rows") == "all" else CAP
    whole = layout(shown, now, cap=cap)
    drawing = layout(shown, now, since=since, until=until, cap=cap) if zoomed else whole
    # A part in which nothing lies is none.
    drawing, zoomed = (whole, False) if drawing is None else (drawing, zoomed)

    def bar_url(span: Span) -> str:
        if span.child_id is not None:
            return here.url(f"/runs/{span.child_id}")
        return f"{here.url(f'{path}/history', entry=span.number)}#ev-{span.number}"

    return {
        "drawing": drawing,
        "zooms": [] if drawing is None else _zooms(here, path, drawing, zoomed=zoomed),
        "bar_url": bar_url,
        "all_rows": here.url(path, rows="all"),
        "history": here.url(f"{path}/history"),
        "pc": _percent,
        "clock": _clock(here, drawing),
        "rough": _rough,
        "STATES": STATES,
    }


def _zooms(here: Here, path: str, drawing: Gantt, *, zoomed: bool) -> list[Zoom]:
    """Into each stretch of even time, where gaps part several; else into the halves."""
    parts = [(stretch.since, stretch.until) for stretch in drawing.stretches]
    if len(parts) == 1 and not drawing.gaps:
        middle = drawing.since + (drawing.until - drawing.since) / 2
        parts = [(drawing.since, middle), (middle, drawing.until)]
    names = ("first half", "last half") if len(drawing.stretches) == 1 and not drawing.gaps else ()
    zooms = [Zoom("all of it", "The run from its beginning to its end", here.url(path), now=not zoomed)]
    for number, (since, until) in enumerate(parts[:MOST_ZOOMS]):
        hint = f"{time_words(since, here.tz)}, {span_words(until - since)}"
        url = here.url(path, [("from", since.isoformat()), ("to", until.isoformat())])
        zooms.append(Zoom(names[number] if names and len(parts) == 2 else f"part {number + 1}", hint, url))
    return zooms if len(zooms) > 1 else []


def _clock(here: Here, drawing: Gantt | None) -> Any:
    """How a tick's time is written: with its day where the drawing has several, with milliseconds where it is short."""
    if drawing is None:
        return str
    first, last = drawing.since.astimezone(here.tz), drawing.until.astimezone(here.tz)
    several = first.date() != last.date()
    brief = last - first < timedelta(seconds=10)

    def clock(moment: datetime) -> str:
        local = moment.astimezone(here.tz)
        if several:
            return f"{local:%d %b %H:%M:%S}"
        return f"{local:%H:%M:%S}.{local.microsecond // 1000:03d}" if brief else f"{local:%H:%M:%S}"

    return clock


def _percent(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") + "%"


def _rough(seconds: float) -> str:
    """A span in its largest unit: a gap is narrow."""
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")):
        if seconds >= unit:
            return f"{seconds // unit:.0f} {name}"
    return f"{seconds * 1_000:.0f} ms"


def _moment(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else None
