"""How long it took until all was as before, out of the times of ends. No I/O."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import msgspec

SHARE = 0.8
"""What counts as recovered: this share of the throughput before the fault."""
WINDOW = 2.0
"""Seconds over which throughput is counted."""
STEP = 0.1


class Times(msgspec.Struct, frozen=True):
    """When things happened, in seconds since 1970.

    The load was steady from ``steady``, the fault lasted from ``began`` to ``ended``, the load ended at ``stopped``;
    recovery counts from ``origin``: the fault's end, or a kill.
    """

    steady: float
    began: float
    ended: float
    stopped: float
    origin: float


class Recovery(msgspec.Struct, frozen=True):
    """``back`` is None if throughput did not come back while the load went on; ``rate`` is runs a second before."""

    rate: float
    during: float
    back: float | None
    last_open: float


def recovery(times: Times, accepted: Mapping[str, float], ended: Mapping[str, float]) -> Recovery:
    """``accepted`` and ``ended`` are times by run."""
    ends = sorted(ended.values())
    rate = _count(ends, times.steady, times.began) / (times.began - times.steady)
    lasted = times.ended - times.began
    during = _count(ends, times.began, times.ended) / lasted if lasted > 0 else 0.0
    open_at_fault = [ended[run] for run, at in accepted.items() if at < times.began < ended.get(run, 0)]
    last = max(open_at_fault, default=times.origin)
    return Recovery(rate, during, _back(ends, times, rate), max(0.0, last - times.origin))


def _back(ends: Sequence[float], times: Times, rate: float) -> float | None:
    """Seconds until the beginning of the first window with enough ends in it."""
    steps = int((times.stopped - WINDOW - times.origin) / STEP)
    for step in range(steps + 1):
        at = times.origin + step * STEP
        if _count(ends, at, at + WINDOW) >= SHARE * rate * WINDOW:
            return step * STEP
    return None


def _count(ends: Sequence[float], since: float, until: float) -> int:
    return bisect_left(ends, until) - bisect_left(ends, since)
