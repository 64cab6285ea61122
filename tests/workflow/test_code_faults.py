"""A fault of the code blocks the run where it happened; what was answered is kept, and repaired code goes on."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from runnerq.errors import UsageError
from runnerq.workflow import advance
from runnerq.workflow.commands import Winner
from runnerq.workflow.context import Context
from runnerq.workflow.ending import is_code_fault, is_exhausted
from tests.workflow.driver import START, Body, CutOff, Drive, Fails, an_interpreter, drive, line_in
from tests.workflow.steps import GO, Declined, Order, anything, charge, price, ship


def faulty(error: type[BaseException]) -> Body:
    def wf(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        yield ctx.publish(at="work")
        raise error("oh")

    return wf


@pytest.mark.parametrize(
    "error",
    [
        AttributeError, NameError, TypeError, KeyError, IndexError, AssertionError, ImportError, RecursionError,
        MemoryError, UsageError,
    ],
)  # fmt: skip
def test_what_looks_like_a_fault_of_the_code_blocks_and_keeps_the_answer_alone(error: type[BaseException]) -> None:
    wf = faulty(error)
    run = drive(wf, {"1": 10})
    assert run.block.position == "2"
    assert run.block.line == f"{line_in(wf, 'raise')} in wf"
    assert isinstance(run.block.error, error)
    assert run.block.message.startswith(error.__name__)
    assert run.written == ["started +1", "answered 1 10 nothing kept"]
    assert run.published is None


@pytest.mark.parametrize("error", [ImportError, MemoryError])
def test_what_may_be_the_workers_fault_is_told_apart(error: type[BaseException]) -> None:
    assert drive(faulty(error), {"1": 10}).block.by_worker
    assert not drive(faulty(TypeError), {"1": 10}).block.by_worker


@pytest.mark.parametrize("error", [ValueError, OSError, Declined, SystemExit])
def test_anything_else_ends_the_run(error: type[BaseException]) -> None:
    assert isinstance(drive(faulty(error), {"1": 10}).error, error)


def test_with_a_recorded_failure_in_its_chain_it_ends_the_run() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.step(charge, 1)
        except Declined:
            raise KeyError("of the code") from None

    error = drive(wf, {"1": Fails(Declined(1), exhausted=True)}).error
    assert isinstance(error, KeyError)
    assert is_exhausted(error)


def test_a_group_with_a_recorded_failure_in_it_is_no_fault_of_the_code() -> None:
    def wf(ctx: Context) -> Any:
        values = yield ctx.gather([ctx.step(charge, 1)], return_errors=True)
        raise ExceptionGroup("several", values)

    error = drive(wf, {"1.0": Fails(KeyError("recorded"))}).error
    assert isinstance(error, ExceptionGroup)
    assert not is_code_fault(error)
    assert not is_exhausted(error)


def test_repaired_code_goes_on_with_the_answer_that_was_kept() -> None:
    def repaired(ctx: Context) -> Any:
        cost = yield ctx.step(price, "book")
        yield ctx.publish(at="work")
        yield ctx.step(charge, cost)
        return cost

    run = drive(faulty(TypeError), {"1": 10}).retake(repaired)
    assert run.open == {"3": "step 'charge'"}
    assert run.published == {"at": "work"}
    assert run.starts == ["1", "3"]
    assert run.written == ["started +1", "answered 1 10 nothing kept", 'mark {"taken_up":true} +2 +3']
    assert run.answer("3", 0).result == 10
    assert run.written[3:] == ["answered 3 0"]


def test_what_is_asked_anew_is_asked_at_the_time_of_the_take_up() -> None:
    times: list[Any] = []

    def repaired(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        times.append(ctx.now())
        yield ctx.signal(GO, timeout=60)

    run = drive(faulty(TypeError), {"1": 10})
    run.retake(repaired)
    deadline = run.asks()["2"].deadline
    assert deadline is not None
    assert (deadline - run.at).total_seconds() == 60
    assert set(times) == {run.at}


def test_the_take_up_is_never_earlier_than_the_answer() -> None:
    run = drive(faulty(TypeError), {"1": 10})
    again = an_interpreter(faulty(ValueError))
    again.replay(run.rows, START)
    [mark] = again.collect().rows
    assert mark.at == run.rows[-1].at > START
    again.close()


def test_the_log_is_heard_when_the_answer_is_taken_up() -> None:
    seen: list[bool] = []

    def repaired(ctx: Context) -> Any:
        seen.append(ctx.replaying)
        yield ctx.step(price, "book")
        seen.append(ctx.replaying)
        yield ctx.sleep(1)

    run = drive(faulty(TypeError), {"1": 10})
    run.retake(repaired)
    assert seen[:2] == [True, False]


def test_code_that_is_not_repaired_blocks_again_and_writes_nothing() -> None:
    run = drive(faulty(TypeError), {"1": 10})
    rows = list(run.rows)
    assert run.retake().block.position == "2"
    assert run.retake(faulty(KeyError)).block.position == "2"
    assert run.rows == rows


def test_repaired_code_may_end_at_once() -> None:
    def repaired(ctx: Context) -> Any:
        return (yield ctx.step(price, "book"))

    run = drive(faulty(TypeError), {"1": 10}).retake(repaired)
    assert run.result == 10
    assert run.written[-1] == 'mark {"taken_up":true}'


def test_repaired_code_that_fails_later_is_repaired_again() -> None:
    def half(ctx: Context) -> Any:
        cost = yield ctx.step(price, "book")
        yield ctx.step(charge, cost)
        raise TypeError("again")

    def whole(ctx: Context) -> Any:
        cost = yield ctx.step(price, "book")
        paid = yield ctx.step(charge, cost)
        yield ctx.sleep(1)
        return cost, paid

    run = drive(faulty(TypeError), {"1": 10}).retake(half).answer("2", 3)
    assert run.block.position == "2"
    assert run.retake(whole).answer("3").result == (10, 3)


def test_repaired_code_must_still_follow_what_came_before() -> None:
    def other(ctx: Context) -> Any:
        yield ctx.step(charge, "book")

    run = drive(faulty(TypeError), {"1": 10}).retake(other)
    assert "recorded step 'price'" in run.block.message


@pytest.mark.parametrize("answer", [Fails(Declined(1)), CutOff()])
def test_a_failure_or_a_cut_off_that_the_code_failed_on_is_kept_too(answer: Any) -> None:
    def wf(ctx: Context) -> Any:
        with suppress(BaseException):
            yield ctx.step(price, "book")
        raise TypeError

    def repaired(ctx: Context) -> Any:
        try:
            yield ctx.step(price, "book")
        except BaseException as error:
            return type(error).__name__

    # Cut off, without a recorded failure in the chain; a recorded one would end the run.
    run = Drive(wf).answer("1", answer).retake(repaired)
    assert run.result == ("Cancelled" if isinstance(answer, CutOff) else "Declined")


def test_a_fault_on_a_cancel_keeps_the_cancel() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.signal(GO)
        except BaseException:
            raise TypeError from None

    def repaired(ctx: Context) -> Any:
        try:
            yield ctx.signal(GO)
        except BaseException:
            yield ctx.sleep(1)
            return "cleaned"

    run = drive(wf).cancel("enough")
    assert run.written == ["started +1", 'cancel "enough" nothing kept']
    assert run.retake(repaired).run.cancel_requested
    assert run.answer("2").result == "cleaned"


def test_a_fault_before_the_first_answer_leaves_nothing_on_record() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.publish(a=1)
        raise TypeError

    def repaired(ctx: Context) -> Any:
        yield ctx.sleep(1)

    run = drive(wf)
    assert run.block.position == "1"
    assert run.rows == []
    assert run.retake(repaired).open == {"1": "sleep"}


def test_a_function_that_cannot_even_be_called_blocks() -> None:
    def wf(ctx: Context, missing: int) -> Any:
        yield ctx.sleep(missing)

    block = drive(wf).block
    assert block.position == "0"
    assert "missing" in block.message


@pytest.mark.parametrize("made", [None, "coroutine", "command"])
def test_a_function_that_makes_no_generator_blocks(made: str | None) -> None:
    async def nothing() -> None: ...

    def wf(ctx: Context) -> Any:
        return {None: lambda: None, "coroutine": nothing, "command": lambda: ctx.sleep(1)}[made]()

    block = drive(wf).block
    assert "and not a generator" in block.message
    assert isinstance(block.error, UsageError)


# --- branches ---------------------------------------------------------------------------------------------------------


def test_a_fault_in_a_branch_decides_nothing_and_blocks_there() -> None:
    def branch(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        raise KeyError("k")

    def repaired(ctx: Context) -> Any:
        return (yield ctx.step(price, "book"))

    def wf(ctx: Context, part: Body = branch) -> Any:
        try:
            return (yield ctx.race(part(ctx), ctx.sleep(60)))
        except KeyError:
            return "never"

    run = drive(wf, {"1.0.1": 10})
    assert run.block.position == "1.0.1"
    assert run.block.line == f"{line_in(branch, 'raise')} in branch"
    assert run.written[-1] == "answered 1.0.1 10 nothing kept"
    run.retake(lambda ctx: wf(ctx, repaired))
    assert run.result == Winner(0, 10)
    assert run.written[2:] == ['mark {"taken_up":true}', "closed 1.1", "answered 1 0"]


def test_a_fault_in_the_cleanup_of_a_loser_keeps_the_closing() -> None:
    def branch(ctx: Context) -> Any:
        try:
            yield ctx.signal(GO)
        finally:
            raise TypeError

    def repaired(ctx: Context) -> Any:
        try:
            yield ctx.signal(GO)
        finally:
            yield ctx.step(anything, "clean")

    def wf(ctx: Context, part: Body = branch) -> Any:
        return (yield ctx.race(ctx.sleep(1), part(ctx), ctx.step(price, "book")))

    run = drive(wf, {"1.0": None})
    assert run.block.position == "1.1.1"
    assert run.written[1:] == ["answered 1.0", "closed 1.1 nothing kept"]
    run.retake(lambda ctx: wf(ctx, repaired))
    assert run.open == {"1.1.2": "step 'anything'"}
    assert run.written[3:] == ['mark {"taken_up":true} +1.1.2', "closed 1.2"]
    assert run.answer("1.1.2").result == Winner(0, None)


def test_a_fault_while_members_start_keeps_nothing_of_them() -> None:
    def branch(ctx: Context) -> Any:
        yield ctx.all(ctx.sleep(1), broken(ctx))

    def broken(ctx: Context) -> Any:
        raise NameError("x")
        yield ctx.sleep(1)

    def wf(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        yield ctx.all(branch(ctx), ctx.child(ship, Order("book")))

    run = drive(wf, {"1": 1})
    assert run.block.position == "2.0.1.1.0"
    assert run.children == []
    assert run.run.close() == []


def test_the_block_that_a_refused_child_leads_to_keeps_its_refusal() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.child(ship, Order("book"))
        finally:
            yield ctx.sleep(1)
            raise TypeError

    run = Drive(wf, may_have_children=False)
    assert run.written == ["started +1", "failed 1 DepthExceeded +2"]
    # The refusal is in the chain of what is raised: the run fails by it.
    assert isinstance(run.answer("2").error, TypeError)


def test_a_loop_that_never_waits_is_stopped_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "MAX_YIELDS", 50)

    def wf(ctx: Context) -> Any:
        while True:
            try:
                yield ctx.publish(a=1)
                yield None
            except UsageError:
                continue

    run = drive(wf)
    assert "without waiting" in run.block.message
    assert run.block.line is not None
    assert run.block.line.endswith("in wf")
    assert run.rows == []


def test_the_line_of_a_misused_context_is_the_users() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.race()

    assert drive(wf).block.line == f"{line_in(wf, 'race')} in wf"
