"""Each way of changing code under an open run, with the run at each stage of its journal.

It is found as soon as the changed place is on record, and tells the position, what is recorded, what is asked for and
the line; before that the run takes the new code.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from runnerq.workflow.context import Context
from runnerq.workflow.ending import Blocked
from tests.workflow.driver import Body, Drive, line_in
from tests.workflow.steps import GO, anything, charge, find, price

ANSWERS: dict[str, Any] = {"1": 10, "2": None, "3": 3, "4": {"item": "pen"}, "5": None}


def original(ctx: Context) -> Any:
    cost = yield ctx.step(price, "book")
    yield ctx.sleep(60)
    paid = yield ctx.step(charge, cost)
    order = yield ctx.signal(GO)
    yield ctx.step(anything, order.item, paid)
    yield ctx.sleep(1)


def returning_early(ctx: Context) -> Any:
    cost = yield ctx.step(price, "book")
    yield ctx.sleep(60)
    if cost:
        return "early"  # changed
    yield ctx.step(charge, cost)


def raising_early(ctx: Context) -> Any:
    yield ctx.step(price, "book")
    yield ctx.sleep(60)
    raise ValueError("early")  # changed


def inserting_a_step(ctx: Context) -> Any:
    cost = yield ctx.step(price, "book")
    yield ctx.sleep(60)
    yield ctx.step(find, "book")  # changed
    yield ctx.step(charge, cost)


def inserting_the_same_step(ctx: Context) -> Any:
    cost = yield ctx.step(price, "book")
    yield ctx.sleep(60)
    yield ctx.step(charge, cost)
    yield ctx.step(charge, cost)  # changed
    order = yield ctx.signal(GO)
    yield ctx.step(anything, order.item)


def changing_arguments(ctx: Context) -> Any:
    cost = yield ctx.step(price, "book")
    yield ctx.sleep(60)
    yield ctx.step(charge, cost + 1)  # changed
    yield ctx.signal(GO)


def changing_keyword_arguments(ctx: Context) -> Any:
    cost = yield ctx.step(price, "book")
    yield ctx.sleep(60)
    yield ctx.step(charge, item=cost)  # changed


def removing_a_wait(ctx: Context) -> Any:
    cost = yield ctx.step(price, "book")
    yield ctx.sleep(60)
    paid = yield ctx.step(charge, cost)
    yield ctx.step(anything, "pen", paid)  # changed


def removing_the_last_step(ctx: Context) -> Any:
    cost = yield ctx.step(price, "book")
    yield ctx.sleep(60)
    yield ctx.step(charge, cost)
    yield ctx.signal(GO)
    return  # changed


def changing_a_timer(ctx: Context) -> Any:
    yield ctx.step(price, "book")
    yield ctx.sleep(61)  # changed
    yield ctx.step(charge, 10)


def changing_a_timeout(ctx: Context) -> Any:
    cost = yield ctx.step(price, "book")
    yield ctx.sleep(60)
    yield ctx.step(charge, cost)
    yield ctx.signal(GO, timeout=5)  # changed


def renaming_a_step(ctx: Context) -> Any:
    cost = yield ctx.step(price, "book")
    yield ctx.sleep(60)
    yield ctx.options(name="pay").step(charge, cost)  # changed


def swapping_two(ctx: Context) -> Any:
    cost = yield ctx.step(price, "book")
    yield ctx.step(charge, cost)  # changed
    yield ctx.sleep(60)


def making_it_a_race(ctx: Context) -> Any:
    yield ctx.step(price, "book")
    yield ctx.race(ctx.sleep(60), ctx.signal(GO))  # changed


CHANGES: list[tuple[Body, int, str | None, str]] = [
    (returning_early, 3, None, "step 'charge'"),
    (raising_early, 3, None, "step 'charge'"),
    (inserting_a_step, 3, "step 'find'", "step 'charge'"),
    (inserting_the_same_step, 4, "step 'charge'", "signal 'go'"),
    (changing_arguments, 3, "step 'charge'", "step 'charge'"),
    (changing_keyword_arguments, 3, "step 'charge'", "step 'charge'"),
    (removing_a_wait, 4, "step 'anything'", "signal 'go'"),
    (removing_the_last_step, 5, None, "step 'anything'"),
    (changing_a_timer, 2, "sleep", "sleep"),
    (changing_a_timeout, 4, "signal 'go'", "signal 'go'"),
    (renaming_a_step, 3, "step 'pay'", "step 'charge'"),
    (swapping_two, 2, "step 'charge'", "sleep"),
    (making_it_a_race, 2, "race", "sleep"),
]
"""The changed code; the entry from which on it differs; what it asks for there, and what is recorded there."""

STAGES = range(1, 7)
"""The entry that the run waits for: it runs a step at 1, 3 and 5, and is parked at 2, 4 and 6."""


def at_stage(stage: int) -> Drive:
    run = Drive(original)
    for position in list(ANSWERS)[: stage - 1]:
        run.answer(position, ANSWERS[position])
    assert list(run.open) == [str(stage)]
    return run


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("changed", "differs", "asked", "recorded"), CHANGES, ids=[code.__name__ for code, *_ in CHANGES]
)
def test_a_change_of_code_is_found_as_soon_as_its_place_is_on_record(
    changed: Body, differs: int, asked: str | None, recorded: str, stage: int
) -> None:
    run = at_stage(stage)
    rows = list(run.rows)
    run.retake(changed)
    if stage < differs:
        assert run.blocked is None
        assert list(run.open) == [str(stage)]
        return
    block = run.block
    assert block.position == str(differs)
    assert block.recorded is not None
    assert block.recorded.startswith(f"{recorded} (")
    assert (block.asked or "").split(" (")[0] == (asked or "")
    assert block.line == f"{line_in(changed, '# changed')} in {changed.__name__}"
    assert block.line in block.message
    assert run.rows == rows, "it writes nothing, so that nothing is lost"
    assert run.retake(original).blocked is None


@pytest.mark.parametrize("stage", STAGES)
def test_code_that_did_not_change_follows_at_every_stage(stage: int) -> None:
    assert list(at_stage(stage).retake(lambda ctx: (yield from original(ctx))).open) == [str(stage)]


@pytest.mark.parametrize("changed", [returning_early, raising_early])
def test_rows_behind_an_end_are_found_with_the_line_by_which_the_code_left(changed: Body) -> None:
    run = at_stage(3)
    nothing_asked = msgspec.structs.replace(run.rows[2], asked="[]")
    run.rows = [*run.rows[:2], nothing_asked, msgspec.structs.replace(nothing_asked, place=3)]
    block: Blocked = run.retake(changed).block
    assert block.asked == "the workflow has ended"
    assert block.recorded == "answered 2"
    assert block.line == f"{line_in(changed, '# changed')} in {changed.__name__}"
