"""A unit test may drive a workflow by hand, with a context of no run."""

from __future__ import annotations

from typing import Any

import pytest

from runnerq.errors import Cancelled, SignalTimeout, UsageError
from runnerq.workflow.commands import Command, Flow, SleepSpec
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from tests.workflow.steps import GO, Order, charge, price


@workflow
def buy(ctx: Context, item: str) -> Flow[int]:
    cost = yield from ctx.step(price, item)
    ctx.log.info("it costs %s", cost)
    try:
        yield ctx.signal(GO, timeout=60)
    except SignalTimeout:
        return 0
    yield ctx.step(charge, cost)
    return cost


def test_commands_say_what_they_ask_for_and_take_any_answer() -> None:
    run = buy(Context(), "book")
    command = next(run)
    assert (command.kind, command.name, command.fn, command.args) == ("step", "price", price, ("book",))
    assert run.send(10).name == "go"
    assert run.send(Order("book")).args == (10,)
    with pytest.raises(StopIteration) as stopped:
        run.send(None)
    assert stopped.value.value == 10


def test_failures_and_cancels_are_thrown() -> None:
    run = buy(Context(), "book")
    next(run)
    run.send(10)
    with pytest.raises(StopIteration) as stopped:
        run.throw(SignalTimeout("go"))
    assert stopped.value.value == 0

    cancelled = buy(Context(), "book")
    next(cancelled)
    with pytest.raises(Cancelled):
        cancelled.throw(Cancelled("enough"))


def test_a_command_by_hand_may_be_looked_at_as_often_as_one_likes() -> None:
    def wf(ctx: Context) -> Any:
        nap = ctx.sleep(5)
        one = yield from nap
        two = yield from nap
        return one, two

    run = wf(Context())
    command: Command[Any] = next(run)
    assert command.spec == SleepSpec(5.0, None)
    assert run.send(1) is command
    with pytest.raises(StopIteration) as stopped:
        run.send(2)
    assert stopped.value.value == (1, 2)


@pytest.mark.parametrize("what", ["now", "uuid", "random", "info"])
def test_what_needs_a_run_says_so(what: str) -> None:
    def asked() -> Any:
        value = getattr(Context(), what)
        return value()

    with pytest.raises(UsageError, match=f"ctx.{what} needs a run"):
        asked()


def test_the_rest_works_without_a_run() -> None:
    ctx = Context()
    assert not ctx.replaying
    assert not ctx.log.isEnabledFor(0)
    assert ctx.options(timeout=5).step(price, "book").options.timeout == 5
    assert repr(ctx.all(ctx.sleep(1), ctx.sleep(2))) == "<all>"
