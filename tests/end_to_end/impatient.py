"""The command line of workers that are ended soon after their supervisor is gone."""

from __future__ import annotations

from runnerq.cli import worker
from runnerq.cli.main import main

if __name__ == "__main__":
    worker.MARGIN = 0.5
    main()
