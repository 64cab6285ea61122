"""Arguments that a function cannot be called with: refused at the line that gives them, before anything is asked."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from runnerq.errors import UsageError
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.workflow.driver import drive, line_in
from tests.workflow.steps import find


@activity
def pay(order: str, amount: int = 1, *, currency: str = "EUR") -> str:
    raise AssertionError(order, amount, currency)


@workflow
def ship(ctx: Context, order: str) -> Any:
    yield ctx.sleep(1)


class Shop:
    def pay(self, order: str) -> str:
        raise AssertionError(order)


def with_a_connection(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn("connection", *args, **kwargs)

    return wrapper


@with_a_connection
def save(connection: str, order: str) -> None:
    raise AssertionError(connection, order)


IMPOSSIBLE = [
    (lambda ctx: ctx.step(pay), "missing a required argument: 'order'"),
    (lambda ctx: ctx.step(pay, "o", 2, 3), "too many positional arguments"),
    (lambda ctx: ctx.step(pay, "o", order="o"), "multiple values for argument 'order'"),
    (lambda ctx: ctx.step(pay, "o", cents=2), "unexpected keyword argument 'cents'"),
    (lambda ctx: ctx.step(Shop().pay), "missing a required argument: 'order'"),
    (lambda ctx: ctx.child(ship), "missing a required argument: 'order'"),
    (lambda ctx: ctx.child(ship, "o", "p"), "too many positional arguments"),
    (lambda ctx: ctx.spawn(pay, "o", cents=2), "unexpected keyword argument 'cents'"),
    (lambda ctx: ctx.all(ctx.step(find, "a"), ctx.step(find)), "missing a required argument: 'item'"),
]


@pytest.mark.parametrize(("make", "why"), IMPOSSIBLE)
def test_a_call_that_cannot_be_is_refused_at_its_line_and_asks_nothing(make: Callable[..., Any], why: str) -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield make(ctx)
        except UsageError as error:
            message = str(error)
        yield ctx.sleep(1)
        return message

    run = drive(wf)
    assert run.open == {"1": "sleep"}
    message = run.answer("1").result
    assert why in message


def test_uncaught_it_blocks_the_run_with_its_line() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.step(find, "one", "too many")

    block = drive(wf).block
    assert block.line == f"{line_in(wf, 'find')} in wf"
    assert "is not what find(item" in block.message


def test_an_undo_that_could_never_run_is_refused_where_it_is_registered() -> None:
    def wf(ctx: Context) -> Any:
        ctx.compensate(pay)
        yield ctx.sleep(1)

    assert "missing a required argument: 'order'" in drive(wf).block.message


@pytest.mark.parametrize(
    "make",
    [
        lambda ctx: ctx.step(pay, "o"),
        lambda ctx: ctx.step(pay, "o", 2, currency="USD"),
        lambda ctx: ctx.step(pay, order="o", amount=3),
        lambda ctx: ctx.step(save, "o"),
        lambda ctx: ctx.step(functools.partial(pay, amount=4), "o"),
        lambda ctx: ctx.step(dict.fromkeys, "ab"),
        lambda ctx: ctx.step(print, "a", "b"),
    ],
)
def test_what_can_be_called_is_asked_for(make: Callable[..., Any]) -> None:
    def wf(ctx: Context) -> Any:
        yield make(ctx)

    assert list(drive(wf).open) == ["1"]


def test_a_function_that_takes_the_same_number_is_judged_once_and_another_number_anew() -> None:
    def wf(ctx: Context) -> Any:
        for number in range(3):
            yield ctx.step(find, f"item {number}")
        yield ctx.step(find)

    run = drive(wf, {str(number): {"item": "x"} for number in range(1, 4)})
    assert "missing a required argument: 'item'" in run.block.message


class Untold:
    """A callable that does not tell what it takes."""

    __signature__ = "anything"

    def __call__(self, *args: Any) -> None:
        raise AssertionError(args)


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, order: str) -> None:
        raise AssertionError(order)


def test_what_does_not_tell_what_it_takes_is_left_to_its_attempt() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.step(Untold(), 1, 2, 3)

    assert list(drive(wf).open) == ["1"]


def test_a_callable_that_cannot_be_hashed_is_judged_each_time() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.step(Unhashable(), "o")
        yield ctx.step(Unhashable())

    assert "missing a required argument: 'order'" in drive(wf, {"1": None}).block.message


def test_one_impossible_call_among_hundreds_of_functions_is_refused_with_all_of_them() -> None:
    def wf(ctx: Context) -> Any:
        possible = [ctx.step(lambda it: it, number) for number in range(300)]
        yield ctx.all(*possible, ctx.step(lambda it: it))

    run = drive(wf)
    assert "missing a required argument: 'it'" in run.block.message
    assert run.open == {}
