"""All pages there are, for what must be true of each of them."""

from __future__ import annotations

from collections.abc import Mapping

MAIN: Mapping[str, str] = {
    "overview": "/",
    "runs": "/runs?queue=default",
    "blocked": "/blocked",
    "dead-letter": "/dead-letter",
    "schedules": "/schedules",
    "schedule": "/schedules/nightly-report",
    "schedule-form": "/schedule?name=nightly-report",
    "queues": "/queues",
    "queue": "/queues/bulk",
    "limits": "/limits",
    "types": "/types",
    "type": "/types/checkout",
    "workers": "/workers",
    "worker": "/workers/{worker}",
    "batches": "/batches",
    "batch": "/batches/{batch}",
    "batch-form": "/batches/new?verb=cancel&queue=idle",
    "audit": "/audit",
    "settings": "/settings",
    "start": "/start?name=checkout",
    "api": "/api",
    "nothing": "/no-such-page",
    "run-waiting": "/runs/{waiting}",
    "run-failed": "/runs/{failed}",
    "run-blocked": "/runs/{blocked}",
    "history": "/runs/{waiting}/history",
    "tree": "/runs/{done}/tree",
    "signals": "/runs/{waiting}/signals",
    "attempts": "/runs/{retrying}/attempts",
    "fork": "/runs/{done}/fork?entry=3",
    "reveal": "/runs/{secret}/reveal?which=input",
}
"""One of each template, with as much on it as there can be."""
OTHER: Mapping[str, str] = {
    "runs-failed": "/runs?status=failed&status=dead_letter",
    "runs-none": "/runs?workflow=nobody",
    "run-unknown": "/runs/0190f0f0-0000-7000-8000-000000000000",
    "run-done": "/runs/{done}",
    "run-markup": "/runs/{markup}",
    "run-running": "/runs/{running}",
    "run-retrying": "/runs/{retrying}",
    "run-cancelled": "/runs/{cancelled}",
    "run-unserved": "/runs/{unserved}",
    "run-named": "/runs/{named}",
    "runs-named": "/runs?q=named-",
    "history-full": "/runs/{done}/history?view=full",
    "history-json": "/runs/{done}/history?view=json",
    "graph": "/runs/{done}/tree?view=graph",
    "tree-wide": "/runs/{wide}/tree",
}
"""The same templates with something else on them, or with nothing."""
PAGES: Mapping[str, str] = {**MAIN, **OTHER}
"""Each page once; what stands in braces is an id that ``living_world`` knows."""
