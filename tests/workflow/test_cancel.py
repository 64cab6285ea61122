"""A cancel: what each open command makes of it, when Cancelled is raised, and what cleanup may do."""

from __future__ import annotations

from typing import Any

import pytest

from runnerq.errors import Cancelled
from runnerq.workflow.commands import Winner
from runnerq.workflow.context import Context
from runnerq.workflow.interpreter import Interpreter
from tests.workflow.driver import START, CutOff, Drive, Fails, an_interpreter, drive
from tests.workflow.steps import GO, Declined, Order, anything, charge, price, ship

OTHER = "018f3d5e-7a0c-7c2b-8b7e-ffffffffffff"


def caught(ctx: Context, command: Any) -> Any:
    """Ask for a command; answer what came of it, and of one more."""
    seen: list[Any] = []
    for each in (command, ctx.sleep(1)):
        try:
            seen.append((yield each))
        except Cancelled as cancelled:
            seen.append(f"cancelled: {cancelled.reason}")
    return seen


# --- what each command makes of it ------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", ["sleep", "signal", "child", "handle"])
def test_a_wait_is_dropped_and_cancelled_at_once(wait: str) -> None:
    def wf(ctx: Context) -> Any:
        commands = {
            "sleep": lambda: ctx.sleep(9),
            "signal": lambda: ctx.signal(GO),
            "child": lambda: ctx.child(ship, Order("book")),
            "handle": lambda: ctx.handle(OTHER).result(),
        }
        return (yield from caught(ctx, commands[wait]()))

    run = drive(wf).cancel("enough")
    assert run.open == {"2": "sleep"}
    assert run.written == ["started +1", 'cancel "enough" +2']
    assert run.answer("2").result == ["cancelled: enough", None]


def test_a_child_that_is_waited_for_is_cancelled_with_its_parent() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.child(ship, Order("book"))

    run = drive(wf).cancel()
    assert run.cancels == run.children
    assert isinstance(run.error, Cancelled)


@pytest.mark.parametrize("answer", [7, Fails(Declined(1))])
def test_a_step_is_answered_first_and_the_next_yield_is_cancelled(answer: Any) -> None:
    def wf(ctx: Context) -> Any:
        try:
            cost = yield ctx.step(price, "book")
        except Declined as declined:
            cost = declined.code
        try:
            yield ctx.step(charge, "book")
        except Cancelled:
            return cost

    run = drive(wf).cancel()
    assert run.open == {"1": "step 'price'"}
    assert run.run.cutting == {"1"}
    run.answer("1", answer)
    assert run.result == (7 if answer == 7 else 1)
    assert "2" not in run.asks()


def test_a_step_that_was_cut_off_is_cancelled_at_its_own_yield_and_nowhere_else() -> None:
    def wf(ctx: Context) -> Any:
        return (yield from caught(ctx, ctx.step(price, "book")))

    run = drive(wf).cancel("enough").answer("1", CutOff())
    assert run.written == ["started +1", 'cancel "enough"', "interrupted 1 +2"]
    assert run.run.cutting == set()
    assert run.answer("2").result == ["cancelled: enough", None]


@pytest.mark.parametrize("effect", ["send", "cancel"])
def test_an_effect_is_answered_first(effect: str) -> None:
    def wf(ctx: Context) -> Any:
        command = ctx.send(OTHER, "go", 1) if effect == "send" else ctx.handle(OTHER).cancel()
        return (yield from caught(ctx, command))

    run = drive(wf).cancel()
    assert run.run.cutting == set()
    value = None if effect == "send" else True
    assert run.answer("1", value).result == [value, "cancelled: None"]


def test_a_branch_that_returns_on_its_last_answer_is_not_cancelled_any_more() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.step(price, "book"))

    run = drive(wf).cancel().answer("1", 5)
    assert run.result == 5
    assert run.run.cancel_requested


@pytest.mark.parametrize("last", [None, "bad yield", "all", "coroutine"])
def test_what_is_yielded_when_the_cancel_is_due_is_asked_for_never(last: str | None) -> None:
    async def nothing() -> None: ...

    def wf(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        try:
            yield {
                None: lambda: None,
                "bad yield": lambda: [1, 2],
                "all": lambda: ctx.all(ctx.sleep(1), ctx.race(ctx.sleep(2)), cleaning(ctx, "a")),
                "coroutine": nothing,
            }[last]()
        except Cancelled:
            yield ctx.sleep(5)
        return "cleaned"

    run = drive(wf).cancel().answer("1", 5)
    assert run.open == {"2": "sleep"}
    assert run.run.never_yielded() == ()
    assert run.answer("2").result == "cleaned"


# --- cleanup ----------------------------------------------------------------------------------------------------------


def test_an_except_exception_does_not_eat_it() -> None:
    def wf(ctx: Context) -> Any:
        while True:
            try:
                yield ctx.sleep(1)
            except Exception:  # noqa: S112 - as users write it
                continue

    assert isinstance(drive(wf, {"1": None, "2": None}).cancel().error, Cancelled)


def test_commands_in_finally_work_normally() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.signal(GO)
        finally:
            yield ctx.step(anything, "release")
            yield ctx.sleep(5)

    run = drive(wf).cancel("enough").feed({"2": None, "3": None})
    assert isinstance(run.error, Cancelled)
    assert run.error.reason == "enough"


def test_one_that_is_caught_completes() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.signal(GO)
        except Cancelled:
            return "half"

    run = drive(wf).cancel()
    assert run.result == "half"
    assert run.run.cancel_requested


def test_a_second_cancel_adds_nothing() -> None:
    def wf(ctx: Context) -> Any:
        return (yield from caught(ctx, ctx.signal(GO)))

    run = drive(wf).cancel("first").cancel("second")
    assert [row.kind for row in run.rows] == ["started", "cancel"]
    assert run.run.cancel_reason == "first"
    assert run.answer("2").result == ["cancelled: first", None]


def test_a_cancel_after_the_end_adds_nothing() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.sleep(1)

    run = drive(wf, {"1": None}).cancel()
    assert run.result is None
    assert not run.run.cancel_requested


def test_a_cancel_before_the_start_needs_no_user_code() -> None:
    def wf(ctx: Context) -> Any:
        raise AssertionError(ctx)

    run: Interpreter = an_interpreter(wf)
    run.cancel("never", START)
    assert run.collect().rows == ()
    assert not run.cancel_requested


def test_replay_throws_at_the_yield_of_the_first_run() -> None:
    def wf(ctx: Context) -> Any:
        seen = []
        for number in range(4):
            try:
                yield ctx.sleep(number)
            except Cancelled:
                seen.append(number)
        return seen

    run = drive(wf, {"1": None, "2": None}).cancel().retake()
    assert run.answer("4").result == [2]


# --- composites -------------------------------------------------------------------------------------------------------


def cleaning(ctx: Context, name: str) -> Any:
    try:
        yield ctx.signal(name)
    except Cancelled:
        yield ctx.step(anything, name)
        return "never seen"


def test_all_leaves_get_it_in_order_and_their_cleanups_run_side_by_side() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.all(cleaning(ctx, "a"), ctx.signal(GO), cleaning(ctx, "b"))
        except Cancelled as cancelled:
            yield ctx.step(anything, "last")
            return cancelled.reason

    run = drive(wf).cancel("enough")
    assert run.open == {"1.0.2": "step 'anything'", "1.2.2": "step 'anything'"}
    assert run.written[1:] == ['cancel "enough" +1.0.2 +1.2.2']
    run.answer("1.2.2")
    assert list(run.open) == ["1.0.2"]
    run.answer("1.0.2")
    assert run.answer("2").result == "enough"


def test_a_composite_of_waits_alone_is_cancelled_at_once() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.race(ctx.sleep(5), ctx.all(ctx.signal(GO), ctx.child(ship, Order("book"))))
        except Cancelled:
            return "cancelled"

    run = drive(wf).cancel()
    assert run.result == "cancelled"
    assert run.cancels == run.children
    assert run.written[1:] == ["cancel"]


def test_a_composite_whose_last_member_ends_at_once_ends_once() -> None:
    def quick(ctx: Context) -> Any:
        yield ctx.signal(GO)

    def wf(ctx: Context) -> Any:
        try:
            yield ctx.all(ctx.sleep(5), quick(ctx))
        except Cancelled:
            yield ctx.sleep(1)
        return "once"

    run = drive(wf).cancel()
    assert run.open == {"2": "sleep"}
    assert run.answer("2").result == "once"


def test_steps_of_a_cancelled_composite_are_answered_or_cut_off_first() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.all(ctx.step(price, "a"), ctx.step(price, "b"), ctx.send(OTHER, "go", 1), ctx.sleep(1))
        except Cancelled as cancelled:
            return cancelled.reason

    run = drive(wf).cancel("enough")
    assert list(run.open) == ["1.0", "1.1", "1.2"]
    assert run.run.cutting == {"1.0", "1.1"}
    assert run.feed({"1.1": 5, "1.2": None, "1.0": CutOff()}).result == "enough"


def test_an_error_among_the_last_answers_of_a_cancelled_composite_changes_nothing() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.all(ctx.step(price, "a"), ctx.step(price, "b"))

    run = drive(wf).cancel().feed({"1.0": Fails(Declined(1)), "1.1": 5})
    assert isinstance(run.error, Cancelled)


def test_a_branch_cut_off_in_a_step_cleans_up_and_is_not_cancelled_again() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.all(caught(ctx, ctx.step(price, "a")))
        except Cancelled:
            return "all cancelled"

    run = drive(wf).cancel().answer("1.0.1", CutOff())
    assert run.open == {"1.0.2": "sleep"}
    assert run.answer("1.0.2").result == "all cancelled"


def test_no_more_members_start_once_it_is_cancelled() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.gather([ctx.step(price, item) for item in "abc"], limit=1)
        except Cancelled:
            return "cancelled"

    assert drive(wf).cancel().answer("1.0", 1).result == "cancelled"


def test_a_loser_that_cleans_up_is_not_cancelled_again_by_a_cancel_of_the_run() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.race(cleaning(ctx, "a"), ctx.sleep(1))
        except Cancelled as cancelled:
            return cancelled.reason

    run = drive(wf, {"1.1": None}).cancel("enough")
    assert run.open == {"1.0.2": "step 'anything'"}
    assert run.run.cutting == set()
    assert run.answer("1.0.2").result == "enough"
    assert run.written[-1] == "answered 1.0.2 null"


def test_a_cancel_reaches_branches_inside_branches() -> None:
    def middle(ctx: Context) -> Any:
        try:
            yield ctx.all(cleaning(ctx, "a"), cleaning(ctx, "b"))
        finally:
            yield ctx.step(anything, "middle")

    def wf(ctx: Context) -> Any:
        yield ctx.race(middle(ctx), cleaning(ctx, "c"))

    run = drive(wf).cancel()
    assert list(run.open) == ["1.0.1.0.2", "1.0.1.1.2", "1.1.2"]
    run.feed({"1.0.1.1.2": None, "1.1.2": None, "1.0.1.0.2": None})
    assert run.open == {"1.0.2": "step 'anything'"}
    assert isinstance(run.answer("1.0.2").error, Cancelled)


def test_composites_in_a_cleanup_are_decided_as_usual() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.signal(GO)
        except Cancelled:
            return (yield ctx.race(cleaning(ctx, "a"), ctx.step(anything)))

    run = drive(wf).cancel().answer("2.1", 5).answer("2.0.2")
    assert run.result == Winner(1, 5)


def test_a_cancel_raised_by_user_code_ends_its_branch_as_any_error() -> None:
    def leaving(ctx: Context) -> Any:
        yield ctx.step(price, "a")
        raise Cancelled("by hand")

    def wf(ctx: Context) -> Any:
        yield ctx.all(leaving(ctx), ctx.sleep(1))

    error = drive(wf, {"1.0.1": 1}).error
    assert isinstance(error, Cancelled)
    assert error.reason == "by hand"


def test_a_step_cut_off_without_a_cancel_is_cancelled_there_and_only_there() -> None:
    def wf(ctx: Context) -> Any:
        return (yield from caught(ctx, ctx.step(price, "a")))

    run = Drive(wf).answer("1", CutOff()).cancel("later")
    assert run.open == {"2": "sleep"}
    assert run.answer("2").result == ["cancelled: None", None]


def test_a_branch_closed_between_two_yields_takes_its_cancel_for_the_one_of_the_run() -> None:
    def stepping(ctx: Context) -> Any:
        yield ctx.step(price, "a")
        yield ctx.step(charge, "a")

    def wf(ctx: Context) -> Any:
        return (yield ctx.race(stepping(ctx), ctx.sleep(1)))

    run = drive(wf, {"1.1": None}).cancel("enough").answer("1.0.1", 1)
    assert isinstance(run.error, Cancelled)
    assert "1.0.2" not in run.asks()
