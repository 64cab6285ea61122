"""Seconds, and CPU seconds of this process and of the Postgres server, around a piece of work."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

import msgspec
import psutil


class Cost(msgspec.Struct, frozen=True):
    """What a piece of work took."""

    seconds: float
    cpu_python: float
    cpu_postgres: float


class Meter:
    """``with Meter(pid of the postmaster) as meter: ...``, then ``meter.cost``; without a pid no CPU of the server."""

    def __init__(self, postmaster: int | None) -> None:
        self._postmaster = postmaster
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
        own = psutil.Process().cpu_times()
        return time.perf_counter(), own.user + own.system, self._server()

    def _server(self) -> float:
        if self._postmaster is None:
            return 0.0
        process = psutil.Process(self._postmaster)
        times = process.cpu_times()
        total = times.user + times.system + times.children_user + times.children_system
        for child in process.children():
            try:
                each = child.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += each.user + each.system
        return float(total)


def median(results: Iterable[Mapping[str, Any]], field: str) -> float:
    return statistics.median(float(result[field]) for result in results)
