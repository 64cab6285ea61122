"""Random workflows, played in memory and virtual time with faults: see the other files of this folder.

``python -m tests.properties --cases 10000 --jobs 2`` plays as many as one has time for.
"""

from __future__ import annotations

import os

import pytest

from tests.properties.census import LEAST, Census
from tests.properties.generate import STRATA
from tests.properties.many import many

CASES = int(os.environ.get("RUNNERQ_PROPERTY_CASES", 4 * STRATA))
SEED = int(os.environ.get("RUNNERQ_PROPERTY_SEED", "3"))
"""The same cases in every run of the suite: it is to turn red for what was changed, and not by chance."""


@pytest.mark.timeout(300 + CASES)
def test_a_random_workflow_under_faults_ends_as_the_straight_line_model_says() -> None:
    census = Census()
    many(CASES, SEED, census)
    print(census.table())
    assert census.cases >= CASES
    # A few hundred cases say less about shares than ten thousand.
    assert census.rare(LEAST / 2) == []
