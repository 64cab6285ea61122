"""Metrics for Prometheus: the extra ``prometheus``.

Every instrument is there from the start, so that two of these with one registry are refused where they are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar, assert_never

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from runnerq.errors import ConfigurationError
from runnerq.telemetry.events import Event
from runnerq.telemetry.http import Answer
from runnerq.telemetry.measuring import Measuring
from runnerq.telemetry.metrics import INSTRUMENTS, Instrument

PREFIX = "runnerq"

M = TypeVar("M", Counter, Histogram, Gauge)


class _Labelled(Generic[M]):
    """A metric, and what it is for the labels that it has had: asking it for those takes longer than all else."""

    def __init__(self, metric: M) -> None:
        self._metric: M = metric
        self._known: dict[tuple[str, ...], M] = {}

    def of(self, labels: Mapping[str, str]) -> M:
        if not labels:
            return self._metric
        values = tuple(labels.values())
        known = self._known.get(values)
        if known is None:
            known = self._metric.labels(**labels)
            self._known[values] = known
        return known


class PrometheusMetrics:
    """Keeps metrics in a registry of ``prometheus_client``: the process's own, or one that is given.

    One of these serves any number of workers and clients of a process: ``Worker(metrics=...)`` for the worker's own
    metrics, ``connect(listeners=[...])`` for those of starts as well. ``exposition`` is what ``/metrics`` answers.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._registry = registry
        self._counters: dict[str, _Labelled[Counter]] = {}
        self._histograms: dict[str, _Labelled[Histogram]] = {}
        self._gauges: dict[str, _Labelled[Gauge]] = {}
        self._measuring = Measuring(self)
        try:
            for instrument in INSTRUMENTS:
                self._make(instrument)
        except ValueError as error:
            raise ConfigurationError(
                f"this registry has runnerq's metrics already: use the one PrometheusMetrics() of the process, or give "
                f"each a registry of its own ({error})"
            ) from error

    def _make(self, instrument: Instrument) -> None:
        name, says, labels, registry = instrument.name, instrument.says, instrument.labels, self._registry
        match instrument.kind:
            case "counter":
                self._counters[name] = _Labelled(Counter(name, says, labels, namespace=PREFIX, registry=registry))
            case "histogram":
                self._histograms[name] = _Labelled(
                    Histogram(name, says, labels, namespace=PREFIX, registry=registry, buckets=instrument.bounds)
                )
            case "gauge":
                self._gauges[name] = _Labelled(Gauge(name, says, labels, namespace=PREFIX, registry=registry))
            case _:
                assert_never(instrument.kind)

    def hear(self, event: Event) -> None:
        """Have it counted."""
        self._measuring.hear(event)

    def count(self, name: str, labels: Mapping[str, str], by: float) -> None:
        """Add to a counter."""
        self._counters[name].of(labels).inc(by)

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Have a histogram count a value."""
        self._histograms[name].of(labels).observe(value)

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Set a gauge."""
        self._gauges[name].of(labels).set(value)

    def exposition(self) -> Answer:
        """All that the registry has, as Prometheus reads it."""
        return Answer(200, CONTENT_TYPE_LATEST, generate_latest(self._registry))
