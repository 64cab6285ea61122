"""A short load of the limits; the long ones are ``python -m tests.limits``."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.limits.plan import planned
from tests.limits.playing import play

RUNS = 700
SPREAD = 1.5


@pytest.mark.timeout(400)
async def test_no_limit_is_exceeded_and_no_run_starves_under_random_loads_with_a_process_killed_that_holds_places(
    database: str, tmp_path: Path
) -> None:
    seed = Random().randrange(2**30)
    print(f"--seed {seed}")
    played = await play(database, planned(seed, RUNS, SPREAD), tmp_path)
    assert played.judged.faults == []
    assert played.runs >= RUNS
    # That it bit at all: places and rates were used up, and places were held when the process was killed.
    assert min(played.judged.full, played.judged.rates_used_up, *played.held) > 0
