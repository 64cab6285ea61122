"""The Chromium of this machine, and how it is started."""

from __future__ import annotations

import shutil

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""The first that is there is taken. The headless shell has no windows to draw, and takes a third of the time."""
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip


def found() -> str | None:
    """Where it is; None where there is none on PATH."""
    return next(filter(None, map(shutil.which, NAMES)), None)
