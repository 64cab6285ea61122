"""What a replay compares with the record, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from runnerq.retry import RetryPolicy
from runnerq.workflow.context import Context
from tests.workflow.driver import Body, drive
from tests.workflow.steps import GO, Order, anything, price, ship

Ask = Callable[[Context], Any]


def asking(ask: Ask) -> Body:
    def wf(ctx: Context) -> Any:
        yield ask(ctx)
        yield ctx.sleep(1)

    return wf


def follows(before: Ask, now: Ask) -> bool:
    """Whether a run that is open at one of these goes on with the other."""
    run = drive(asking(before)).retake(asking(now))
    return run.blocked is None


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (lambda ctx: ctx.step(price, "book"), lambda ctx: ctx.step(price, "pen")),
        (lambda ctx: ctx.step(price, "book"), lambda ctx: ctx.step(anything, "book")),
        (lambda ctx: ctx.step(price, "book"), lambda ctx: ctx.child(price, "book")),
        (lambda ctx: ctx.step(anything, 1, 2), lambda ctx: ctx.step(anything, 1, b=2)),
        (lambda ctx: ctx.child(ship, Order("book")), lambda ctx: ctx.child(ship, Order("pen"))),
        (lambda ctx: ctx.sleep(60), lambda ctx: ctx.sleep(61)),
        (lambda ctx: ctx.signal(GO), lambda ctx: ctx.signal("stop")),
        (lambda ctx: ctx.signal(GO, timeout=5), lambda ctx: ctx.signal(GO, timeout=6)),
        (lambda ctx: ctx.signal(GO), lambda ctx: ctx.signal(GO, latest=True)),
        (lambda ctx: ctx.send(ctx.info.id, GO, Order("a")), lambda ctx: ctx.send(ctx.info.id, GO, Order("b"))),
        (lambda ctx: ctx.all(ctx.sleep(1)), lambda ctx: ctx.all(ctx.sleep(1), ctx.sleep(1))),
        (lambda ctx: ctx.all(ctx.sleep(1)), lambda ctx: ctx.race(ctx.sleep(1))),
    ],
    ids=[
        "an argument", "a name", "a kind", "how an argument is passed", "a child's argument", "a length", "a channel",
        "a timeout of a wait", "which signal is taken", "what is sent", "how many members", "what is made of them",
    ],
)  # fmt: skip
def test_position_kind_name_and_arguments_of_a_command_are_compared(before: Ask, now: Ask) -> None:
    assert follows(before, before)
    assert not follows(before, now)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (lambda ctx: ctx.step(price, "book"), lambda ctx: ctx.options(retry=9).step(price, "book")),
        (
            lambda ctx: ctx.options(retry=RetryPolicy(base=5)).step(price, "book"),
            lambda ctx: ctx.options(timeout=timedelta(minutes=2)).step(price, "book"),
        ),
        (lambda ctx: ctx.child(ship, Order("book")), lambda ctx: ctx.options(queue="slow").child(ship, Order("book"))),
        (lambda ctx: ctx.child(ship, Order("book")), lambda ctx: ctx.options(priority=1).child(ship, Order("book"))),
        (
            lambda ctx: ctx.child(ship, Order("book")),
            lambda ctx: ctx.options(metadata={"shop": "north"}).child(ship, Order("book")),
        ),
        (lambda ctx: ctx.step(price, "book"), lambda ctx: ctx.options(name="price").step(anything, "book")),
    ],
    ids=["retries", "a timeout", "a queue", "a priority", "metadata", "the function behind the name"],
)
def test_how_a_command_is_carried_out_is_not_compared(before: Ask, now: Ask) -> None:
    assert follows(before, now)


@pytest.mark.parametrize("extra", ["computing", "logging", "drawing", "registering an undo"])
def test_what_asks_for_nothing_may_be_added_anywhere(extra: str) -> None:
    def wf(ctx: Context, changed: bool = False) -> Any:
        cost = yield ctx.step(price, "book")
        if changed:
            match extra:
                case "computing":
                    cost = cost * 2
                case "logging":
                    ctx.log.info("cost %s", cost)
                case "drawing":
                    ctx.uuid()
                    ctx.random.random()
                case "registering an undo":
                    ctx.compensate(price, "book")
        yield ctx.sleep(1)
        return cost

    run = drive(wf, {"1": 5}).retake(lambda ctx: wf(ctx, changed=True))
    assert run.open == {"2": "sleep"}
    assert run.answer("2").result == (10 if extra == "computing" else 5)
