"""Play many random cases, or one again.

    python -m tests.properties --cases 10000 --jobs 2    the long mode: the shares of what occurs are asserted
    python -m tests.properties --case '{...}'            one that failed, with the workers' log

Exit code 0 only if every case held and everything occurs often enough.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import sys
import time
from random import Random

import msgspec

from tests.properties.cases import Case
from tests.properties.census import LEAST, Census
from tests.properties.many import job
from tests.properties.playing import played_in_memory


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=None, help="the same cases again")
    parser.add_argument("--case", help="play this one")
    given_ = parser.parse_args()
    if given_.case is not None:
        logging.basicConfig(level=logging.DEBUG)
        played = played_in_memory(msgspec.json.decode(given_.case, type=Case))
        print(played.happened, [(run.status, run.result or run.error) for run in played.runs])
        return 0
    first = given_.seed if given_.seed is not None else Random().randrange(2**30)
    print(f"--seed {first}")
    began = time.monotonic()
    share = -(-given_.cases // given_.jobs)
    total, failures = Census(), []
    with multiprocessing.get_context("spawn").Pool(given_.jobs) as pool:
        for result in pool.imap_unordered(job, [(share, first + each) for each in range(given_.jobs)]):
            if isinstance(result, str):
                failures.append(result)
                print(result)
            else:
                total.cases += result.cases
                total.counts += result.counts
                total.virtual_seconds += result.virtual_seconds
    print(total.table())
    print(f"{time.monotonic() - began:.0f} s")
    rare = total.rare()
    if rare:
        print(f"in less than {LEAST:.0%} of cases: {', '.join(rare)}")
    return 1 if failures or rare else 0


if __name__ == "__main__":
    sys.exit(main())
