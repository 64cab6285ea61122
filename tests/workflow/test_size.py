"""Long journals: replay costs the same for each row, and a workflow that grows long is told so once."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from runnerq.workflow import interpreter
from runnerq.workflow.context import Context
from runnerq.workflow.journal import Row, Started
from tests.workflow.driver import START, Body, an_interpreter
from tests.workflow.steps import price


def sequential(count: int) -> Body:
    def wf(ctx: Context) -> Any:
        total = 0
        for item in range(count):
            total += yield ctx.step(price, item)
        return total

    return wf


def side_by_side(count: int) -> Body:
    def wf(ctx: Context) -> Any:
        values = yield ctx.gather([ctx.step(price, item) for item in range(count)], limit=10)
        return sum(values)

    return wf


def journal(code: Body) -> tuple[list[Row], Any]:
    """The rows of a whole run, and its result."""
    run = an_interpreter(code)
    run.begin(Started(seed="s", build="b"), START)
    while run.leaves:
        run.answer(next(iter(run.leaves)), "3", 3, START)
    progress = run.collect()
    run.close()
    assert progress.end is not None
    return list(progress.rows), progress.end


def calls_of_a_replay(code: Body, rows: list[Row]) -> int:
    """How many calls, in Python and in C, a replay takes: a measure of its time that no other load changes."""
    count = 0

    def counted(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    run = an_interpreter(code)
    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        run.replay(rows, START)
    finally:
        sys.setprofile(before)
    run.close()
    return count


@pytest.mark.parametrize("shape", [sequential, side_by_side])
def test_the_cost_of_a_replay_is_linear_in_the_journal(shape: Any) -> None:
    calls = {}
    for count in (200, 400, 800):
        rows, _ = journal(shape(count))
        calls[count] = calls_of_a_replay(shape(count), rows)
    assert calls[800] - calls[400] <= 2.05 * (calls[400] - calls[200])


def test_ten_thousand_entries_of_two_thousand_steps_are_replayed() -> None:
    def wf(ctx: Context) -> Any:
        total = 0
        for item in range(2_000):
            total += yield ctx.step(price, item)
            for _ in range(4):
                yield ctx.sleep(1)
        return total

    rows, end = journal(wf)
    assert len(rows) == 10_001
    run = an_interpreter(wf)
    run.replay(rows, START)
    assert run.end == end
    run.close()


def test_a_journal_that_grows_long_is_told_once_when_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "LONG", 5)
    code = sequential(20)
    run = an_interpreter(code)
    run.begin(Started(seed="s", build="b"), START)
    told, rows = [], []
    for position in range(1, 9):
        progress = run.collect()
        told.append(progress.grown_long)
        rows += progress.rows
        run.answer(str(position), "3", 3, START)
    run.close()
    assert told == [False] * 4 + [True] + [False] * 3

    again = an_interpreter(code)
    again.replay(rows, START)
    assert not again.collect().grown_long
    again.answer("9", "3", 3, START)
    assert not again.collect().grown_long
    again.close()


def test_several_rows_in_one_turn_that_reach_the_limit_tell_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "LONG", 5)
    run = an_interpreter(sequential(20))
    run.begin(Started(seed="s", build="b"), START)
    for position in range(1, 9):
        run.answer(str(position), "3", 3, START)
    assert run.collect().grown_long
    assert not run.collect().grown_long
    run.close()
