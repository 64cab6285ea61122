"""The storage rules under a hammer: several processes at once, and everything that goes wrong with them.

    python -m tests.persistence.postgres.hammer DSN [--runs 3000] [--workers 4] [--seconds 600]

- Workers take random turns, send one commit in ten again, lose two claim replies in a hundred, are killed with
  SIGKILL by the parent, or are declared dead and go on writing under their old tokens.
- Senders send signals one by one, in batches, and in transactions that they hold open; they cancel or terminate
  some runs, start runs whose keys collide, and open failed runs again, alone or with their failed parents.
- A watcher reaps, unblocks and sweeps, and asserts all the time, in one snapshot, that no parked run has its wake
  already there.
- It goes on, with runs that come after the first, until each of EVENTS has happened. Then every run has ended, journals
  have no gaps, entries of two owners never interleave, and no signal was lost or consumed twice.

The database is wiped first. Exit code 0 only if nothing was found.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from tests.persistence.postgres.hammer.processes import hammer


def main() -> int:
    parser = argparse.ArgumentParser(description="Hammer on the Postgres storage; the database is wiped.")
    parser.add_argument("dsn")
    parser.add_argument("--runs", type=int, default=3000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=600)
    given = parser.parse_args()
    report = asyncio.run(hammer(given.dsn, runs=given.runs, workers=given.workers, seconds=given.seconds))
    counted = ", ".join(f"{name} {count:,}" for name, count in report.counts.items() if count)
    print(f"{report.seconds:.0f} s, {report.operations:,} operations: {counted}")
    for fault in report.faults:
        print("FAULT", fault)
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
