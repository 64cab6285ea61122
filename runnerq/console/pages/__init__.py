"""The pages: plain HTML that works without scripts. Each module has its handlers in a list."""

from __future__ import annotations

from runnerq.console.pages import (
    batches,
    failures,
    fleet,
    overview,
    records,
    reference,
    run,
    run_actions,
    runs,
    schedules,
    settings,
    start,
    views,
)

HANDLERS = [
    *overview.HANDLERS,
    *runs.HANDLERS,
    *views.HANDLERS,
    *run.HANDLERS,
    *run_actions.HANDLERS,
    *start.HANDLERS,
    *failures.HANDLERS,
    *batches.HANDLERS,
    *schedules.HANDLERS,
    *fleet.HANDLERS,
    *records.HANDLERS,
    *reference.HANDLERS,
    *settings.HANDLERS,
]
"""All of them, for the console's router."""
