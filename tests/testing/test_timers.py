"""Timers that no real time moves."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from runnerq.clock import ManualClock
from runnerq.runtime.timers import pause
from runnerq.testing.quiet import at_rest
from runnerq.testing.timers import Looks, VirtualTimers


async def rest() -> None:
    await at_rest(asyncio.get_running_loop())


async def test_virtual_timers_come_in_order_when_the_clock_was_moved() -> None:
    clock = ManualClock()
    timers = VirtualTimers(clock)
    came: list[str] = []
    timers.call_later(2, came.append, "second")
    timers.call_later(1, came.append, "first")
    timers.call_at(2, came.append, "third")
    timers.call_later(3, came.append, "cancelled").cancel()
    assert timers.next_due() == clock.now() + timedelta(seconds=1)
    timers.fire()
    await rest()
    assert came == []
    clock.advance(2)
    timers.fire()
    assert came == []
    await rest()
    assert came == ["first", "second", "third"]
    assert timers.next_due() is None


async def test_a_call_that_is_cancelled_between_its_time_and_its_turn_does_not_come() -> None:
    clock = ManualClock()
    timers = VirtualTimers(clock)
    came: list[int] = []
    call = timers.call_later(1, came.append, 1)
    clock.advance(1)
    timers.fire()
    call.cancel()
    await rest()
    assert came == []


async def test_what_is_due_now_comes_at_once() -> None:
    came: list[str] = []
    VirtualTimers(ManualClock()).call_later(0, came.append, "timer")
    Looks().call_at(0, came.append, "look")
    await rest()
    assert came == ["timer", "look"]


async def test_looks_come_when_they_are_rung_for_however_far_off() -> None:
    looks = Looks()
    turns: list[float] = []

    async def look() -> None:
        while True:
            await pause(looks, 3600)
            turns.append(looks.time())

    looking = asyncio.create_task(look())
    await rest()
    assert turns == []
    for _ in range(3):
        looks.ring()
        await rest()
    assert turns == [3600, 7200, 10800]
    looking.cancel()
    await asyncio.wait({looking})
    looks.ring()
    await rest()
