"""The command line. ``main`` is what the ``runnerq`` command runs."""

from __future__ import annotations

from runnerq.cli.main import main

__all__ = ["main"]
