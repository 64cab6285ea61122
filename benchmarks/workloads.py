"""The workloads. Each is measured on databases of its own, and answers with named figures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from benchmarks.claims import w8_claims
from benchmarks.databases import Place
from benchmarks.limited import w12_limited
from benchmarks.measures import MEASURES, Measure
from benchmarks.million import w13_console
from benchmarks.ours import Ours
from benchmarks.parked import w5_parked
from benchmarks.recovery import w9_recovery
from benchmarks.replay import w7_replay
from benchmarks.scale import w10_scale
from benchmarks.sequence import w6_sequence
from benchmarks.wal import w11_wal

Workload: TypeAlias = Callable[[Place], Awaitable[dict[str, Any]]]


def _ours(measure: Measure) -> Workload:
    async def measured(place: Place) -> dict[str, Any]:
        return await measure(place, Ours())

    measured.__doc__ = measure.__doc__
    return measured


WORKLOADS: dict[str, Workload] = {
    "W1": _ours(MEASURES["W1"]),
    "W2": _ours(MEASURES["W2"]),
    "W3": _ours(MEASURES["W3"]),
    "W4": _ours(MEASURES["W4"]),
    "W5": w5_parked,
    "W6": w6_sequence,
    "W7": w7_replay,
    "W8": w8_claims,
    "W9": w9_recovery,
    "W10": w10_scale,
    "W11": w11_wal,
    "W12": w12_limited,
    "W13": w13_console,
}
