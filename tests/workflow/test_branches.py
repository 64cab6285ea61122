"""Branches and composites inside composites: numbering, losing, cleaning up."""

from __future__ import annotations

from typing import Any

import pytest

from runnerq.errors import Cancelled
from runnerq.workflow.commands import Flow, Winner
from runnerq.workflow.context import Context
from tests.workflow.driver import CutOff, drive
from tests.workflow.steps import GO, Declined, Order, charge, paying, price, ship, tidy

# --- branches ---------------------------------------------------------------------------------------------------------


def test_branches_are_numbered_by_themselves_whatever_the_order_of_answers() -> None:
    def wf(ctx: Context) -> Flow[Any]:
        return (yield from ctx.all(paying(ctx, "book"), paying(ctx, "pen")))

    one = drive(wf, {"1.0.1": 10, "1.0.2": 0, "1.1.1": 2, "1.1.2": 0})
    other = drive(wf, {"1.1.1": 2, "1.0.1": 10, "1.1.2": 0, "1.0.2": 0})
    assert one.result == other.result == (10, 2)
    assert one.asks() == other.asks()


def test_a_branch_that_ends_at_once_is_a_member_like_any() -> None:
    def at_once() -> Any:
        return "done"
        yield

    def wf(ctx: Context) -> Any:
        return (yield ctx.all(at_once(), ctx.step(price, "book")))

    assert drive(wf, {"1.1": 5}).result == ("done", 5)


def test_an_error_that_leaves_a_branch_decides() -> None:
    def failing(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        raise Declined(9)

    def wf(ctx: Context) -> Any:
        try:
            yield ctx.all(ctx.signal(GO), failing(ctx))
        except Declined as error:
            return error.code

    run = drive(wf, {"1.1.1": 5})
    assert run.result == 9
    assert run.written[1:] == ["answered 1.1.1 5", "closed 1.0", "failed 1 1"]


def test_an_error_of_one_branch_is_no_context_of_the_next_ones() -> None:
    def failing(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        raise Declined(9)

    def looking(ctx: Context) -> Any:
        yield ctx.publish(looks=True)
        try:
            raise ValueError
        except ValueError as error:
            return error.__context__

    def wf(ctx: Context) -> Any:
        values = yield ctx.gather([failing(ctx), looking(ctx)], limit=1, return_errors=True)
        return values[1]

    assert drive(wf, {"1.0.1": 5}).result is None


def test_a_losing_branch_is_cancelled_and_cleans_up_before_the_race_answers() -> None:
    def wf(ctx: Context) -> Any:
        winner = yield ctx.race(tidy(ctx, "a"), ctx.step(price, "book"), tidy(ctx, "b"))
        return winner

    run = drive(wf, {"1.1": 5})
    assert run.open == {"1.0.2": "step 'anything'", "1.2.2": "step 'anything'"}
    assert run.written[1:] == ["answered 1.1 5", "closed 1.0 +1.0.2", "closed 1.2 +1.2.2"]
    run.answer("1.2.2")
    assert run.answer("1.0.2").result == Winner(1, 5)
    assert run.written[-1] == "answered 1 1"


def test_a_losing_branch_that_waits_for_a_step_gets_its_answer_first() -> None:
    seen: dict[str, Any] = {}

    def stepping(ctx: Context) -> Any:
        seen["cost"] = yield ctx.step(price, "book")
        try:
            yield ctx.step(charge, "book")
        except Cancelled as cancelled:
            seen["reason"] = cancelled.reason
            raise

    def wf(ctx: Context) -> Any:
        return (yield ctx.race(stepping(ctx), ctx.sleep(1)))

    run = drive(wf, {"1.1": None})
    assert run.open == {"1.0.1": "step 'price'"}
    assert run.run.cutting == {"1.0.1"}
    assert run.answer("1.0.1", 7).result == Winner(1, None)
    assert seen == {"cost": 7, "reason": "its race or group was decided"}


def test_a_losing_branch_whose_step_is_cut_off_cleans_up_at_that_yield() -> None:
    def stepping(ctx: Context) -> Any:
        try:
            yield ctx.step(price, "book")
        except Cancelled as cancelled:
            yield ctx.step(charge, "clean")
            yield ctx.publish(reason=cancelled.reason)
            raise

    def wf(ctx: Context) -> Any:
        return (yield ctx.race(stepping(ctx), ctx.sleep(1)))

    run = drive(wf, {"1.1": None, "1.0.1": CutOff()})
    assert run.open == {"1.0.2": "step 'charge'"}
    assert run.run.cutting == set()
    assert run.answer("1.0.2", 1).result == Winner(1, None)
    assert run.published == {"reason": "its race or group was decided"}
    assert [row.kind for row in run.rows] == ["started", "answered", "closed", "interrupted", "answered", "answered"]


def test_what_a_losing_branch_returns_or_raises_changes_nothing() -> None:
    def raising(ctx: Context) -> Any:
        try:
            yield ctx.signal(GO)
        finally:
            raise Declined(1)

    def wf(ctx: Context) -> Any:
        return (yield ctx.race(raising(ctx), tidy(ctx, "b"), ctx.sleep(1)))

    assert drive(wf, {"1.2": None, "1.1.2": None}).result == Winner(2, None)


# --- nested -----------------------------------------------------------------------------------------------------------


def test_composites_of_composites_are_numbered_by_path() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.all(ctx.race(ctx.sleep(1), ctx.signal(GO)), ctx.gather([ctx.step(price, "book")])))

    run = drive(wf)
    assert run.written == ["started +1 +1.0 +1.0.0 +1.0.1 +1.1 +1.1.0"]
    assert run.feed({"1.1.0": 4, "1.0.0": None}).result == (Winner(0, None), [4])
    assert run.written[1:] == [
        "answered 1.1.0 4", "answered 1.1", "answered 1.0.0", "closed 1.0.1", "answered 1.0 0", "answered 1",
    ]  # fmt: skip


def test_a_losing_composite_closes_its_members_and_waits_for_branches_only() -> None:
    def wf(ctx: Context) -> Any:
        inner = ctx.all(ctx.step(price, "book"), tidy(ctx, "a"), ctx.race(ctx.sleep(5), ctx.child(ship, Order("pen"))))
        return (yield ctx.race(inner, ctx.sleep(1)))

    run = drive(wf, {"1.1": None})
    assert run.open == {"1.0.1.2": "step 'anything'"}
    assert run.written[1:] == [
        "answered 1.1", "closed 1.0", "closed 1.0.0", "closed 1.0.1 +1.0.1.2", "closed 1.0.2", "closed 1.0.2.0",
        "closed 1.0.2.1",
    ]  # fmt: skip
    assert run.cancels == [run.asks()["1.0.2.1"].child]
    assert run.answer("1.0.1.2").result == Winner(1, None)


def test_a_losing_composite_that_was_decided_itself_finishes_what_it_closes() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.race(ctx.race(ctx.step(price, "book"), tidy(ctx, "a")), ctx.sleep(1)))

    run = drive(wf, {"1.0.0": 5})
    assert run.open == {"1.1": "sleep", "1.0.1.2": "step 'anything'"}
    run.answer("1.1")
    assert run.answer("1.0.1.2").result == Winner(1, None)
    assert run.written[1:] == [
        "answered 1.0.0 5", "closed 1.0.1 +1.0.1.2", "answered 1.1", "closed 1.0",
        "answered 1.0.1.2 null", "answered 1 1",
    ]  # fmt: skip


def test_a_composite_that_is_decided_in_the_same_event_as_the_one_around_it_is_closed() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.race(ctx.all(ctx.publish(a=1)), ctx.publish(b=2)))

    run = drive(wf)
    assert run.result == Winner(1, None)
    assert run.written == ["started +1 +1.0 +1.0.0 +1.1", "answered 1.0", "answered 1 1"]


def test_an_answer_that_was_about_to_come_is_lost_with_its_branch() -> None:
    def deciding(ctx: Context) -> Any:
        yield ctx.all(ctx.publish(a=1))
        try:
            yield ctx.all(ctx.publish(b=2))
        except Cancelled:
            return "cancelled"

    def wf(ctx: Context) -> Any:
        return (yield ctx.race(deciding(ctx), ctx.publish(c=3)))

    run = drive(wf)
    assert run.result == Winner(1, None)
    assert run.written == ["started +1 +1.0.1 +1.0.1.0 +1.1", "answered 1.0.1 +1.0.2 +1.0.2.0", "closed 1.0",
                           "answered 1 1"]  # fmt: skip


def test_a_closing_that_comes_too_late_closes_nothing() -> None:
    def wf(ctx: Context) -> Any:
        inner = ctx.race(ctx.all(ctx.publish(a=1)), ctx.all(ctx.publish(b=2)))
        return (yield ctx.race(inner, ctx.publish(c=3)))

    run = drive(wf)
    assert run.result == Winner(1, None)
    assert run.written[1:] == ["answered 1.0.0", "answered 1.0.1", "closed 1.0", "answered 1 1"]


def test_branches_may_hold_composites_of_branches() -> None:
    def middle(ctx: Context) -> Any:
        return (yield ctx.all(paying(ctx, "a"), paying(ctx, "b")))

    def wf(ctx: Context) -> Any:
        return (yield ctx.all(middle(ctx), middle(ctx)))

    order = ["1.1.1.0.1", "1.0.1.1.1", "1.1.1.1.1", "1.0.1.0.1", "1.1.1.1.2", "1.1.1.0.2", "1.0.1.0.2", "1.0.1.1.2"]
    run = drive(wf, {position: number for number, position in enumerate(order)})
    assert run.result == ((3, 1), (0, 2))


@pytest.mark.parametrize("order", [["1.0", "1.1"], ["1.1", "1.0"]])
def test_the_winner_is_the_first_in_the_journal_and_stays_it(order: list[str]) -> None:
    def wf(ctx: Context) -> Any:
        first = yield ctx.race(ctx.step(price, "a"), ctx.step(price, "b"))
        yield ctx.sleep(1)
        return first.index

    run = drive(wf, {order[0]: 1})
    assert run.retake().answer("2").result == int(order[0][-1])


def test_a_composite_that_is_decided_while_its_own_end_is_on_the_way_is_closed_once() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.race(ctx.all(ctx.all(ctx.publish(a=1))), ctx.publish(b=2)))

    run = drive(wf)
    assert run.result == Winner(1, None)
    assert run.written == ["started +1 +1.0 +1.0.0 +1.0.0.0 +1.1", "answered 1.0.0", "closed 1.0", "answered 1 1"]
