"""A workflow that continues as new: its next generation begins with other arguments and an empty journal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from runnerq.errors import Cancelled, EncodingError, UsageError
from runnerq.workflow.commands import Winner
from runnerq.workflow.context import Context
from runnerq.workflow.driver import ContinueAsNew, Inert
from runnerq.workflow.ending import Blocked, ContinuedAsNew
from runnerq.workflow.journal import Started
from tests.workflow.driver import START, CutOff, Drive, Fails, an_interpreter, drive, line_in
from tests.workflow.steps import GO, Declined, Order, anything, charge, price, ship, tidy


def counting(ctx: Context, done: int = 0) -> Any:
    cost = yield ctx.step(price, done)
    if done < 2:
        return ctx.continue_as_new(done + 1)
    return done, cost


def continued(run: Drive) -> Any:
    """The arguments of the next generation."""
    assert run.blocked is None, run.blocked
    assert isinstance(run.end, ContinuedAsNew), run.end or run.open
    return msgspec.json.decode(run.end.arguments)


# --- generations ------------------------------------------------------------------------------------------------------


def test_it_ends_the_generation_with_the_arguments_of_the_next() -> None:
    run = drive(counting, {"1": 5})
    assert continued(run) == [1]
    assert run.written == ["started +1", "answered 1 5"]


def test_keyword_arguments_go_on_as_well() -> None:
    def wf(ctx: Context, one: int = 0, *, two: int = 0) -> Any:
        if not two:
            ctx.continue_as_new(1, two=2)
        yield ctx.sleep(1)
        return one, two

    run = drive(wf)
    assert continued(run) == {"args": [1], "kwargs": {"two": 2}}
    assert run.renew().answer("1").result == (1, 2)


def test_the_next_generation_begins_with_its_row_0_and_puts_its_first_asks_on_record_behind_it() -> None:
    run = drive(counting, {"1": 5}).renew()
    assert run.written == ["started nothing kept", 'mark {"taken_up":true} +1']
    assert run.starts[-1] == "1"
    assert continued(run.answer("1", 6)) == [2]
    assert run.renew().answer("1", 7).result == (2, 7)


def test_a_generation_is_replayed_with_its_own_arguments() -> None:
    run = drive(counting, {"1": 5}).renew().answer("1", 6).renew()
    assert run.retake().retake().answer("1", 7).result == (2, 7)


def test_a_generation_has_times_chance_and_children_of_its_own() -> None:
    seen: list[Any] = []

    def wf(ctx: Context, last: bool = False) -> Any:
        seen[:] = [*seen[-4:], ctx.now(), ctx.uuid()]
        yield ctx.spawn(ship, Order("book"))
        if not last:
            ctx.continue_as_new(True)
        yield ctx.sleep(1)

    run = drive(wf)
    one_child, one_time, one_uuid = run.asks()["1"].child, *seen[-2:]
    run.renew()
    assert run.asks()["1"].child not in (None, one_child)
    assert seen[-2] > one_time
    assert seen[-1] != one_uuid


def test_a_run_began_when_its_first_generation_did() -> None:
    run = drive(counting, {"1": 5}).renew()
    assert run.run.began_at == START
    assert run.answer("1", 6).renew().run.began_at == START
    assert run.run.recorder.at > START


def test_a_child_of_an_earlier_generation_is_waited_for_by_its_id() -> None:
    def wf(ctx: Context, child: str | None = None) -> Any:
        if child is None:
            handle = yield ctx.spawn(ship, Order("book"))
            ctx.continue_as_new(handle.id)
        return (yield ctx.handle(child).result())

    run = drive(wf)
    [child] = run.children
    assert list(run.run.children) == [child], "it stays open: nothing cancels it"
    assert run.cancels == []
    run.renew()
    assert run.asks()["1"].child == child
    assert run.answer("1", {"item": "pen"}).result == {"item": "pen"}


def test_what_was_published_stays_visible_and_is_merged_with_what_comes() -> None:
    def wf(ctx: Context, first: bool = True) -> Any:
        if first:
            yield ctx.publish(a=1, b=1)
            ctx.continue_as_new(False)
        yield ctx.publish(b=2)
        yield ctx.sleep(1)

    run = drive(wf).renew()
    assert run.published == run.run.state == {"a": 1, "b": 2}
    assert run.retake().run.state == {"a": 1, "b": 2}


def test_a_workflow_that_is_no_generator_yet_may_continue_at_once() -> None:
    def wf(ctx: Context, again: bool = True) -> Any:
        if again:
            ctx.continue_as_new(False)
        return part(ctx)

    def part(ctx: Context) -> Any:
        yield ctx.sleep(1)

    assert drive(wf).renew().open == {"1": "sleep"}


def test_a_fault_of_the_next_generation_keeps_its_row_0() -> None:
    def broken(ctx: Context, done: int = 0) -> Any:
        yield ctx.step(price, done)
        if not done:
            ctx.continue_as_new(1)

    def faulty(ctx: Context, done: int = 0) -> Any:
        raise TypeError
        yield

    run = drive(broken, {"1": 5})
    run.code = faulty
    run.renew()
    assert run.block.position == "0"
    assert run.written == ["started nothing kept"]
    assert run.retake(broken).open == {"1": "step 'price'"}


# --- it is not swallowed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "then", ["passes", "returns", "raises", "fault", "yields", "loops", "returns a command", "again"]
)
def test_no_except_or_finally_of_the_workflow_swallows_it(then: str) -> None:
    seen: list[str] = []

    def wf(ctx: Context, done: int = 0) -> Any:
        yield ctx.step(price, done)
        try:
            ctx.continue_as_new(7)
        except BaseException as error:
            seen[:] = [type(error).__name__]
            match then:
                case "returns":
                    return "swallowed"
                case "raises":
                    raise ValueError from None
                case "fault":
                    raise TypeError from None
                case "yields":
                    yield ctx.step(charge, 1)
                case "loops":
                    while True:
                        yield ctx.publish(swallowed=True)
                case "returns a command":
                    return ctx.sleep(1)
                case "again":
                    ctx.continue_as_new(8)
        return "swallowed"

    run = drive(wf, {"1": 5})
    assert continued(run) == [7]
    assert seen == ["ContinueAsNew"]
    assert run.written == ["started +1", "answered 1 5"]
    assert run.published is None
    assert run.run.close() == []


@pytest.mark.filterwarnings("error")
def test_what_a_finally_yields_behind_it_is_not_asked_for_and_told_as_never_yielded() -> None:
    async def nothing() -> None: ...

    def wf(ctx: Context, coroutine: bool = False) -> Any:
        try:
            ctx.continue_as_new(1)
        finally:
            if coroutine:
                yield nothing()
            yield ctx.step(anything, "release")

    run = drive(wf)
    assert continued(run) == [1]
    assert [command.name for command in run.run.never_yielded()] == ["anything"]
    assert run.run.close() == []
    assert continued(drive(lambda ctx: wf(ctx, True))) == [1]


def test_inside_a_helper_it_leaves_the_whole_workflow() -> None:
    def helper(ctx: Context) -> Any:
        yield ctx.step(price, 1)
        ctx.continue_as_new(1)

    def wf(ctx: Context, done: int = 0) -> Any:
        yield from helper(ctx)
        yield ctx.step(charge, 1)

    assert continued(drive(wf, {"1": 5})) == [1]


def test_ctrl_c_behind_it_passes_through() -> None:
    def wf(ctx: Context) -> Any:
        try:
            ctx.continue_as_new()
        finally:
            raise KeyboardInterrupt
        yield

    with pytest.raises(KeyboardInterrupt):
        drive(wf)


# --- where it cannot be called ----------------------------------------------------------------------------------------


def told(wf: Any, answers: dict[str, Any] | None = None) -> str:
    run = drive(wf, answers)
    assert isinstance(run.block.error, UsageError)
    assert run.block.line is not None
    assert "continue_as_new" not in run.block.line, "the user's line"
    return run.block.message


def test_in_a_branch_it_is_an_error_at_the_line() -> None:
    def branch(ctx: Context) -> Any:
        yield ctx.step(price, 1)
        ctx.continue_as_new(1)  # here

    def wf(ctx: Context) -> Any:
        yield ctx.all(branch(ctx), ctx.sleep(1))

    run = drive(wf, {"1.0.1": 5})
    assert run.block.line == f"{line_in(branch, '# here')} in branch"
    assert "in the branch at 1.0" in run.block.message


def test_with_something_to_be_undone_it_is_an_error() -> None:
    def wf(ctx: Context) -> Any:
        ctx.compensate(anything, "refund")
        yield ctx.step(price, 1)
        ctx.continue_as_new(1)

    assert "<undo 'anything'>" in told(wf, {"1": 5})


def test_an_error_of_it_can_be_caught_and_the_run_goes_on() -> None:
    def wf(ctx: Context) -> Any:
        ctx.compensate(anything, "refund")
        try:
            ctx.continue_as_new(1)
        except UsageError:
            yield ctx.sleep(1)
        return "went on"

    assert drive(wf, {"1": None}).result == "went on"


def test_arguments_that_cannot_be_stored_are_an_error_at_the_line() -> None:
    def wf(ctx: Context) -> Any:
        try:
            ctx.continue_as_new(object())
        except EncodingError as error:
            yield ctx.sleep(1)
            return str(error)

    assert "the arguments that run" in drive(wf, {"1": None}).result


def test_arguments_that_do_not_fit_the_workflow_are_an_error_at_the_line() -> None:
    def check(arguments: str) -> None:
        raise UsageError(f"no {arguments}")

    def wf(ctx: Context) -> Any:
        ctx.continue_as_new(1, 2)
        yield

    run = an_interpreter(wf, check_arguments=check)
    with pytest.raises(Blocked, match=r"no \[1,2\]") as blocked:
        run.begin(Started(seed="s", build="b"), START)
    assert blocked.value.line == f"{line_in(wf, '(1, 2)')} in wf"
    run.close()


def test_outside_of_the_workflow_it_is_an_error() -> None:
    kept: list[Context] = []

    def wf(ctx: Context) -> Any:
        kept[:] = [ctx]
        yield ctx.sleep(1)

    run = an_interpreter(wf)
    run.begin(Started(seed="s", build="b"), START)
    with pytest.raises(UsageError, match="while the workflow does not run"):
        kept[0].continue_as_new(1)
    run.close()
    with pytest.raises(Inert):
        kept[0].continue_as_new(1)


def test_by_hand_it_raises_with_what_it_was_given() -> None:
    with pytest.raises(ContinueAsNew) as raised:
        Context().continue_as_new(1, two=2)
    assert raised.value.args == ((1,), {"two": 2})


# --- with a cancel ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [5, CutOff()])
def test_a_cancel_that_waits_for_a_step_is_delivered_and_not_left_behind(answer: Any) -> None:
    def wf(ctx: Context, done: int = 0) -> Any:
        try:
            yield ctx.step(price, done)
            ctx.continue_as_new(done + 1)
        except Cancelled as cancelled:
            yield ctx.step(anything, "clean")
            return cancelled.reason

    run = drive(wf).cancel("enough").answer("1", answer)
    assert run.open == {"2": "step 'anything'"}
    assert run.answer("2").result == "enough"


def test_a_cancel_that_is_not_caught_there_ends_the_run() -> None:
    error = drive(counting).cancel("enough").answer("1", 5).error
    assert isinstance(error, Cancelled)
    assert error.reason == "enough"


def test_a_run_that_was_cancelled_cannot_continue() -> None:
    def wf(ctx: Context, done: int = 0) -> Any:
        try:
            yield ctx.signal(GO)
        except Cancelled:
            ctx.continue_as_new(1)

    run = drive(wf).cancel()
    assert isinstance(run.block.error, UsageError)
    assert "was cancelled" in run.block.message


def test_a_cancel_behind_it_adds_nothing() -> None:
    run = drive(counting, {"1": 5}).cancel()
    assert continued(run) == [1]
    assert not run.run.cancel_requested


# --- with composites --------------------------------------------------------------------------------------------------


def test_nothing_is_open_where_it_is_called_as_losers_are_closed_before() -> None:
    def wf(ctx: Context, done: int = 0) -> Any:
        winner = yield ctx.race(ctx.signal(GO, timeout=60), tidy(ctx, "a"), ctx.step(price, 1))
        ctx.continue_as_new(winner.index)

    run = drive(wf, {"1.2": 5, "1.1.2": None})
    assert continued(run) == [2]
    assert run.open == {}
    assert list(run.run.timed()) == []
    assert run.written[1:] == [
        "answered 1.2 5", "closed 1.0", "closed 1.1 +1.1.2", "answered 1.1.2 null", "answered 1 2",
    ]  # fmt: skip


def test_it_may_follow_a_failure() -> None:
    def wf(ctx: Context, done: int = 0) -> Any:
        try:
            return (yield ctx.race(ctx.step(charge, 1), ctx.sleep(5)))
        except Declined:
            ctx.continue_as_new(done + 1)

    run = drive(wf, {"1.0": Fails(Declined(1))})
    assert continued(run) == [1]
    assert run.renew().answer("1.1").result == Winner(1, None)
