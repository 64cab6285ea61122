"""W10, scale: W1 and W2 with one worker process and with two."""

from __future__ import annotations

from typing import Any

from benchmarks.databases import Place
from benchmarks.ours import Ours
from benchmarks.queue import measure_end_to_end
from benchmarks.steps import measure_steps


async def w10_scale(place: Place) -> dict[str, Any]:
    """Steps a second and runs a second end to end, with 1 and with 2 worker processes."""
    result: dict[str, Any] = {}
    for workers in (1, 2):
        steps = await measure_steps(place, Ours(), workers)
        runs = await measure_end_to_end(place, Ours(), workers)
        result[f"steps_s_{workers}"] = steps["steps_s"]
        result[f"runs_s_{workers}"] = runs["end_to_end_s"]
    result["steps_ratio"] = round(result["steps_s_2"] / result["steps_s_1"], 2)
    result["runs_ratio"] = round(result["runs_s_2"] / result["runs_s_1"], 2)
    return result
