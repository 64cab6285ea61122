"""What a parked run waits for, as it is stored with its park."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from runnerq.workflow.context import Context
from runnerq.workflow.wants import Wants, wants
from tests.workflow.driver import START, Body, an_interpreter, drive
from tests.workflow.steps import GO, Order, anything, price, ship


def wanted(fn: Body, answers: dict[str, Any] | None = None) -> Wants:
    return wants(drive(fn, answers).run)


def needed(make: Any) -> int:
    """The fewest ends of children that a workflow needs that yields this."""

    def wf(ctx: Context) -> Any:
        yield make(ctx)

    return wanted(wf).needs


def a_child(ctx: Context) -> Any:
    return ctx.child(ship, Order("book"))


def test_a_run_that_waits_for_nothing_from_outside_wants_nothing() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.step(price, "book")

    assert wanted(wf) == Wants((), (), 0, None)
    assert wanted(wf, {"1": 1}) == Wants((), (), 0, None)
    assert wants(an_interpreter(wf)) == Wants((), (), 0, None)


def test_channels_children_and_the_next_time_are_wanted_once() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.all(ctx.signal(GO, timeout=9), ctx.signal(GO), ctx.signal("other"), ctx.sleep(5), a_child(ctx))

    found = wanted(wf)
    assert (found.signals, len(found.children), found.needs) == (("go", "other"), 1, 1)
    assert found.due_at == START + timedelta(seconds=5)


def test_all_of_children_needs_every_one_of_them() -> None:
    assert needed(lambda ctx: ctx.all(a_child(ctx), a_child(ctx), a_child(ctx))) == 3
    assert needed(lambda ctx: ctx.all(a_child(ctx), a_child(ctx), ctx.step(price, 1))) == 2


def test_a_child_that_is_waited_for_twice_counts_once() -> None:
    def wf(ctx: Context) -> Any:
        handle = yield ctx.spawn(ship, Order("book"))
        yield ctx.all(handle.result(), handle.result(), a_child(ctx))

    found = wanted(wf)
    assert found.needs == 2
    assert len(found.children) == 2


def test_a_race_a_limit_or_a_branch_needs_one() -> None:
    def branch(ctx: Context) -> Any:
        yield a_child(ctx)

    assert needed(lambda ctx: ctx.race(a_child(ctx), a_child(ctx))) == 1
    assert needed(lambda ctx: ctx.gather([a_child(ctx) for _ in range(5)], limit=3)) == 1
    assert needed(lambda ctx: ctx.all(branch(ctx), a_child(ctx), a_child(ctx))) == 1
    assert needed(lambda ctx: ctx.all(a_child(ctx), a_child(ctx), ctx.race(a_child(ctx), a_child(ctx)))) == 1
    assert needed(lambda ctx: ctx.all(a_child(ctx), ctx.all(a_child(ctx), a_child(ctx)), ctx.sleep(1))) == 1
    assert (
        needed(lambda ctx: ctx.race(ctx.all(a_child(ctx), a_child(ctx)), ctx.all(*[a_child(ctx)] * 1, a_child(ctx))))
        == 2
    )


def test_fewer_are_needed_when_some_have_ended() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.all(a_child(ctx), a_child(ctx), a_child(ctx))

    assert wanted(wf, {"1.1": {"item": "a"}}).needs == 2


def test_the_cleanup_of_a_loser_is_what_counts_then() -> None:
    def losing(ctx: Context) -> Any:
        try:
            yield ctx.signal(GO)
        finally:
            yield ctx.all(a_child(ctx), a_child(ctx))

    def wf(ctx: Context) -> Any:
        yield ctx.race(losing(ctx), ctx.step(anything))

    found = wanted(wf, {"1.1": 1})
    assert (found.signals, found.needs) == ((), 2)
