"""All pages there are, for what must be true of each of them."""

from __future__ import annotations

from collections.abc import Sequence

from tests.browser.seed import Seeded

LISTS = (
    "/", "/runs", "/runs?status=failed&status=dead_letter", "/runs?workflow=nobody", "/blocked", "/dead-letter",
    "/schedules", "/schedules/nightly-report", "/queues", "/queues/default", "/limits", "/types", "/types/checkout",
    "/workers", "/batches", "/audit", "/settings", "/start", "/api", "/no-such-page",
    "/runs/0190f0f0-0000-7000-8000-000000000000",
)  # fmt: skip
PARTS = ("", "/history", "/tree", "/signals", "/attempts")


def pages(seeded: Seeded) -> Sequence[str]:
    """Each page once, with something on it where it can have something, and the ones that say that there is nothing."""
    runs = [f"/runs/{seeded.waiting}{part}" for part in PARTS]
    runs += [f"/runs/{seeded.done}{part}" for part in ("", "/history", "/tree")]
    runs += [f"/runs/{run}" for run in (seeded.failed, seeded.blocked, seeded.markup, seeded.running, seeded.retrying)]
    return (*LISTS, *runs, f"/runs/{seeded.done}/history?view=full", f"/runs/{seeded.done}/history?view=json")
