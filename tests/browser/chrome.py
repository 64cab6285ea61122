"""The Chromium of this machine, and how it is started."""

from __future__ import annotations

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip


def found() -> str | None:
    """Where it is; None where there is none on PATH."""
    return next(filter(None, map(shutil.which, NAMES)), None)
