"""``python -m runnerq``: the command line."""

from __future__ import annotations

from runnerq.cli import main

main(prog_name="runnerq")
