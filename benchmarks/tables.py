"""What was measured, as tables: the medians of each system's runs."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.meter import median
from benchmarks.workloads import WORKLOADS


class Limit(msgspec.Struct, frozen=True):
    """What a workload is compared with: L with so many connections and rows a statement, and the share to reach."""

    name: str
    connections: int
    batch: int
    goal: float


LIMITS = {
    "W1": Limit("L 50 a statement, 1 connection", 1, 50, 0.2),
    "W6": Limit("L single rows, 1 connection", 1, 1, 0.5),
}


def show(console: Console, name: str, systems: dict[str, list[dict[str, Any]]]) -> None:
    """A workload's medians, a column a system, with the ratio to L where there is one."""
    table = Table(title=f"{name}: {(WORKLOADS[name].__doc__ or '').strip()}")
    table.add_column("")
    for system in systems:
        table.add_column(system, justify="right")
    fields = dict.fromkeys(field for results in systems.values() for result in results for field in result)
    for field in fields:
        table.add_row(field, *(_figure(results, field) for results in systems.values()))
    console.print(table)
    if name in LIMITS and "runnerq" in systems:
        limit, reached = LIMITS[name], median(systems["runnerq"], "of_limit")
        verdict = "reached" if reached >= limit.goal else "MISSED"
        console.print(f"  {limit.name}: {reached:.2f} of it, goal {limit.goal}: {verdict}")


def _figure(results: list[dict[str, Any]], field: str) -> str:
    return f"{median(results, field):g}" if any(field in result for result in results) else ""
