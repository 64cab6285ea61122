"""What a replay compares, each where all else is the same: the faults of tests/mutants that nothing else noticed."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from runnerq.workflow.context import Context
from runnerq.workflow.ending import Blocked
from tests.workflow.driver import Body, drive
from tests.workflow.steps import Declined, Order, find, pack, price, ship


def blocked_by(before: Body, answers: dict[str, Any], after: Body) -> Blocked:
    """What stops a run of this code, with these answers on record, when it is taken up by that code."""
    return drive(before, answers).retake(after).block


def test_a_step_and_a_child_of_one_function_with_the_same_arguments_are_different() -> None:
    def stepping(ctx: Context) -> Any:
        yield ctx.step(pack, Order("book"))

    def queueing(ctx: Context) -> Any:
        yield ctx.child(pack, Order("book"))

    block = blocked_by(stepping, {}, queueing)
    assert (block.position, (block.recorded or "").split()[0], (block.asked or "").split()[0]) == ("1", "step", "child")


def test_a_child_that_is_waited_for_and_one_that_is_spawned_are_different() -> None:
    def waiting(ctx: Context) -> Any:
        yield ctx.child(ship, Order("book"))

    def spawning(ctx: Context) -> Any:
        yield ctx.spawn(ship, Order("book"))
        yield ctx.signal("go")

    block = blocked_by(waiting, {}, spawning)
    assert (block.position, (block.recorded or "").split()[0], (block.asked or "").split()[0]) == (
        "1",
        "child",
        "spawn",
    )


def test_a_former_name_that_is_not_the_recorded_one_is_compared_though_its_answer_would_fit() -> None:
    def old(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        yield ctx.signal("go")

    def renamed(ctx: Context) -> Any:
        yield ctx.options(name="cost", formerly="worth").step(price, "book")
        yield ctx.signal("go")

    assert "recorded step 'price', the workflow now asks for step 'cost'" in blocked_by(old, {"1": 5}, renamed).message


def test_a_branch_that_now_raises_decides_its_race_otherwise() -> None:
    def part(ctx: Context, *, raises: bool) -> Any:
        cost = yield ctx.step(price, "book")
        if raises:
            raise Declined(cost)
        return cost

    def returning(ctx: Context) -> Any:
        yield ctx.race(part(ctx, raises=False), ctx.signal("go"))
        yield ctx.signal("end")

    def raising(ctx: Context) -> Any:
        with suppress(Declined):
            yield ctx.race(part(ctx, raises=True), ctx.signal("go"))
        yield ctx.signal("end")

    block = blocked_by(returning, {"1.0.1": 5}, raising)
    assert (block.recorded, block.asked) == ("answered 1", "the workflow goes on with 'failed 1'")


def test_another_member_that_now_wins_is_noticed() -> None:
    """The rows are alike but for the member's index."""

    def part(ctx: Context, name: str) -> Any:
        yield ctx.signal(name)
        return name

    def two(ctx: Context, first: str, second: str) -> Any:
        order = [part(ctx, first), part(ctx, second)]
        yield ctx.race(*order)
        yield ctx.signal("end")

    def plain(ctx: Context) -> Any:
        yield from two(ctx, "a", "b")

    run = drive(plain, {"1.0.1": "x"})
    [decided] = [index for index, row in enumerate(run.rows) if (row.kind, row.position) == ("answered", "1")]
    assert run.rows[decided].value == "0"
    run.rows[decided] = type(run.rows[decided])(
        decided, "answered", "1", run.rows[decided].at, "1", run.rows[decided].asked
    )
    assert "the workflow goes on with 'answered 1'" in str(run.retake().block.asked)


def test_a_step_is_found_by_its_name_however_its_function_is_called() -> None:
    def plain(ctx: Context) -> Any:
        yield ctx.options(name="look up").step(find, "book")

    def other(ctx: Context) -> Any:
        yield ctx.options(name="look up").step(price, "book")

    assert drive(plain).retake(other).open == {"1": "step 'look up'"}
