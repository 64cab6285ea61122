"""The last runs of a schedule as a small drawing: pure numbers, no markup.

Rules
- A run is a bar, the newest at the right; its height is how long it took, against the longest of them.
- Each says by its shape what its colour says: one that failed stands on a mark, one that was cancelled is hollow, one
  that goes on is hollow and broken.
- A run that is not there any more is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from runnerq.console.models.schedules import ScheduledRun
from runnerq.persistence.records import KEPT_RUNS, Status

STEP = 5.0
"""From one bar to the next."""
THICK = 3.5
HIGH, LOW = 15.0, 2.0
"""The longest bar, and the shortest."""
FOOT = 16.0
"""Where bars stand; marks hang below."""
WIDTH, HEIGHT = KEPT_RUNS * STEP, 21.0

Tone: TypeAlias = Literal["ok", "bad", "gone", "open"]
_TONES: dict[Status, Tone] = {
    Status.COMPLETED: "ok",
    Status.FAILED: "bad",
    Status.DEAD_LETTER: "bad",
    Status.CANCELLED: "gone",
}


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A run: its tone, where its bar stands, and what is said of it."""

    tone: Tone
    x: float
    y: float
    height: float
    title: str


class Spark(msgspec.Struct, frozen=True, kw_only=True):
    """The drawing, ``WIDTH`` wide and ``HEIGHT`` high, and the same in words."""

    bars: tuple[Bar, ...]
    words: str


def spark(newest_first: Sequence[ScheduledRun], words: Callable[[float], str]) -> Spark | None:
    """The drawing; None where no run is there."""
    known = [(run.status, run.took) for run in reversed(newest_first) if run.status is not None]
    if not known:
        return None
    longest = max((took for _, took in known if took is not None), default=0.0)
    first = WIDTH - len(known) * STEP
    bars = [_bar(first + at * STEP, status, took, longest, words) for at, (status, took) in enumerate(known)]
    return Spark(bars=tuple(bars), words=_words([status for status, _ in known], longest, words))


def _bar(x: float, status: Status, took: float | None, longest: float, words: Callable[[float], str]) -> Bar:
    height = HIGH if took is None else round(max(LOW, HIGH * took / longest if longest else LOW), 1)
    title = _said(status) if took is None else f"{_said(status)} after {words(took)}"
    tone = _TONES.get(status, "open")
    return Bar(tone=tone, x=x, y=FOOT - height, height=height, title=title)


def _words(statuses: Sequence[Status], longest: float, words: Callable[[float], str]) -> str:
    counts = [(statuses.count(status), _said(status)) for status in Status if status in statuses]
    told = ", ".join(f"{count} {said}" for count, said in counts)
    return f"Last runs: {told}; the longest took {words(longest)}" if longest else f"Last runs: {told}"


def _said(status: Status) -> str:
    return status.replace("_", " ")
