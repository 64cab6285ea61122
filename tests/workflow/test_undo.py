"""Undos: registered by a plain call, run as steps in reverse order when the run ends badly, before it ends."""

from __future__ import annotations

from asyncio import CancelledError
from typing import Any

import msgspec
import pytest

from runnerq.errors import Cancelled, EncodingError, StepError, UsageError
from runnerq.workflow.context import Context
from runnerq.workflow.ending import Raised, UndoFailed, is_exhausted
from runnerq.workflow.journal import Started
from runnerq.workflow.wants import wants
from tests.workflow.driver import MODULES, START, CutOff, Drive, Fails, an_interpreter, drive, line_in
from tests.workflow.steps import GO, Declined, Order, anything, charge, find, price, ship, tidy


def booking(ctx: Context) -> Any:
    """Two steps, each with an undo that is registered before it, and a third that may fail."""
    ctx.compensate(anything, "unbook", "hotel")
    yield ctx.step(price, "hotel")
    ctx.options(retry=7, timeout=5).compensate(anything, "unbook", seat=3)
    yield ctx.step(price, "flight")
    yield ctx.step(charge, 1)
    return "booked"


def failing() -> Drive:
    return drive(booking, {"1": 5, "2": 6, "3": Fails(Declined(1))})


def undo_failed(run: Drive) -> UndoFailed:
    assert run.blocked is None, run.blocked
    assert isinstance(run.end, UndoFailed), run.end or run.open
    return run.end


# --- when they run ----------------------------------------------------------------------------------------------------


def test_a_run_that_completes_undoes_nothing_and_has_nothing_of_it_on_record() -> None:
    run = drive(booking, {"1": 5, "2": 6, "3": 7})
    assert run.result == "booked"
    assert list(run.asks()) == ["1", "2", "3"]
    assert not run.run.undoing
    assert run.run.never_yielded() == ()


def test_they_run_last_first_before_the_run_fails() -> None:
    run = failing()
    assert run.open == {"u1": "undo 'anything'"}
    assert run.end is None
    assert run.run.undoing
    first = run.leaf("u1").command
    assert (first.args, first.kwargs, first.options.timeout) == (("unbook",), {"seat": 3}, 5.0)
    run.answer("u1", "done")
    assert run.open == {"u2": "undo 'anything'"}
    assert run.leaf("u2").command.args == ("unbook", "hotel")
    run.answer("u2")
    assert isinstance(run.error, Declined)
    assert run.written[3:] == ["failed 3 Declined +u1", 'answered u1 "done" +u2', "answered u2 null"]
    assert run.starts == ["1", "2", "3", "u1", "u2"]


def test_they_run_before_a_dead_letter_by_attempts_as_well() -> None:
    run = drive(booking, {"1": 5, "2": Fails(Declined(1), exhausted=True)})
    error = run.feed({"u1": None, "u2": None}).error
    assert is_exhausted(error)


def test_they_run_before_the_run_is_cancelled() -> None:
    run = drive(booking, {"1": 5}).cancel("enough").answer("2", CutOff())
    assert run.open == {"u1": "undo 'anything'"}
    error = run.feed({"u1": None, "u2": None}).error
    assert isinstance(error, Cancelled)
    assert error.reason == "enough"


def test_one_registered_before_its_step_covers_a_step_that_was_cut_off() -> None:
    def wf(ctx: Context) -> Any:
        ctx.compensate(anything, "refund")
        yield ctx.step(charge, 1)

    run = drive(wf).cancel().answer("1", CutOff())
    assert run.written == ["started +1", "cancel", "interrupted 1 +u1"]
    assert isinstance(run.answer("u1").error, Cancelled)


def test_cleanup_in_finally_comes_first() -> None:
    def wf(ctx: Context) -> Any:
        ctx.compensate(anything, "refund")
        try:
            yield ctx.signal(GO)
        finally:
            yield ctx.step(anything, "release")

    run = drive(wf).cancel()
    assert list(run.open) == ["2"]
    assert list(run.answer("2").open) == ["u1"]
    assert isinstance(run.answer("u1").error, Cancelled)


def test_branches_that_are_cancelled_clean_up_before_anything_is_undone() -> None:
    def booking_branch(ctx: Context, name: str) -> Any:
        ctx.compensate(anything, "unbook", name)
        try:
            yield ctx.step(price, name)
            yield ctx.signal(GO)
        finally:
            yield ctx.step(anything, "release", name)

    def wf(ctx: Context) -> Any:
        yield ctx.race(ctx.all(booking_branch(ctx, "a"), booking_branch(ctx, "b")), ctx.sleep(60))

    run = drive(wf, {"1.0.0.1": 1}).cancel("enough")
    assert run.run.cutting == {"1.0.1.1"}
    run.feed({"1.0.0.3": None, "1.0.1.1": CutOff()})
    assert list(run.open) == ["1.0.1.2"]
    assert not run.run.undoing
    run.answer("1.0.1.2")
    assert run.leaf("u1").command.args == ("unbook", "b")
    run.answer("u1")
    assert run.leaf("u2").command.args == ("unbook", "a")
    assert isinstance(run.answer("u2").error, Cancelled)


def test_a_group_that_a_branch_decided_is_undone_when_its_losers_have_cleaned_up() -> None:
    def failing_branch(ctx: Context) -> Any:
        ctx.compensate(anything, "fails")
        yield ctx.step(charge, 1)

    def wf(ctx: Context) -> Any:
        yield ctx.all(tidy(ctx, "a"), failing_branch(ctx))

    run = drive(wf, {"1.1.1": Fails(Declined(1))})
    assert list(run.open) == ["1.0.2"]
    assert list(run.answer("1.0.2").open) == ["u1"]
    assert isinstance(run.answer("u1").error, Declined)


def test_a_cancel_that_is_caught_undoes_nothing() -> None:
    def wf(ctx: Context) -> Any:
        ctx.compensate(anything, "refund")
        try:
            yield ctx.signal(GO)
        except Cancelled:
            return "half"

    assert drive(wf).cancel().result == "half"


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, CancelledError])
def test_what_means_the_process_and_not_the_run_undoes_nothing(error: type[BaseException]) -> None:
    def wf(ctx: Context) -> Any:
        ctx.compensate(anything, "refund")
        yield ctx.sleep(1)
        raise error

    run = drive(wf, {"1": None})
    assert type(run.error) is error
    assert "u1" not in run.asks()


def test_what_is_raised_on_a_recorded_failure_is_undone_whatever_it_is() -> None:
    def wf(ctx: Context) -> Any:
        ctx.compensate(anything, "refund")
        try:
            yield ctx.step(charge, 1)
        except Declined:
            raise SystemExit(1) from None

    assert type(drive(wf, {"1": Fails(Declined(1)), "u1": None}).error) is SystemExit


def test_a_result_that_cannot_be_stored_is_undone() -> None:
    def wf(ctx: Context) -> Any:
        ctx.compensate(anything, "refund")
        yield ctx.sleep(1)
        return object()

    run = drive(wf, {"1": None})
    assert run.open == {"u1": "undo 'anything'"}
    error = run.answer("u1").error
    assert isinstance(error, EncodingError)
    assert "the result of workflow 'wf', run" in str(error)


@pytest.mark.parametrize("error", [TypeError, UsageError, ImportError])
def test_a_fault_of_the_code_blocks_and_undoes_nothing(error: type[Exception]) -> None:
    def wf(ctx: Context) -> Any:
        ctx.compensate(anything, "refund")
        yield ctx.step(price, 1)
        raise error

    run = drive(wf, {"1": 5})
    assert isinstance(run.block.error, error)
    assert run.written[-1] == "answered 1 5 nothing kept"
    assert "u1" not in run.asks()


def test_a_function_that_raises_before_it_yields_is_undone() -> None:
    def wf(ctx: Context) -> Any:
        ctx.compensate(anything, "refund")
        raise ValueError("never started")

    run = drive(wf)
    assert run.written == ["started +u1"]
    assert str(run.answer("u1").error) == "never started"


# --- what is registered -----------------------------------------------------------------------------------------------


def test_branches_register_with_the_run_in_the_order_of_their_calls() -> None:
    def branch(ctx: Context, name: str) -> Any:
        yield ctx.step(price, name)
        ctx.compensate(anything, name)

    def wf(ctx: Context) -> Any:
        ctx.compensate(anything, "root")
        yield ctx.all(branch(ctx, "a"), branch(ctx, "b"))
        yield ctx.step(charge, 1)

    run = drive(wf, {"1.1.1": 1, "1.0.1": 2, "2": Fails(Declined(1))})
    undone = []
    for position in ("u1", "u2", "u3"):
        undone.append(run.leaf(position).command.args[0])
        run.answer(position)
    assert undone == ["a", "b", "root"]
    assert isinstance(run.error, Declined)


def test_one_of_a_branch_that_lost_is_undone_with_the_run_only() -> None:
    def losing(ctx: Context) -> Any:
        ctx.compensate(anything, "loser")
        yield ctx.signal(GO)

    def wf(ctx: Context, fails: bool = False) -> Any:
        yield ctx.race(losing(ctx), ctx.step(price, 1))
        if fails:
            raise ValueError

    assert drive(wf, {"1.1": 1}).result is None
    run = Drive(wf, True).answer("1.1", 1)
    assert isinstance(run.answer("u1").error, ValueError)


def test_one_that_is_registered_in_cleanup_counts() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.step(charge, 1)
        except Declined:
            ctx.compensate(anything, "late")
            raise

    assert isinstance(drive(wf, {"1": Fails(Declined(1)), "u1": None}).error, Declined)


def test_it_takes_no_number_so_that_adding_one_changes_nothing_for_open_runs() -> None:
    def plain(ctx: Context) -> Any:
        yield ctx.step(price, 1)
        yield ctx.step(charge, 1)

    def undoing(ctx: Context) -> Any:
        ctx.compensate(anything, "refund")
        yield from plain(ctx)

    run = drive(plain, {"1": 5}).retake(undoing)
    assert isinstance(run.feed({"2": Fails(Declined(1)), "u1": None}).error, Declined)


def test_one_that_could_never_run_is_an_error_at_the_users_line() -> None:
    def wf(ctx: Context) -> Any:
        messages = []
        for make in (lambda: ctx.compensate(anything, object()), lambda: ctx.compensate("refund"),  # type: ignore[arg-type]
                     lambda: ctx.compensate(tidy, ctx, "a")):  # fmt: skip
            try:
                make()
            except (UsageError, EncodingError) as error:
                messages.append(str(error))
        yield ctx.sleep(1)
        return messages

    encoding, function, generator = drive(wf, {"1": None}).result
    assert "an argument of <undo 'anything'>" in encoding
    assert "is not a function" in function
    assert "cannot be stored" in generator or "generator function" in generator


def test_outside_of_the_workflow_it_is_an_error_and_while_parked_it_does_nothing() -> None:
    kept: list[Context] = []

    def wf(ctx: Context) -> Any:
        kept[:] = [ctx]
        yield ctx.sleep(1)

    run = an_interpreter(wf)
    run.begin(Started(seed="s", build="b"), START)
    with pytest.raises(UsageError, match="while the workflow does not run"):
        kept[0].compensate(anything, 1)
    assert run.never_yielded() == ()
    run.close()
    for _ in range(3):
        with pytest.raises(BaseException, match="being parked"):
            kept[0].compensate(anything, 1)
    kept[0].compensate(anything, 1)
    Context().compensate(anything, 1)


# --- when one fails ---------------------------------------------------------------------------------------------------


def test_the_others_still_run_when_one_fails_and_the_end_tells_both() -> None:
    run = failing().answer("u1", Fails(ValueError("no"), exhausted=True))
    assert list(run.open) == ["u2"]
    end = undo_failed(run.answer("u2"))
    assert isinstance(end.error, Declined)
    assert repr(end.undo) == "ValueError('no')"
    assert run.written[4:] == ["failed u1 ValueError +u2", "answered u2 null"]


def test_the_last_of_several_failures_is_told() -> None:
    run = failing().feed({"u1": Fails(ValueError("first")), "u2": Fails(ValueError("last"))})
    assert str(undo_failed(run).undo) == "last"


def test_one_that_is_cut_off_counts_as_failed() -> None:
    run = failing().feed({"u1": CutOff(), "u2": None})
    assert isinstance(undo_failed(run).undo, Cancelled)


def test_a_failure_whose_class_cannot_be_had_blocks_nothing_as_no_code_depends_on_it() -> None:
    run = failing().feed({"u1": Fails(Declined(2)), "u2": None})
    elsewhere = an_interpreter(booking)
    elsewhere.identity = msgspec.structs.replace(elsewhere.identity, modules=MODULES - {"tests.workflow.steps"})
    rows = [*run.rows[:3], msgspec.structs.replace(run.rows[3], value=_value_error()), *run.rows[4:]]
    elsewhere.replay(rows, START)
    assert isinstance(elsewhere.end, UndoFailed)
    assert isinstance(elsewhere.end.undo, StepError)
    assert str(elsewhere.end.undo) == "2"
    elsewhere.close()


def _value_error() -> str:
    return '{"type":"ValueError","module":"builtins","message":"no","args":["no"],"rebuilt":true}'


def test_what_an_undo_answered_need_not_fit_its_annotation_any_more() -> None:
    def wf(ctx: Context, undo: Any = anything) -> Any:
        ctx.options(name="undo").compensate(undo, "book")
        yield ctx.step(charge, 1)

    run = drive(wf, {"1": Fails(Declined(1)), "u1": ["no", "order"]})
    assert isinstance(run.retake(lambda ctx: wf(ctx, find)).error, Declined)


# --- cancels, and what else comes meanwhile ---------------------------------------------------------------------------


def test_a_cancel_during_undo_adds_nothing() -> None:
    run = failing()
    assert not run.run.heeds_cancel
    rows = list(run.rows)
    run.cancel("late")
    assert run.rows == rows
    assert not run.run.cancel_requested
    assert run.run.cutting == set()
    assert isinstance(run.feed({"u1": None, "u2": None}).error, Declined)


def test_a_cancel_is_heeded_until_the_undos_begin() -> None:
    run = drive(booking, {"1": 5})
    assert run.run.heeds_cancel
    assert not run.cancel().run.heeds_cancel
    assert not an_interpreter(booking).heeds_cancel


def test_undos_are_effects_and_not_waited_for_by_a_park() -> None:
    run = failing()
    assert run.run.opened == []
    wanted = wants(run.run)
    assert (wanted.signals, wanted.children, wanted.needs, wanted.due_at) == ((), (), 0, None)


def test_a_run_that_undoes_stands_where_the_undo_was_registered() -> None:
    run = failing()
    assert run.run.stack() == [f"{line_in(booking, 'seat=3')} in booking"]
    hotel = line_in(booking, 'compensate(anything, "unbook", "hotel")')
    assert run.answer("u1").run.stack() == [f"{hotel} in booking"]


def test_an_undo_by_hand_stands_nowhere() -> None:
    run = failing()
    run.leaf("u1").command.code = None
    assert run.run.stack() == []


def test_children_that_are_open_stay_open_until_the_end() -> None:
    def wf(ctx: Context) -> Any:
        ctx.compensate(anything, "refund")
        yield ctx.spawn(ship, Order("book"))
        raise ValueError

    run = drive(wf)
    assert list(run.run.children) == run.children
    assert run.written == ["started +1 +u1"]
    assert list(run.answer("u1").run.children) == run.children


# --- replay -----------------------------------------------------------------------------------------------------------


def test_a_run_is_taken_up_in_the_middle_of_its_undos() -> None:
    run = failing().answer("u1").retake()
    assert run.open == {"u2": "undo 'anything'"}
    assert run.run.undoing
    assert isinstance(run.answer("u2").error, Declined)


def test_another_undo_than_the_recorded_one_blocks_where_it_was_registered() -> None:
    def changed(ctx: Context) -> Any:
        ctx.compensate(anything, "unbook", "hotel")
        yield ctx.step(price, "hotel")
        ctx.compensate(charge, 3)
        yield ctx.step(price, "flight")
        yield ctx.step(charge, 1)

    block = failing().retake(changed).block
    assert (block.position, block.line) == ("u1", f"{line_in(changed, 'compensate(charge')} in changed")
    assert "recorded undo 'anything', the workflow now asks for undo 'charge'" in block.message


def test_an_undo_that_is_missing_blocks() -> None:
    def changed(ctx: Context) -> Any:
        ctx.compensate(anything, "unbook", seat=3)
        yield ctx.step(price, "hotel")
        yield ctx.step(price, "flight")
        yield ctx.step(charge, 1)

    block = failing().answer("u1").retake(changed).block
    assert block.position == "u2"
    assert "the workflow asks for nothing" in block.message


def test_a_renamed_undo_says_what_it_was() -> None:
    def changed(ctx: Context) -> Any:
        ctx.compensate(anything, "unbook", "hotel")
        yield ctx.step(price, "hotel")
        ctx.options(formerly="anything", arguments="any").compensate(charge, 3)
        yield ctx.step(price, "flight")
        yield ctx.step(charge, 1)

    run = failing().retake(changed)
    assert run.leaf("u1").command.fn is charge
    assert isinstance(run.feed({"u1": 1, "u2": None}).end, Raised)


def test_a_cancel_on_record_among_undos_is_no_journal_of_this_code() -> None:
    run = failing()
    run.rows.append(msgspec.structs.replace(run.rows[0], place=4, kind="cancel", value=None, asked="[]", at=run.at))
    assert "the workflow does not wait for that" in run.retake().block.message
