"""What ``--listener`` names in the tests: metrics in the process's own registry, which there can be once."""

from __future__ import annotations

from runnerq.telemetry.prometheus import PrometheusMetrics

metrics = PrometheusMetrics
