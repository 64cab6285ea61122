"""What is there only with an extra, for whoever has to do without it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from runnerq.telemetry.listeners import Listener


def with_prometheus(listeners: Sequence[Listener]) -> tuple[Listener, ...]:
    """These, and one that keeps metrics for Prometheus, if the extra ``prometheus`` is installed and none of them shows
    metrics already. ConfigurationError if somebody else of this process keeps them."""
    shown = any(hasattr(each, "exposition") for each in listeners)
    if shown or find_spec("prometheus_client") is None:
        return tuple(listeners)
    from runnerq.telemetry.prometheus import PrometheusMetrics  # noqa: PLC0415 - only where it is there

    return (*listeners, PrometheusMetrics())
