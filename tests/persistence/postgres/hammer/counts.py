"""What a hammering counts, and what it came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OPERATIONS = ("claimed", "turns", "repeated", "sent", "reaped", "started")
HAPPENED = (
    "again", "busy", "done", "lost", "cancelled", "crash loops", "found itself reaped", "killed", "looks",
    "lost claims", "ordered", "reopened", "repeats not recognised any more", "swept", "terminated", "unavailable",
    "zombies",
)  # fmt: skip
EVENTS = ("done", "repeated", "again", "busy", "sent", "killed")
"""It goes on until each of them has happened: turns were sent again, came too late, and found rows held."""
FAULTS = (
    "a process fell over",
    "a run was held twice",
    "a parked run whose wake was there",
    "a stale turn was written when it was sent again",
    "a park that was too late was done when it was sent again",
    "a park that was done was too late when it was sent again",
    "a dedup id counted twice",
)
NAMES_COUNTED = (*OPERATIONS, *HAPPENED, *FAULTS)


class Counts:
    """Numbers in shared memory, so that those of a killed process are not lost. Each process has its own."""

    def __init__(self, numbers: Any) -> None:
        self._numbers = numbers

    def add(self, name: str, number: int = 1) -> None:
        self._numbers[NAMES_COUNTED.index(name)] += number

    def of(self, name: str) -> int:
        return int(self._numbers[NAMES_COUNTED.index(name)])


@dataclass
class Report:
    """What a hammering came to."""

    seconds: float
    counts: dict[str, int]
    faults: list[str]

    @property
    def operations(self) -> int:
        return sum(self.counts[name] for name in OPERATIONS)
