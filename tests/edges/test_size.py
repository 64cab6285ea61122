"""Long runs: no step costs more than the one before it, and an answer is decoded when it is fed and not before.

What is counted are calls, of Python and of C functions, and what crosses to the storage: never time.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from datetime import timedelta
from types import FrameType
from typing import Any

import msgspec
import pytest

from runnerq.serialization.codec import Codec
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from runnerq.workflow.ending import Blocked
from runnerq.workflow.interpreter import LONG, Interpreter
from runnerq.workflow.journal import Row, Started
from tests.runtime.stage import Stage, Tapped
from tests.workflow.driver import START, an_interpreter
from tests.workflow.steps import find, price

STEPS = 2_000
LATER = START + timedelta(days=1)


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called while this runs."""
    called = [0]

    def see(frame: FrameType, event: str, arg: Any) -> None:
        called[0] += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(before)
    return called[0]


def many_steps(ctx: Context) -> Any:
    total = 0
    while True:
        total += yield ctx.step(price, "book")


def one_step(run: Interpreter, number: int) -> tuple[Row, ...]:
    run.answer(str(number), "1", 1, START)
    return run.collect().rows


def journal_of(steps: int) -> list[Row]:
    """What a run of so many steps has on record."""
    run = an_interpreter(many_steps)
    run.begin(Started(seed="s", build="b"), START)
    rows = list(run.collect().rows)
    for number in range(1, steps):
        rows += one_step(run, number)
    run.close()
    return rows


# --- steps ------------------------------------------------------------------------------------------------------------


def test_the_last_of_two_thousand_steps_costs_what_the_hundredth_did() -> None:
    run = an_interpreter(many_steps)
    run.begin(Started(seed="s", build="b"), START)
    run.collect()
    costs = [calls_of(lambda number=number: one_step(run, number)) for number in range(1, STEPS + 1)]  # type: ignore[misc]
    run.close()
    assert sum(costs[-100:]) <= sum(costs[100:200])


async def test_of_two_thousand_steps_each_is_written_once_and_the_journal_is_read_once(memory: Stage) -> None:
    @activity
    async def number(value: int) -> int:
        return value

    @workflow
    def order(ctx: Context) -> Flow[int]:
        total = 0
        for value in range(STEPS):
            total += yield from ctx.step(number, value)
        return total

    tapped = Tapped(memory.storage)
    async with memory.on(tapped).serving(order) as client:
        run = await client.start(order)
        assert await run.result(timeout=60) == sum(range(STEPS))
    turns = tapped.turns_of(run.id)
    assert sum(len(turn.rows) for turn in turns) == STEPS + 1
    assert max(len(turn.rows) for turn in turns) <= 2
    assert len(turns) <= STEPS + 2
    assert tapped.claimed(run.id) == 1
    await memory.no_gaps(run.id)


# --- replay -----------------------------------------------------------------------------------------------------------


def test_resuming_a_run_of_ten_thousand_entries_costs_twice_that_of_five_thousand() -> None:
    rows = journal_of(10_000)

    def cost(entries: int) -> int:
        run = an_interpreter(many_steps)
        calls = calls_of(lambda: run.replay(rows[:entries], LATER))
        run.close()
        return calls

    cost(10)  # what is made once
    per_entry = (cost(2_000) - cost(1_000)) / 1_000
    assert cost(10_000) - cost(5_000) == pytest.approx(per_entry * 5_000, rel=0.01)


class Counting(Codec):
    """Counts what it decodes."""

    decoded = 0

    def decode(self, text: str, type_: Any, what: object) -> Any:
        self.decoded += 1
        return super().decode(text, type_, what)


def test_of_ten_thousand_entries_none_is_decoded_before_it_is_fed() -> None:
    rows = journal_of(10_000)
    # Could not even be read: whoever decodes ahead of the code would meet it.
    rows[7_000:] = [msgspec.structs.replace(row, value="{", asked="{") for row in rows[7_000:]]

    def changed(ctx: Context) -> Any:
        for _ in range(5):
            yield ctx.step(price, "book")
        yield ctx.step(find, "book")

    codec = Counting()
    run = an_interpreter(changed, codec=codec)
    with pytest.raises(Blocked) as blocked:
        run.replay(rows, LATER)
    run.close()
    assert blocked.value.position == "6"
    assert codec.decoded == 5


# --- a warning --------------------------------------------------------------------------------------------------------


async def test_a_journal_that_has_grown_long_is_told_once_with_what_to_do(
    memory: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    @workflow
    def order(ctx: Context) -> Flow[None]:
        # One row a member, and one of the whole.
        yield from ctx.gather(ctx.sleep(0) for _ in range(LONG + 5))
        yield from ctx.sleep(0)

    async with memory.serving(order) as client:
        run = await client.start(order)
        await run.result(timeout=60)
    [told] = [record.getMessage() for record in caplog.records if run.id in record.getMessage()]
    assert "continue_as_new" in told
