"""Deadlines: one timer a length, and each thing at its own time."""

from __future__ import annotations

import asyncio

from runnerq.runtime.deadlines import MANY_LENGTHS, Deadlines
from tests.runtime.virtual_time import in_virtual_time


class Wall:
    """Deadlines, and what passed when."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.passed: list[tuple[str, float]] = []
        self.deadlines: Deadlines[str] = Deadlines(
            loop, lambda thing: self.passed.append((thing, round(loop.time(), 3)))
        )


@in_virtual_time
async def test_each_thing_passes_at_its_own_time() -> None:
    wall = Wall()
    wall.deadlines.keep("a", 2)
    wall.deadlines.keep("c", 5)
    await asyncio.sleep(1)
    wall.deadlines.keep("b", 2)
    await asyncio.sleep(10)
    assert wall.passed == [("a", 2.0), ("b", 3.0), ("c", 5.0)]


@in_virtual_time
async def test_what_is_dropped_never_passes() -> None:
    wall = Wall()
    wall.deadlines.keep("a", 2)
    wall.deadlines.keep("b", 2)
    wall.deadlines.drop("a", 2)
    wall.deadlines.drop("unknown", 3)
    await asyncio.sleep(10)
    assert wall.passed == [("b", 2.0)]


@in_virtual_time
async def test_a_thing_kept_after_its_length_fell_empty_passes_at_its_own_time() -> None:
    wall = Wall()
    wall.deadlines.keep("a", 2)
    wall.deadlines.drop("a", 2)
    await asyncio.sleep(1)
    wall.deadlines.keep("b", 2)
    await asyncio.sleep(10)
    assert wall.passed == [("b", 3.0)]


@in_virtual_time
async def test_many_lengths_leave_no_timers_behind() -> None:
    wall = Wall()
    for number in range(1000):
        wall.deadlines.keep("a", 100 + number)
        wall.deadlines.drop("a", 100 + number)
    assert len(wall.deadlines._lengths) <= MANY_LENGTHS + 1


@in_virtual_time
async def test_clearing_drops_everything() -> None:
    wall = Wall()
    wall.deadlines.keep("a", 2)
    wall.deadlines.clear()
    await asyncio.sleep(10)
    assert wall.passed == []
