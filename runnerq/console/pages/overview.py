"""``/``: how everything is."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import get_args

from litestar import Response

from runnerq.console.models.overview import Series, Window, activity, overview
from runnerq.console.models.queues import queues
from runnerq.console.pages.charts import Chart, ended_chart, took_chart
from runnerq.console.web.context import Here
from runnerq.console.web.guards import view
from runnerq.console.web.rendering import page
from runnerq.console.web.words import span

SHAPES = {"ready": "pending"}
"""Tiles that are named otherwise than the status they count."""
MOST_QUEUES = 8


@view("/")
async def overview_page(here: Here) -> Response[str]:
    """Numbers, what needs somebody, and what ended lately."""
    asked = here.query.get("window", "1h")
    window: Window = next((known for known in get_args(Window) if known == asked), "1h")
    view_ = await overview(here.context)
    series = await activity(here.context, window)
    ended, took = charts(here, series)
    return page(
        here,
        "overview.html",
        view=view_,
        series=series,
        ended=ended,
        took=took,
        window=window,
        window_words="1 hour" if window == "1h" else "24 hours",
        step_words=span(series.step),
        shapes=SHAPES,
        queues=(await queues(here.context))[:MOST_QUEUES],
    )


def charts(here: Here, series: Series) -> tuple[Chart, Chart]:
    """What ended and how long it took, with times of the zone that was chosen."""
    time_of = partial(_clock, here)
    return ended_chart(series, time_of), took_chart(series, time_of, _top)


def _clock(here: Here, moment: datetime) -> str:
    return f"{moment.astimezone(here.tz):%H:%M}"


def _top(seconds: float) -> str:
    """A round span, written as such: ``50 ms``, ``5 s``, ``1 m 40 s``."""
    if seconds < 1:
        return f"{1000 * seconds:g} ms"
    return f"{seconds:g} s" if seconds < 60 else span(seconds)


HANDLERS = [overview_page]
