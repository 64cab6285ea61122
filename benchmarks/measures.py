"""The workloads that any system can be measured by."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from benchmarks.databases import Place
from benchmarks.fan_out import measure_fan_out
from benchmarks.latency import measure_latency
from benchmarks.queue import measure_queue
from benchmarks.steps import measure_steps

Measure: TypeAlias = Callable[[Place, Any], Awaitable[dict[str, Any]]]

MEASURES: dict[str, Measure] = {
    "W1": measure_steps,
    "W2": measure_queue,
    "W3": measure_latency,
    "W4": measure_fan_out,
}
