"""Plays one case in memory and virtual time, and checks it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from runnerq.persistence.memory import MemoryStorage
from tests.properties.cases import Case
from tests.properties.census import Census
from tests.properties.checks import check
from tests.properties.loops import LoopClock, LoopSurroundings, in_virtual_time
from tests.properties.world import Pace, Played, World


def played_in_memory(case: Case, census: Census | None = None) -> Played:
    """Play it, check it, count it, and give what is left of it. Raises what went wrong, with the case as a note."""

    async def play() -> Played:
        return await World(case, MemoryStorage(LoopClock()), Pace(), LoopSurroundings).play()

    try:
        with quiet():
            played = in_virtual_time(play, case.seed)
        reached = check(played)
    except BaseException as error:
        error.add_note(f"play it again: python -m tests.properties --case '{case.shown()}'")
        raise
    if census is not None:
        census.add(played, reached)
    return played


@contextmanager
def quiet() -> Iterator[None]:
    """The workers say nothing of the faults that they meet on purpose."""
    log = logging.getLogger("runnerq")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)
