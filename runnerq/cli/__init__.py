"""The command line. ``main`` is what the ``runnerq`` command runs, ``for_litestar`` what ``litestar runnerq`` does."""

from __future__ import annotations

from runnerq.cli.main import for_litestar, main

__all__ = ["for_litestar", "main"]
