"""Ways to change code that open runs follow: patches, former names, other arguments."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from runnerq.errors import UsageError
from runnerq.workflow.context import Context
from runnerq.workflow.journal import Started
from tests.workflow.driver import START, Body, Drive, Fails, an_interpreter, drive, line_in
from tests.workflow.steps import GO, Declined, Order, anything, charge, find, paying, price, ship

LATER = timedelta(days=1)
EARLIER = timedelta(days=-1)


def old(ctx: Context) -> Any:
    yield ctx.step(price, "book")
    yield ctx.step(charge, 1)
    return "old"


def patched(ctx: Context) -> Any:
    yield ctx.step(price, "book")
    if ctx.patched("mail"):
        yield ctx.step(anything, "mail")
    yield ctx.step(charge, 1)
    return "new"


def removed(ctx: Context) -> Any:
    yield ctx.step(price, "book")
    yield ctx.step(anything, "mail")
    yield ctx.step(charge, 1)
    return "removed"


# --- which way --------------------------------------------------------------------------------------------------------


def test_a_run_that_comes_there_for_the_first_time_goes_the_new_way_and_has_that_on_record() -> None:
    run = drive(patched, {"1": 5})
    assert run.written == ["started +1", "answered 1 5 +1+1 +2"]
    mark = run.asks()["1+1"]
    assert (mark.kind, mark.name, mark.digest, mark.deadline) == ("patch", "mail", "b", START)
    assert run.retake().feed({"2": None, "3": 1}).result == "new"


def test_it_takes_no_number() -> None:
    run = drive(patched, {"1": 5})
    assert run.leaf("2").command.name == "anything"


def test_a_run_that_is_past_it_goes_on_the_old_way() -> None:
    run = drive(old, {"1": 5}).deploy(patched, "b2", LATER)
    assert run.open == {"2": "step 'charge'"}
    assert run.answer("2", 1).result == "new"
    assert [asked.kind for asked in run.asks().values()] == ["step", "step"]


def test_a_run_that_is_not_there_yet_goes_the_new_way() -> None:
    run = drive(old).deploy(patched, "b2", LATER).answer("1", 5)
    assert run.open == {"2": "step 'anything'"}
    assert run.asks()["1+1"].digest == "b2"


def test_it_may_come_before_the_first_command() -> None:
    def wf(ctx: Context) -> Any:
        new = ctx.patched("first")
        yield ctx.sleep(1)
        return new

    run = drive(wf)
    assert run.written == ["started +0+1 +1"]
    assert run.retake().answer("1").result is True


def test_a_wrapper_may_ask_for_one_before_there_is_a_generator() -> None:
    def inner(ctx: Context, new: bool) -> Any:
        yield ctx.sleep(1)
        return new, ctx.patched("second")

    def wf(ctx: Context) -> Any:
        return inner(ctx, ctx.patched("first"))

    assert drive(wf, {"1": None}).result == (True, True)


def test_where_the_old_code_ended_a_branch_the_old_way_is_taken() -> None:
    def branch(ctx: Context, new: bool) -> Any:
        yield ctx.step(price, "a")
        if new and ctx.patched("more"):
            yield ctx.step(price, "b")
        return "done"

    def wf(ctx: Context, new: bool = False) -> Any:
        return (yield ctx.all(branch(ctx, new), ctx.signal("go")))

    run = drive(wf, {"1.0.1": 1}).deploy(lambda ctx: wf(ctx, True), "b2", LATER)
    assert run.open == {"1.1": "signal 'go'"}
    assert run.answer("1.1", 7).result == ("done", 7)


def test_each_branch_has_its_own() -> None:
    def branch(ctx: Context, new: bool) -> Any:
        yield ctx.step(price, "a")
        flag = new and ctx.patched("x")
        yield ctx.step(charge, "a")
        return flag

    def wf(ctx: Context, new: bool = False) -> Any:
        return (yield ctx.all(branch(ctx, new), branch(ctx, new)))

    run = drive(wf, {"1.1.1": 1}).deploy(lambda ctx: wf(ctx, True), "b2", LATER)
    run.feed({"1.0.1": 1, "1.0.2": 1, "1.1.2": 1})
    assert run.result == (True, False)
    assert "1.0.1+1" in run.asks()


def test_asking_twice_at_one_place_answers_the_same_and_is_on_record_once() -> None:
    def wf(ctx: Context) -> Any:
        answers = [ctx.patched("x"), ctx.patched("y"), ctx.patched("x")]
        yield ctx.sleep(1)
        return answers

    run = drive(wf)
    assert run.written == ["started +0+1 +0+2 +1"]
    assert run.answer("1").result == [True, True, True]


def test_asking_twice_at_one_place_answers_the_same_on_the_old_way() -> None:
    def wf(ctx: Context, new: bool = False) -> Any:
        answers = [new and ctx.patched("x"), new and ctx.patched("x")]
        yield ctx.sleep(1)
        return answers

    assert drive(wf).deploy(lambda ctx: wf(ctx, True), "b2", LATER).answer("1").result == [False, False]


def test_the_order_in_which_patches_of_one_place_are_asked_for_does_not_matter() -> None:
    def wf(ctx: Context, *names: str) -> Any:
        answers = {name: ctx.patched(name) for name in names}
        yield ctx.sleep(1)
        return answers

    run = drive(lambda ctx: wf(ctx, "x", "y")).deploy(lambda ctx: wf(ctx, "y", "z", "x"), "b2", LATER)
    assert run.answer("1").result == {"y": True, "z": False, "x": True}


def test_in_a_loop_each_round_decides_for_itself() -> None:
    def loop(ctx: Context, new: bool) -> Any:
        ways = []
        for _ in range(4):
            way = new and ctx.patched("x")
            ways.append(way)
            yield ctx.step(anything, "new") if way else ctx.step(charge, "old")
        return ways

    run = drive(lambda ctx: loop(ctx, False), {"1": 1, "2": 1}).deploy(lambda ctx: loop(ctx, True), "b2", LATER)
    run.answer("3", 1).retake().answer("4")
    assert run.result == [False, False, False, True]
    assert [asked.position for asked in run.asks().values() if asked.kind == "patch"] == ["3+1"]


def test_a_row_that_is_fed_anew_goes_the_new_way() -> None:
    def faulty(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        raise TypeError

    run = drive(faulty, {"1": 5}).deploy(patched, "b2", LATER)
    assert run.written == ["started +1", "answered 1 5 nothing kept", 'mark {"taken_up":true} +1+1 +2']
    assert run.retake().feed({"2": None, "3": 1}).result == "new"


# --- an old worker, a rollback ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seen", [EARLIER, timedelta(0)])
@pytest.mark.parametrize("stage", [{"1": 5}, {"1": 5, "2": None}])
def test_an_earlier_build_that_meets_it_blocks_and_takes_no_other_path(seen: timedelta, stage: dict[str, Any]) -> None:
    run = drive(patched, stage)
    rows = list(run.rows)
    block = run.deploy(old, "b0", seen).block
    assert (block.position, block.recorded) == ("1+1", "patch 'mail' (b)")
    assert block.asked is not None
    assert block.asked.startswith("step 'charge' (")
    assert block.line == f"{line_in(old, 'charge')} in old"
    assert "recorded patch 'mail' by build 'b', and the workflow does not ask for it" in block.message
    assert run.rows == rows
    assert not block.by_worker
    assert run.deploy(patched, "b", timedelta(0)).open


def test_an_earlier_build_blocks_even_where_it_would_ask_for_the_same() -> None:
    block = drive(patched, {"1": 5}).deploy(removed, "b0", EARLIER).block
    assert block.position == "1+1"


def test_an_earlier_build_that_asks_for_nothing_there_blocks() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.all(branch(ctx), ctx.sleep(1))

    def branch(ctx: Context, new: bool = True) -> Any:
        yield ctx.step(price, "a")
        if new:
            ctx.patched("x")

    def before(ctx: Context) -> Any:
        yield ctx.all(branch(ctx, False), ctx.sleep(1))

    run = drive(wf, {"1.0.1": 1})
    block = run.deploy(before, "b0", EARLIER).block
    assert (block.position, block.asked) == ("1.0.1+1", None)
    assert block.line == f"{line_in(before, 'sleep')} in before"
    assert run.deploy(before, "b2", LATER).answer("1.1").result is None


def test_a_build_that_was_seen_first_later_may_be_older_code_and_then_diverges() -> None:
    block = drive(patched, {"1": 5}).deploy(old, "b2", LATER).block
    assert block.position == "2"
    assert "recorded step 'anything', the workflow now asks for step 'charge'" in block.message


# --- removing one -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", [{}, {"1": 5}, {"1": 5, "2": None}])
def test_it_is_removed_without_ceremony_by_a_later_build(stage: dict[str, Any]) -> None:
    run = drive(patched, stage).deploy(removed, "b2", LATER)
    left = {"1": 5, "2": None, "3": 1}
    for position in stage:
        del left[position]
    assert run.feed(left).result == "removed"


def test_a_run_that_went_the_old_way_blocks_the_build_that_removed_it() -> None:
    run = drive(old, {"1": 5}).deploy(patched, "b2", LATER).deploy(removed, "b3", 2 * LATER)
    assert run.block.position == "2"


def test_one_of_several_at_a_place_is_removed() -> None:
    def wf(ctx: Context, *names: str) -> Any:
        answers = [ctx.patched(name) for name in names]
        yield ctx.sleep(1)
        return answers

    run = drive(lambda ctx: wf(ctx, "x", "y")).deploy(lambda ctx: wf(ctx, "y"), "b2", LATER)
    assert run.answer("1").result == [True]


def test_one_of_a_branch_that_ended_there_is_removed() -> None:
    def branch(ctx: Context, name: str, *asked: str) -> Any:
        yield ctx.step(price, name)
        return [ctx.patched(each) for each in asked]

    def wf(ctx: Context, *asked: str) -> Any:
        values = yield ctx.all(branch(ctx, "a", *asked), ctx.step(price, "c"))
        return values, ctx.patched("end")

    run = drive(lambda ctx: wf(ctx, "x"), {"1.0.1": 1}).deploy(wf, "b2", LATER)
    assert run.answer("1.1", 3).result == (([], 3), True)


def test_marks_of_one_branch_are_passed_over_where_another_goes_on() -> None:
    def first(ctx: Context, asks: bool) -> Any:
        if asks:
            ctx.patched("x")
        return
        yield

    def second(ctx: Context) -> Any:
        new = ctx.patched("y")
        yield ctx.sleep(1)
        return new

    def wf(ctx: Context, asks: bool = True) -> Any:
        return (yield ctx.all(first(ctx, asks), second(ctx)))

    run = drive(wf)
    assert run.written == ["started +1 +1.0.0+1 +1.1.0+1 +1.1.1"]
    assert run.deploy(lambda ctx: wf(ctx, False), "b0", EARLIER).block.position == "1.0.0+1"
    assert run.deploy(lambda ctx: wf(ctx, False), "b2", LATER).answer("1.1.1").result == (None, True)


def test_no_except_around_another_patch_sees_the_block() -> None:
    def first(ctx: Context, asks: bool) -> Any:
        if asks:
            ctx.patched("x")
        return
        yield

    def second(ctx: Context, seen: list[BaseException]) -> Any:
        try:
            ctx.patched("y")
        except BaseException as error:
            seen.append(error)
        yield ctx.sleep(1)

    def wf(ctx: Context, asks: bool, seen: list[BaseException]) -> Any:
        yield ctx.all(first(ctx, asks), second(ctx, seen))

    seen: list[BaseException] = []
    run = drive(lambda ctx: wf(ctx, True, seen))
    assert run.deploy(lambda ctx: wf(ctx, False, seen), "b0", EARLIER).block.position == "1.0.0+1"
    assert seen == []


def test_a_mark_that_came_without_its_time_is_never_passed_over() -> None:
    run = drive(patched, {"1": 5})
    assert run.rows[1].asked is not None
    timeless = run.rows[1].asked.replace(',"2026-01-01T00:00:00Z"', "")
    run.rows[1] = msgspec.structs.replace(run.rows[1], asked=timeless)
    assert run.deploy(removed, "b2", LATER).block.position == "1+1"


# --- misuse -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", None, 5, "a\nb", "\ud800"])
def test_a_change_needs_a_name(name: Any) -> None:
    def wf(ctx: Context) -> Any:
        try:
            ctx.patched(name)
        except UsageError as error:
            yield ctx.sleep(1)
            return str(error)

    assert "the name of a change" in drive(wf, {"1": None}).result


def test_outside_of_the_workflow_it_is_an_error_while_parked_and_by_hand_it_is_true() -> None:
    kept: list[Context] = []

    def wf(ctx: Context) -> Any:
        kept[:] = [ctx]
        yield ctx.sleep(1)

    run = an_interpreter(wf)
    run.begin(Started(seed="s", build="b"), START)
    with pytest.raises(UsageError, match="while the workflow does not run"):
        kept[0].patched("x")
    rows = run.collect().rows
    run.close()
    assert kept[0].patched("x")
    assert len(rows) == 1
    assert Context().patched("x")


# --- former names, other arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("former", ["price", ["never", "price"]])
def test_a_renamed_step_says_what_it_was(former: Any) -> None:
    def renamed(ctx: Context) -> Any:
        yield ctx.options(formerly=former).step(find, "book")
        yield ctx.step(charge, 1)

    run = drive(old).retake(renamed)
    assert run.leaf("1").asked.name == "price", "what is on record stays: keys are made of it"
    assert run.answer("1", {"item": "pen"}).open == {"2": "step 'charge'"}
    assert run.retake().open == {"2": "step 'charge'"}


def test_a_former_name_is_no_licence_for_others() -> None:
    def renamed(ctx: Context) -> Any:
        yield ctx.options(formerly="other").step(find, "book")

    assert drive(old, {"1": 5}).retake(renamed).block.position == "1"


def test_a_renamed_step_is_asked_for_by_its_new_name_where_it_is_new() -> None:
    def renamed(ctx: Context) -> Any:
        yield ctx.options(formerly="price").step(find, "book")

    assert drive(renamed).open == {"1": "step 'find'"}


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (lambda ctx: ctx.child(ship, Order("a")), lambda ctx: ctx.child(ship, Order("b"))),
        (lambda ctx: ctx.step(anything, "Dear"), lambda ctx: ctx.step(anything, "Hello", polite=True)),
        (lambda ctx: ctx.sleep(5), lambda ctx: ctx.sleep(6)),
        (lambda ctx: ctx.signal(GO, timeout=5), lambda ctx: ctx.signal(GO)),
        (lambda ctx: ctx.gather([ctx.sleep(1)], limit=1), lambda ctx: ctx.gather([ctx.sleep(1)], limit=2)),
    ],
)
def test_a_call_whose_arguments_changed_harmlessly_says_so(
    first: Callable[[Context], Any], then: Callable[[Context], Any]
) -> None:
    def code(make: Callable[[Context], Any]) -> Body:
        def wf(ctx: Context) -> Any:
            yield make(ctx)

        return wf

    run = drive(code(first))
    asks = run.asks()
    assert run.retake(code(then)).block.position == "1"
    assert run.retake(code(lambda ctx: then(ctx.options(arguments="any")))).blocked is None
    assert {leaf.asked.position for leaf in run.run.leaves.values()} <= set(asks)
    assert run.run.recorder.rows == []
    [open_one] = run.run.leaves.values()
    assert open_one.asked == asks[open_one.position], "deadline and child are those on record"


def test_options_go_on_top_of_each_other() -> None:
    def renamed(ctx: Context) -> Any:
        careful = ctx.options(formerly="price").options(arguments="any").options(timeout=5)
        yield careful.step(find, "pen")

    assert drive(old).retake(renamed).blocked is None


@pytest.mark.parametrize(
    "options", [{"arguments": "some"}, {"formerly": ""}, {"formerly": 5}, {"formerly": ["a", None]}]
)
def test_options_that_say_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Context().options(**options)


def test_a_branch_may_follow_with_former_names_too() -> None:
    def wf(ctx: Context) -> Any:
        try:
            return (yield ctx.all(paying(ctx, "a")))
        except Declined:
            return "declined"

    def renamed(ctx: Context) -> Any:
        def branch() -> Any:
            yield ctx.options(formerly="price").step(charge, "a")
            yield ctx.step(charge, "a")

        try:
            return (yield ctx.all(branch()))
        except Declined:
            return "declined"

    assert Drive(wf).answer("1.0.1", 5).retake(renamed).answer("1.0.2", Fails(Declined(1))).result == "declined"
