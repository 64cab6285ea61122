"""Play loads of the limits, each on a fresh database: rules that change, two worker processes, one that is killed.

    python -m tests.limits DSN [--loads 20] [--runs 2000] [--kills 5] [--seed N]

It is the long form of ``test_limits_hold.py``. The DSN is of a server where databases may be made. Exit code 0 only if
no limit was exceeded, as seen from inside the activities, and every run has ended.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from random import Random

from tests.limits.plan import planned
from tests.limits.playing import play
from tests.postgres import fresh_database

RUNS_A_SECOND = 200


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dsn")
    parser.add_argument("--loads", type=int, default=20)
    parser.add_argument("--runs", type=int, default=2000, help="of each load")
    parser.add_argument("--kills", type=int, default=5, help="SIGKILLs of each load")
    parser.add_argument("--seed", type=int, default=None, help="the same loads again")
    given = parser.parse_args()
    first = given.seed if given.seed is not None else Random().randrange(2**30)
    faults = 0
    for seed in range(first, first + given.loads):
        print(f"--seed {seed}", end=": ", flush=True)
        plan = planned(seed, given.runs, given.runs / RUNS_A_SECOND)
        with fresh_database(given.dsn) as dsn, tempfile.TemporaryDirectory() as folder:
            played = asyncio.run(play(dsn, plan, Path(folder), kills=given.kills, replaced=True))
        found = played.judged
        print(
            f"{played.runs} runs in {played.seconds:.0f} s, full {found.full} times, rates used up "
            f"{found.rates_used_up} times, {played.held} inside when killed, {found.again} attempts again",
            flush=True,
        )
        for fault in found.faults:
            print("FAULT", fault)
        faults += len(found.faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
