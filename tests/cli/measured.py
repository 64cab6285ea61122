"""What ``--listener`` names in the tests: metrics in the process's own registry, which there can be once; and who says
which event loop it is called on."""

from __future__ import annotations

import asyncio

from runnerq.cli.telling import say
from runnerq.telemetry.events import Event, WorkerLeft
from runnerq.telemetry.prometheus import PrometheusMetrics

metrics = PrometheusMetrics


class Where:
    """Says at its end on whose event loop a worker ran."""

    def hear(self, event: Event) -> None:
        if isinstance(event, WorkerLeft):
            say(f"on {type(asyncio.get_running_loop()).__module__}")
