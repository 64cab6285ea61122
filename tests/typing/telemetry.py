"""Only type-checked: what may be given as ``listeners=``, ``metrics=`` and ``http=``."""

from __future__ import annotations

from collections.abc import Mapping

import runnerq as rq
from runnerq.telemetry import Event, Listener, LogListener, Metrics
from runnerq.telemetry.opentelemetry import OpenTelemetry
from runnerq.telemetry.prometheus import PrometheusMetrics


class Ear:
    def hear(self, event: Event) -> None: ...


class Kept:
    def count(self, name: str, labels: Mapping[str, str], by: float) -> None: ...

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None: ...

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None: ...


class Deaf:
    pass


def listeners() -> list[Listener]:
    return [Ear(), LogListener(), PrometheusMetrics(), OpenTelemetry()]


def metrics() -> list[Metrics]:
    return [Kept(), PrometheusMetrics()]


def given(client: rq.Client) -> None:
    rq.connect(listeners=listeners())
    rq.SyncClient(listeners=[Ear()])
    rq.Worker(client, listeners=[Ear(), OpenTelemetry()], metrics=Kept(), http=9000)
    rq.Worker(client, listeners=[LogListener()], metrics=PrometheusMetrics(), http=("::1", 9000))
    rq.Worker(client, listeners=[Deaf()])  # type: ignore[list-item]  # it has no hear(event)
    rq.Worker(client, metrics=Ear())  # type: ignore[arg-type]  # it counts nothing
