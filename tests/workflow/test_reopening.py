"""Runs that a person opens again: the journal is cut where they failed, and what was taken back is asked for again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from runnerq.errors import Cancelled, ChildFailed, DecodingError
from runnerq.serialization.failures import record
from runnerq.workflow.context import Context
from runnerq.workflow.ending import Blocked, Raised, UndoFailed
from runnerq.workflow.journal import Reopened, Row
from runnerq.workflow.recorder import differ_in_arguments_alone
from runnerq.workflow.reopening import accepted_before, effective, reopening, undo_began
from tests.workflow.driver import MODULES, START, CutOff, Drive, Fails, an_interpreter, drive
from tests.workflow.steps import GO, Declined, Order, anything, charge, paying, price, ship


def cut(run: Drive) -> Reopened:
    """What opens this run again, which ended badly."""
    match run.end:
        case Raised(error) | UndoFailed(error):
            return reopening(run.rows, record(error, MODULES, retryable=True))
        case _:
            raise AssertionError(run.end or run.open)


def retried(run: Drive, code: Any = None) -> Drive:
    return run.reopen(cut(run), code)


def buying(ctx: Context) -> Any:
    cost = yield ctx.step(price, "book")
    paid = yield ctx.step(charge, cost)
    yield ctx.sleep(5)
    return cost, paid


# --- the cut ----------------------------------------------------------------------------------------------------------


def test_the_journal_is_cut_at_the_failure_that_the_run_ended_with() -> None:
    run = drive(buying, {"1": 5, "2": Fails(Declined(1), exhausted=True)})
    assert cut(run) == Reopened(upto=2)
    retried(run)
    assert run.open == {"2": "step 'charge'"}
    assert run.starts[-1] == "2"
    assert run.feed({"2": 7, "3": None}).result == (5, 7)
    assert run.written[2:] == ["failed 2 Declined", 'reopened {"upto":2}', "answered 2 7 +3", "answered 3"]


def test_what_came_after_the_failure_is_cut_as_well() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.step(charge, 1)
        except Declined as declined:
            yield ctx.step(anything, "tell them")
            yield ctx.publish(failed=True)
            raise ValueError("no order") from declined
        return "ordered"

    run = retried(drive(wf, {"1": Fails(Declined(1)), "2": None}))
    assert run.open == {"1": "step 'charge'"}
    assert run.run.state == {}
    assert run.answer("1", 5).result == "ordered"


def test_of_several_equal_failures_it_is_the_last() -> None:
    def wf(ctx: Context) -> Any:
        for _ in range(2):
            try:
                return (yield ctx.step(charge, 1))
            except Declined:
                yield ctx.sleep(1)
        return (yield ctx.step(charge, 1))

    run = drive(wf, {"1": Fails(Declined(1)), "2": None, "3": Fails(Declined(1)), "4": None, "5": Fails(Declined(1))})
    assert retried(run).open == {"5": "step 'charge'"}


def test_the_nearest_failure_in_a_chain_counts() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.step(charge, 1)
        except Declined:
            yield ctx.step(anything, "fallback")

    run = drive(wf, {"1": Fails(Declined(1)), "2": Fails(ValueError("too"))})
    assert retried(run).open == {"2": "step 'anything'"}


def test_of_a_group_of_failures_it_is_the_first_so_that_all_of_them_are_asked_for_again() -> None:
    def wf(ctx: Context) -> Any:
        values = yield ctx.gather([ctx.step(charge, number) for number in range(4)], return_errors=True)
        errors = [value for value in values if isinstance(value, Exception)]
        if errors:
            raise ExceptionGroup("several", errors)
        return values

    answers = {"1.2": 2, "1.1": Fails(Declined(1)), "1.0": 0, "1.3": Fails(Declined(3))}
    run = retried(drive(wf, answers))
    assert list(run.open) == ["1.0", "1.1", "1.3"]
    assert run.feed({"1.0": 0, "1.1": 1, "1.3": 3}).result == [0, 1, 2, 3]


def test_a_failure_that_decided_a_composite_opens_it_again_with_its_other_members() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.all(ctx.step(price, "a"), paying(ctx, "b"), ctx.step(price, "c")))

    run = drive(wf, {"1.2": 3, "1.1.1": Fails(Declined(1))})
    assert run.written[2:] == ["failed 1.1.1 Declined", "closed 1.0", "failed 1 1"]
    assert list(retried(run).open) == ["1.0", "1.1.1"]
    assert run.feed({"1.1.1": 2, "1.1.2": 0, "1.0": 1}).result == (1, 2, 3)


def test_a_child_that_failed_is_waited_for_again() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.child(ship, Order("book")))

    failed = ChildFailed("018f3d5e-7a0c-7c2b-8b7e-ffffffffffff", "ship", "failed", "1")
    failed.__cause__ = Declined(1)
    run = drive(wf, {"1": Fails(failed)})
    [child] = run.children
    retried(run)
    assert run.leaf("1").asked.child == child
    assert run.children == [child], "it is not started again"
    assert run.answer("1", {"item": "pen"}).result == Order("pen")


def test_a_failure_that_is_not_named_by_what_was_raised_on_it_counts_too() -> None:
    def wf(ctx: Context) -> Any:
        try:
            return (yield ctx.step(charge, 1))
        except Declined:
            raise ValueError("no order") from None

    run = retried(drive(wf, {"1": Fails(Declined(1))}))
    assert run.open == {"1": "step 'charge'"}


def test_where_nothing_names_it_the_last_step_that_used_up_its_attempts_counts() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.step(charge, 1)
        except Declined:
            yield ctx.step(anything, "tell them")
        raise ValueError("no order")

    assert cut(drive(wf, {"1": Fails(Declined(1), exhausted=True), "2": None})) == Reopened(upto=1)


def test_one_that_decided_a_composite_and_is_not_named_counts_too() -> None:
    def wf(ctx: Context) -> Any:
        try:
            return (yield ctx.all(ctx.step(charge, 1), ctx.step(charge, 2)))
        except Declined:
            raise ValueError("no order") from None

    assert cut(drive(wf, {"1.1": Fails(Declined(1))})) == Reopened(upto=1)


def test_a_run_is_retried_again_and_again() -> None:
    run = drive(buying, {"1": 5, "2": Fails(Declined(1))})
    for _ in range(3):
        retried(run).answer("2", Fails(Declined(1)))
    retried(run)
    assert [row.kind for row in run.rows].count("reopened") == 4
    assert run.feed({"2": 7, "3": None}).result == (5, 7)
    assert [row.place for row in effective(run.rows)] == [0, 1, 10, 11]


def test_places_and_entries_go_on_behind_all_rows() -> None:
    def wf(ctx: Context) -> Any:
        seen = [ctx.info.entries]
        for item in "abc":
            yield ctx.step(price, item)
            seen.append(ctx.info.entries)
        return seen

    run = retried(drive(wf, {"1": 1, "2": Fails(Declined(1))}))
    assert run.feed({"2": 2, "3": 3}).retake().result == [0, 1, 4, 5]


def test_times_are_never_earlier_than_what_was_cut() -> None:
    run = retried(drive(buying, {"1": 5, "2": Fails(Declined(1))}))
    times = [row.at for row in run.answer("2", 7).rows]
    assert times == sorted(times)


# --- without a failure of its own -------------------------------------------------------------------------------------


def raising(ctx: Context) -> Any:
    cost = yield ctx.step(price, "book")
    yield ctx.publish(cost=cost)
    raise ValueError("of the code itself")


def repaired(ctx: Context) -> Any:
    cost = yield ctx.step(price, "book")
    yield ctx.step(charge, cost)
    return cost


def test_where_the_code_itself_raised_its_last_answer_is_fed_anew() -> None:
    run = drive(raising, {"1": 5})
    assert cut(run) == Reopened(upto=2, anew=True)
    retried(run, repaired)
    assert run.open == {"2": "step 'charge'"}
    assert run.written[1:] == ["answered 1 5 +2", 'reopened {"upto":2,"anew":true}', 'mark {"taken_up":true} +2']
    assert run.retake().answer("2", 0).result == 5


def test_code_that_is_not_repaired_fails_alike_and_can_be_retried_after() -> None:
    run = retried(drive(raising, {"1": 5}))
    assert str(run.error) == "of the code itself"
    assert str(retried(run).error) == "of the code itself"
    assert retried(run, repaired).answer("2", 0).result == 5
    assert [row.kind for row in run.rows][2:] == [*["reopened", "mark"] * 3, "answered"]


def test_code_that_fails_before_its_first_answer_begins_anew() -> None:
    def early(ctx: Context) -> Any:
        raise ValueError
        yield

    run = retried(drive(early), buying)
    assert run.open == {"1": "step 'price'"}
    assert run.written == ["started", 'reopened {"upto":1,"anew":true}', 'mark {"taken_up":true} +1']


def test_a_composites_answer_is_fed_anew_as_well() -> None:
    def wf(ctx: Context, code: Any = raising) -> Any:
        yield ctx.race(ctx.step(price, "a"), ctx.step(price, "b"))
        if code is raising:
            raise ValueError
        return "well"

    run = drive(wf, {"1.0": 1})
    assert run.written[-1] == "answered 1 0"
    assert retried(run, lambda ctx: wf(ctx, repaired)).result == "well"


def test_a_run_that_blocks_when_it_is_fed_anew_can_be_taken_up_again() -> None:
    def faulty(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        raise TypeError

    run = retried(drive(raising, {"1": 5}), faulty)
    assert isinstance(run.block.error, TypeError)
    assert run.written[-1] == 'reopened {"upto":2,"anew":true}'
    run.reopen(Reopened(upto=len(run.rows), accept=("arguments",)), repaired)
    assert run.answer("2", 0).result == 5


def test_a_run_that_ended_with_no_error_at_all_goes_on_where_it_was() -> None:
    run = drive(buying, {"1": 5})
    assert reopening(run.rows, None) == Reopened(upto=2)
    assert run.reopen(reopening(run.rows, None)).open == {"2": "step 'charge'"}


def test_a_cancelled_run_that_failed_in_its_cleanup_is_still_cancelled() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.signal(GO)
        except Cancelled:
            yield ctx.step(anything, "clean")
            return "cleaned"

    run = retried(drive(wf).cancel("enough").answer("2", Fails(Declined(1))))
    assert run.run.cancel_requested
    assert run.answer("2").result == "cleaned"


def test_a_run_that_is_cut_at_its_cancel_goes_on_as_if_it_had_not_been_cancelled() -> None:
    run = drive(buying, {"1": 5}).cancel("its parent ended").answer("2", CutOff())
    assert isinstance(run.error, Cancelled)
    assert run.rows[2].kind == "cancel"
    run.reopen(Reopened(upto=2))
    assert not run.run.cancel_requested
    assert run.feed({"2": 7, "3": None}).result == (5, 7)


# --- undos ------------------------------------------------------------------------------------------------------------


def undoing(ctx: Context) -> Any:
    for item in "abc":
        ctx.compensate(anything, item)
    yield ctx.step(charge, 1)


def test_a_run_says_whether_its_undos_have_begun() -> None:
    run = drive(undoing)
    assert not undo_began(run.rows)
    run.answer("1", Fails(Declined(1)))
    assert undo_began(run.rows)


def test_one_whose_undos_have_all_run_has_nothing_to_go_on_with() -> None:
    run = drive(undoing, {"1": Fails(Declined(1)), "u1": None, "u2": None, "u3": None})
    with pytest.raises(ValueError, match="undos have run"):
        cut(run)


@pytest.mark.parametrize("failed", [["u1"], ["u2"], ["u3"], ["u1", "u3"], ["u1", "u2", "u3"]])
def test_a_failed_undo_is_asked_for_again_and_no_other_is(failed: list[str]) -> None:
    answers = {position: Fails(ValueError(position)) if position in failed else None for position in ("u1", "u2", "u3")}
    run = drive(undoing, {"1": Fails(Declined(1)), **answers})
    assert isinstance(run.end, UndoFailed)
    assert cut(run) == Reopened(upto=5, skipped=tuple(1 + int(position[1]) for position in failed))
    assert list(retried(run).open) == failed
    assert run.starts[-len(failed) :] == failed
    for position in failed:
        assert run.end is None
        run.retake().answer(position)
    assert isinstance(run.error, Declined)


def test_an_undo_that_fails_again_is_retried_again() -> None:
    run = drive(undoing, {"1": Fails(Declined(1)), "u1": None, "u2": CutOff(), "u3": None})
    retried(run).answer("u2", Fails(ValueError("again")))
    assert isinstance(run.end, UndoFailed)
    assert repr(run.end.undo) == "ValueError('again')"
    assert cut(run) == Reopened(upto=7, skipped=(6,))
    assert isinstance(retried(run).answer("u2").error, Declined)


def test_what_is_taken_back_at_a_position_of_the_workflow_is_no_undo() -> None:
    run = drive(buying, {"1": 5, "2": Fails(Declined(1))})
    block = run.reopen(Reopened(upto=3, skipped=(2,))).block
    assert "the workflow waits for <step 'charge'> there" in block.message


# --- accepted arguments -----------------------------------------------------------------------------------------------


def reworded(ctx: Context) -> Any:
    cost = yield ctx.step(price, "hard cover")
    yield ctx.step(charge, cost + 1)
    yield ctx.sleep(6)


def test_a_block_tells_whether_its_run_differs_in_arguments_alone() -> None:
    run = drive(buying, {"1": 5})
    block = run.retake(reworded).block
    assert differ_in_arguments_alone(block.recorded, block.asked)
    assert not differ_in_arguments_alone(block.recorded, "sleep (0)")
    assert not differ_in_arguments_alone(None, block.asked)


def test_accepted_arguments_are_compared_no_more_before_it_and_always_behind_it() -> None:
    run = drive(buying, {"1": 5})
    assert "with other arguments" in run.retake(reworded).block.message
    run.reopen(Reopened(upto=2, accept=("arguments",)))
    assert run.open == {"2": "step 'charge'"}
    run.answer("2", 7)
    assert run.open == {"3": "sleep"}
    assert accepted_before(run.rows) == 2
    assert run.retake(buying).block.position == "3"


def test_nothing_else_is_accepted_with_them() -> None:
    def renamed(ctx: Context) -> Any:
        yield ctx.step(anything, "book")

    run = drive(buying, {"1": 5})
    assert run.reopen(Reopened(upto=2, accept=("arguments",)), renamed).block.position == "1"


def test_what_has_not_been_reopened_is_fed_as_it_is() -> None:
    run = drive(buying, {"1": 5})
    assert effective(run.rows) == run.rows
    assert accepted_before(run.rows) == 0


@pytest.mark.parametrize("value", [None, "{", '{"upto":"x"}'])
def test_a_row_that_cannot_be_read_blocks(value: str | None) -> None:
    rows = [*drive(buying).rows, Row(1, "reopened", "", START, value)]
    with pytest.raises(DecodingError):
        effective(rows)
    with pytest.raises(Blocked, match="cannot be read"):
        an_interpreter(buying).replay(rows, START)


def test_a_cut_before_everything_leaves_nothing_to_follow() -> None:
    rows = [*drive(buying).rows, Row(1, "reopened", "", START, msgspec.json.encode(Reopened(0, anew=True)).decode())]
    assert effective(rows) == []
