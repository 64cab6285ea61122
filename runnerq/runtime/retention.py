"""How long runs that have ended are kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from runnerq.errors import ConfigurationError
from runnerq.retry import seconds


@dataclass(frozen=True, init=False, slots=True)
class Retention:
    """What a worker deletes: trees of runs whose root ended longer ago than this, in seconds or timedeltas.

    ``completed`` counts for roots that completed or were cancelled, ``failed`` for failed ones and dead letters; None
    keeps them for ever. It looks every ``interval`` seconds, and deletes ``batch`` runs a transaction. Any worker of a
    fleet does it for all.
    """

    completed: float | None
    failed: float | None
    interval: float
    batch: int

    def __init__(
        self,
        completed: float | timedelta | None = None,
        failed: float | timedelta | None = None,
        interval: float | timedelta = 600,
        batch: int = 100,
    ) -> None:
        if completed is None and failed is None:
            raise ConfigurationError("this Retention keeps everything: give completed= or failed=, or leave it out")
        every = seconds(interval, "Retention.interval")
        if not every:
            raise ConfigurationError(f"Retention.interval is {interval!r}: expected more than nothing")
        number: object = batch
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise ConfigurationError(f"Retention.batch is {batch!r}: expected a whole number from 1")
        fields: dict[str, Any] = {
            "completed": None if completed is None else seconds(completed, "Retention.completed"),
            "failed": None if failed is None else seconds(failed, "Retention.failed"),
            "interval": every,
            "batch": batch,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
