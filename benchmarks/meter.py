"""Seconds, and CPU seconds of the client, of worker processes and of the Postgres server, around a piece of work."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec
import psutil


class Cost(msgspec.Struct, frozen=True):
    """What a piece of work took. ``cpu_python`` is of this process and of its workers."""

    seconds: float
    cpu_python: float
    cpu_postgres: float

    def of(self, count: int) -> dict[str, float]:
        """Microseconds of CPU for each of so many."""
        return {
            "python_us": round(self.cpu_python / count * 1e6, 1),
            "postgres_us": round(self.cpu_postgres / count * 1e6, 1),
        }


class Meter:
    """``with Meter(pid of the postmaster) as meter: ...``, then ``meter.cost``; without a pid no CPU of the server."""

    def __init__(self, postmaster: int | None, workers: Iterable[int] = ()) -> None:
        self._postmaster = postmaster
        self._workers = tuple(workers)
        self._at = (0.0, 0.0, 0.0)
        self.cost = Cost(0.0, 0.0, 0.0)

    def __enter__(self) -> Self:
        self._at = self._read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cost = Cost(*(now - then for now, then in zip(self._read(), self._at, strict=True)))

    def _read(self) -> tuple[float, float, float]:
        python = _used(psutil.Process()) + sum(_used(psutil.Process(pid)) for pid in self._workers)
        return time.perf_counter(), python, self._server()

    def _server(self) -> float:
        if self._postmaster is None:
            return 0.0
        process = psutil.Process(self._postmaster)
        times = process.cpu_times()
        return float(
            times.children_user
            + times.children_system
            + _used(process)
            + sum(_used(child) for child in process.children())
        )


def _used(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def median(results: Iterable[Mapping[str, Any]], field: str) -> float:
    return statistics.median(float(result[field]) for result in results if field in result)


def spread(seconds: Sequence[float], of: str) -> dict[str, float]:
    """The median, the 95th and the 99th of a hundred, in milliseconds, as ``<of>_p50_ms`` and so on."""
    ordered = sorted(seconds)
    return {
        f"{of}_p{part}_ms": round(1000 * ordered[math.ceil(part / 100 * len(ordered)) - 1], 3) for part in (50, 95, 99)
    }
