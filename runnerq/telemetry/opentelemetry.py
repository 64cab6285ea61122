"""Traces and metrics for OpenTelemetry: the extra ``otel``.

``connect(dsn, listeners=[OpenTelemetry()])``: the client's starts begin spans, its workers' runs, turns and attempts
are spans below them, and the same list of metrics as everywhere goes to the meter. What is exported, and where to, the
application sets up with OpenTelemetry's own SDK, as ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from opentelemetry import metrics, trace
from opentelemetry.metrics import Counter, Histogram, MeterProvider
from opentelemetry.metrics import _Gauge as Gauge
from opentelemetry.trace import TracerProvider

from runnerq.errors import ConfigurationError
from runnerq.telemetry.events import Event
from runnerq.telemetry.listeners import Sending, Trace
from runnerq.telemetry.measuring import Measuring
from runnerq.telemetry.metrics import INSTRUMENTS, Instrument
from runnerq.telemetry.spans import Spans

SCOPE = "runnerq"


class OpenTelemetry:
    """A listener that keeps spans and metrics with the given providers, or the global ones.

    ``share`` is of runs that were started without a trace, by a schedule or from the command line: so many of them have
    one, from 0 to 1, and each in all workers alike. All others are sampled as whoever started them was.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        share: float = 1.0,
    ) -> None:
        if not 0 <= share <= 1:
            raise ConfigurationError(f"share={share!r}: expected from 0 (none) to 1 (all)")
        self._spans = Spans(trace.get_tracer(SCOPE, tracer_provider=tracer_provider), share)
        self._measuring = Measuring(_Instruments(meter_provider))

    def hear(self, event: Event) -> None:
        """Make a span or a metric of it."""
        self._measuring.hear(event)
        self._spans.hear(event)

    def starting(self, name: str, kind: str) -> Sending:
        """The span of a start."""
        return self._spans.starting(name, kind)

    def sending(self, run_id: str, channel: str) -> Sending:
        """The span of a signal."""
        return self._spans.sending(run_id, channel)

    def carried(self, run_id: str) -> Trace | None:
        """What goes with the children and signals of a run that is held here."""
        return self._spans.carried(run_id)

    def took(self, run_id: str, traces: Sequence[Trace]) -> None:
        """Link the run's next turn to what sent these signals."""
        self._spans.took(run_id, traces)

    def came_with(self, run_id: str, root_id: str, started: Trace | None, begun: Trace | None) -> None:
        """Note what a run was started with, and what its journal began with."""
        self._spans.came_with(run_id, root_id, started, begun)


class _Instruments:
    """The metrics, as instruments of a meter."""

    def __init__(self, provider: MeterProvider | None) -> None:
        self._meter = metrics.get_meter(SCOPE, meter_provider=provider)
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        self._gauges: dict[str, Gauge] = {}
        for instrument in INSTRUMENTS:
            self._make(instrument)

    def _make(self, instrument: Instrument) -> None:
        name, unit, says = f"{SCOPE}.{instrument.name}", instrument.unit, instrument.says
        match instrument.kind:
            case "counter":
                self._counters[instrument.name] = self._meter.create_counter(name, unit, says)
            case "histogram":
                self._histograms[instrument.name] = self._meter.create_histogram(
                    name, unit, says, explicit_bucket_boundaries_advisory=instrument.bounds
                )
            case "gauge":
                self._gauges[instrument.name] = self._meter.create_gauge(name, unit, says)
            case _:
                assert_never(instrument.kind)

    def count(self, name: str, labels: Mapping[str, str], by: float) -> None:
        self._counters[name].add(by, labels)

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        self._histograms[name].record(value, labels)

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        self._gauges[name].set(value, labels)
