"""What is on record is not judged by what functions and channels take today; what was refused is refused again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from runnerq.errors import UsageError
from runnerq.ids import new_run_id
from runnerq.workflow.commands import Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.workflow.driver import Fails, drive
from tests.workflow.steps import anything, find

LATER = timedelta(days=1)
OTHER = new_run_id()


def yesterday() -> Any:
    """A step, an undo, a child and a channel as they were when the run began."""

    @activity(name="charge")
    def charge(order: str) -> None: ...

    @activity(name="refund")
    def refund(order: str) -> None: ...

    @workflow(name="ship")
    def ship(ctx: Context, order: str) -> Any:
        yield ctx.sleep(1)

    return charge, refund, ship, Signal("paid", dict[str, int])


def today() -> Any:
    """The same with one thing more that must be given."""

    @activity(name="charge")
    def charge(order: str, currency: str) -> None: ...

    @activity(name="refund")
    def refund(order: str, currency: str) -> None: ...

    @workflow(name="ship")
    def ship(ctx: Context, order: str, address: str) -> Any:
        yield ctx.sleep(1)

    class Paid(msgspec.Struct):
        amount: int
        currency: str

    return charge, refund, ship, Signal("paid", Paid)


YESTERDAY, TODAY = yesterday(), today()


def before(ctx: Context) -> Any:
    charge, refund, ship, paid = YESTERDAY
    ctx.compensate(refund, "o")
    yield ctx.step(charge, "o")
    yield ctx.child(ship, "o")
    yield ctx.all(ctx.step(charge, "o"), ctx.send(OTHER, paid, {"amount": 1}))
    yield ctx.step(anything, "last")
    return "done"


def after(ctx: Context) -> Any:
    charge, refund, ship, paid = TODAY
    if ctx.patched("currency"):
        ctx.compensate(refund, "o", "EUR")
        yield ctx.step(charge, "o", "EUR")
        yield ctx.child(ship, "o", "home")
        yield ctx.all(ctx.step(charge, "o", "EUR"), ctx.send(OTHER, paid, {"amount": 1, "currency": "EUR"}))
    else:
        ctx.compensate(refund, "o")
        yield ctx.step(charge, "o")
        yield ctx.child(ship, "o")
        yield ctx.all(ctx.step(charge, "o"), ctx.send(OTHER, paid, {"amount": 1}))
    yield ctx.step(anything, "last")
    return "done"


def test_a_run_that_is_past_its_calls_goes_on_when_their_functions_take_something_else() -> None:
    run = drive(before, {"1": None, "2": None, "3.0": None, "3.1": None}).deploy(after, "b2", LATER)
    assert run.open == {"4": "step 'anything'"}
    assert run.answer("4").result == "done"


def test_one_that_waits_for_such_a_call_goes_on_too() -> None:
    run = drive(before, {"1": None}).deploy(after, "b2", LATER)
    assert run.open == {"2": "child 'ship'"}


def test_what_it_asks_for_the_first_time_is_judged_by_what_the_function_takes_now() -> None:
    run = drive(before).deploy(after, "b2", LATER)
    assert run.open == {"1": "step 'charge'"}
    run.answer("1")
    assert "missing a required argument: 'address'" in run.block.message


def test_a_call_that_was_taken_up_by_replay_does_not_make_the_next_of_its_kind_right() -> None:
    charge = TODAY[0]

    def twice(ctx: Context) -> Any:
        yield ctx.step(charge, "o")
        yield ctx.step(charge, "o")

    def old(ctx: Context) -> Any:
        yield ctx.step(YESTERDAY[0], "o")

    run = drive(old).deploy(twice, "b2", LATER).answer("1")
    assert "missing a required argument: 'currency'" in run.block.message


def test_a_journal_of_calls_that_never_could_be_is_followed_as_it_is() -> None:
    """They were asked for by a release that judged none: the step failed, and the code caught it."""

    def unjudged(ctx: Context) -> Any:
        try:
            yield ctx.options(name="find").step(anything)
        except TypeError:
            yield ctx.send(OTHER, "paid", {"amount": "much"})
        yield ctx.sleep(1)

    def judged(ctx: Context) -> Any:
        try:
            yield ctx.step(find)
        except TypeError:
            yield ctx.send(OTHER, YESTERDAY[3], {"amount": "much"})
        yield ctx.sleep(1)

    run = drive(unjudged, {"1": Fails(TypeError("item")), "2": None}).deploy(judged, "b2", LATER)
    assert run.open == {"3": "sleep"}


@pytest.mark.parametrize(
    "refused",
    [
        lambda ctx: ctx.step(find),
        lambda ctx: ctx.send(OTHER, Signal("paid", dict[str, int]), {"amount": "much"}),
        lambda ctx: ctx.all(ctx.step(find, "a"), ctx.step(find)),
    ],
)
def test_a_call_that_was_refused_and_caught_is_refused_again_also_if_the_same_is_asked_another_way(
    refused: Any,
) -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield refused(ctx)
        except UsageError:
            yield ctx.send(OTHER, "paid", {"amount": "much"})
        else:
            yield ctx.options(name="find").step(anything)
        yield ctx.sleep(1)
        return "done"

    # Every prefix of its journal is replayed, too.
    run = drive(wf, {"1": None}).retake()
    assert run.answer("2").result == "done"


def test_an_undo_that_was_refused_and_caught_is_not_registered_by_replay_either() -> None:
    def wf(ctx: Context) -> Any:
        try:
            ctx.compensate(find)
        except UsageError:
            yield ctx.sleep(1)
        yield ctx.step(anything)

    run = drive(wf, {"1": None}).retake()
    run.answer("2", Fails(ValueError("no")))
    assert isinstance(run.error, ValueError)


def test_where_a_function_takes_today_what_it_refused_a_newer_build_goes_on_as_past_a_removed_patch() -> None:
    def refusing(ctx: Context) -> Any:
        try:
            ctx.compensate(find)
        except UsageError:
            ctx.log.info("no undo")
        yield ctx.sleep(1)
        return "done"

    def taking(ctx: Context) -> Any:
        ctx.compensate(anything)
        yield ctx.sleep(1)
        return "done"

    assert drive(refusing).deploy(taking, "b2", LATER).answer("1").result == "done"
