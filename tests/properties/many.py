"""Many random cases in one process, each played and checked; the smallest one that fails is found and told."""

from __future__ import annotations

import traceback

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.properties.cases import Case
from tests.properties.census import Census
from tests.properties.generate import STRATA, cases
from tests.properties.playing import played_in_memory


def many(cases_: int, first_seed: int, census: Census) -> None:
    """Play so many cases, of all strata alike; raises at the smallest one that fails."""
    for stratum in range(STRATA):
        _stratum(stratum, -(-cases_ // STRATA), first_seed + stratum, census)


def collected(count: int, first_seed: int) -> list[Case]:
    """So many cases of all strata, without playing any."""
    found: list[Case] = []
    for each in range(count):
        drawn: list[Case] = []
        _drawn(7 * each % STRATA, first_seed + each, drawn)
        found.append(max(drawn, key=lambda case: len(case.shown())))
    return found


def _drawn(stratum: int, chance: int, into: list[Case]) -> None:
    @seed(chance)
    @settings(max_examples=3, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=cases(stratum))
    def draw(case: Case) -> None:
        into.append(case)

    draw()


def _stratum(stratum: int, count: int, chance: int, census: Census) -> None:
    failed = False

    @seed(chance)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
        print_blob=False,
    )
    @given(case=cases(stratum))
    def play(case: Case) -> None:
        nonlocal failed
        try:
            # What is played again to make a failure smaller is not counted.
            played_in_memory(case, None if failed else census)
        except BaseException:
            failed = True
            raise

    play()


def job(asked: tuple[int, int]) -> Census | str:
    census = Census()
    try:
        many(*asked, census)
    except BaseException as error:
        return "".join(traceback.format_exception(error))
    return census
