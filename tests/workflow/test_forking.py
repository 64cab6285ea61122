"""Forks: another run goes on from before an entry was answered, with children of its own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from runnerq.errors import Cancelled
from runnerq.workflow.context import Context
from runnerq.workflow.forking import before_answer, forked, open_children
from runnerq.workflow.journal import RULES, Reopened, Row, Started
from tests.workflow.driver import START, Body, Drive, Fails, an_info, an_interpreter, drive
from tests.workflow.steps import GO, Declined, Order, anything, charge, price, ship

FORK_ID = "018f3d5e-7a0c-7c2b-8b7e-000000000001"
NEW = "018f3d5e-7a0c-7c2b-8b7e-000000000002"
NOW = START + timedelta(days=9)
ACCEPTING = 'reopened {"upto":1,"accept":["arguments"]}'
ACCEPTING_2 = 'reopened {"upto":2,"accept":["arguments"]}'


def fork(run: Drive, position: str, code: Body | None = None) -> Drive:
    """The run that goes on from before this entry's answer."""
    rows = before_answer(run.rows, position)
    again = dict.fromkeys(open_children(rows), NEW)
    return begun(forked(rows, again, NOW), code or run.code, run.args)


def begun(rows: tuple[Row, ...], code: Body, args: tuple[Any, ...] = ()) -> Drive:
    run = Drive(code, *args)
    run.info = an_info(id=FORK_ID, root_id=FORK_ID)
    run.rows, run.children, run.at = list(rows), [], NOW
    return run.retake()


def buying(ctx: Context) -> Any:
    cost = yield ctx.step(price, "book")
    yield ctx.publish(cost=cost)
    paid = yield ctx.step(charge, cost)
    yield ctx.sleep(5)
    return cost, paid, str(ctx.uuid())


# --- where ------------------------------------------------------------------------------------------------------------


def test_a_fork_has_the_answers_before_its_entry_and_goes_on_from_there() -> None:
    run = drive(buying, {"1": 5, "3": 6, "4": None})
    forked_run = fork(run, "3")
    assert forked_run.open == {"3": "step 'charge'"}
    assert forked_run.run.state == {"cost": 5}
    cost, paid, drawn = forked_run.feed({"3": 7, "4": None}).result
    assert (cost, paid) == (5, 7)
    assert drawn == run.result[2], "the seed stays"


def test_from_its_first_entry_it_begins_anew() -> None:
    run = fork(drive(buying, {"1": 5, "3": 6}), "1")
    assert run.open == {"1": "step 'price'"}
    assert run.written == ["started +1", ACCEPTING]


def test_from_an_entry_that_is_not_answered_it_has_everything() -> None:
    run = fork(drive(buying, {"1": 5, "3": 6}), "4")
    assert run.open == {"4": "sleep"}


@pytest.mark.parametrize("position", ["9", "", "1.0", "x"])
def test_an_unknown_position_is_a_value_error(position: str) -> None:
    with pytest.raises(ValueError, match="no entry"):
        before_answer(drive(buying, {"1": 5}).rows, position)
    with pytest.raises(ValueError, match="no entry"):
        before_answer((), position)


def test_an_undo_is_no_place_to_fork_from() -> None:
    def wf(ctx: Context) -> Any:
        ctx.compensate(anything, 1)
        yield ctx.step(charge, 1)

    run = drive(wf, {"1": Fails(Declined(1)), "u1": None})
    with pytest.raises(ValueError, match="is an undo"):
        before_answer(run.rows, "u1")
    assert fork(run, "1").answer("1", 5).result is None


def test_from_what_is_answered_by_being_asked_it_is_asked_anew() -> None:
    def changed(ctx: Context) -> Any:
        cost = yield ctx.step(price, "book")
        yield ctx.publish(price=cost)
        yield ctx.sleep(1)

    run = fork(drive(buying, {"1": 5, "3": 6}), "2", changed)
    assert run.run.state == {"price": 5}
    assert run.open == {"3": "sleep"}
    assert run.written[1:] == ["answered 1 5 nothing kept", ACCEPTING_2, 'mark {"taken_up":true} +2 +3']


def test_an_empty_composite_and_a_patch_are_asked_anew_too() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.sleep(1)
        yield ctx.all()
        if ctx.patched("x"):
            yield ctx.sleep(2)

    run = drive(wf, {"1": None})
    for position in ("2", "2+1"):
        anew = ["answered 1 nothing kept", ACCEPTING_2, 'mark {"taken_up":true} +2 +2+1 +3']
        assert fork(run, position).written[1:] == anew


def test_what_was_asked_on_a_row_fed_anew_is_asked_anew_again() -> None:
    def faulty(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        raise TypeError

    run = drive(faulty, {"1": 5}).retake(buying).answer("3", 6)
    assert [row.kind for row in run.rows] == ["started", "answered", "mark", "answered"]
    again = fork(run, "2")
    assert again.open == {"3": "step 'charge'"}
    assert [row.kind for row in again.rows] == ["started", "answered", "reopened", "mark"]


def test_a_composite_is_answered_again_by_what_its_members_answered() -> None:
    def wf(ctx: Context) -> Any:
        winner = yield ctx.race(ctx.step(price, "a"), ctx.step(price, "b"))
        yield ctx.sleep(5)
        return winner.index

    run = drive(wf, {"1.1": 5})
    again = ["answered 1.1 5", "closed 1.0", 'reopened {"upto":3,"accept":["arguments"]}', "answered 1 1 +2"]
    assert fork(run, "1").written[1:] == again
    assert fork(run, "1.1").open == {"1.0": "step 'price'", "1.1": "step 'price'"}
    assert fork(run, "1.1").feed({"1.0": 4, "2": None}).result == 0


def test_a_wait_that_a_cancel_ended_is_open_before_the_cancel() -> None:
    def wf(ctx: Context) -> Any:
        try:
            return (yield ctx.signal(GO))
        except Cancelled:
            yield ctx.step(anything, "clean")
            return "cleaned"

    run = fork(drive(wf).cancel("enough").answer("2"), "1")
    assert run.open == {"1": "signal 'go'"}
    assert not run.run.cancel_requested
    assert run.answer("1", {"item": "pen"}).result == Order("pen")


def test_a_step_that_a_cancel_waited_for_is_answered_behind_it() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.step(price, 1)

    run = fork(drive(wf).cancel().answer("1", 5), "1")
    assert run.run.cancel_requested
    assert run.run.cutting == {"1"}


# --- what it is -------------------------------------------------------------------------------------------------------


def test_it_is_a_run_with_a_beginning_of_its_own() -> None:
    run = fork(drive(buying, {"1": 5, "3": 6}), "3")
    started = msgspec.json.decode(run.rows[0].value or "", type=Started)
    assert (started.seed, started.began_at) == ("seed", NOW)
    assert run.run.began_at == NOW
    assert run.run.run_id == FORK_ID


def test_a_fork_of_a_fork_goes_on_alike() -> None:
    first = fork(drive(buying, {"1": 5}), "3").answer("3", 6)
    assert fork(first, "3").open == {"3": "step 'charge'"}
    assert fork(first, "4").open == {"4": "sleep"}


def test_a_fork_of_older_rules_is_of_todays_as_older_code_would_misread_it() -> None:
    rows = [*drive(buying).rows]
    value = '{"seed":"seed","build":"b","rules":1,"version":1,"arguments":null}'
    rows[0] = msgspec.structs.replace(rows[0], value=value)
    [row, _] = forked(rows, {}, NOW)
    assert msgspec.json.decode(row.value or "", type=Started).rules == RULES


def test_what_was_asked_with_the_originals_id_is_followed_and_what_comes_has_the_forks() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.step(anything, ctx.info.id)
        yield ctx.step(price, 1)
        yield ctx.step(anything, ctx.info.id)

    run = fork(drive(wf, {"1": None}), "2").answer("2", 5)
    assert run.leaf("3").command.args == (FORK_ID,)
    assert run.retake().open == {"3": "step 'anything'"}


def test_other_code_still_has_to_follow_its_rows() -> None:
    def changed(ctx: Context) -> Any:
        yield ctx.step(charge, "book")

    def changed_behind(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        yield ctx.publish(cost=5)
        yield ctx.step(charge, 5)
        yield ctx.sleep(6)

    assert fork(drive(buying, {"1": 5}), "3", changed).block.position == "1"
    assert fork(drive(buying, {"1": 5}), "3").answer("3", 6).retake(changed_behind).block.position == "4"


def test_a_fork_of_a_later_generation_has_its_arguments() -> None:
    def wf(ctx: Context, done: int = 0) -> Any:
        yield ctx.step(price, done)
        if not done:
            ctx.continue_as_new(1)
        yield ctx.step(charge, done)
        return done

    run = drive(wf, {"1": 5}).renew().answer("1", 6)
    assert fork(run, "2").answer("2", 1).result == 1


def test_what_was_reopened_before_the_entry_stays_so() -> None:
    run = drive(buying, {"1": 5, "3": Fails(Declined(1))})
    run.reopen(Reopened(upto=2)).answer("3", 6)
    again = fork(run, "4")
    assert again.open == {"4": "sleep"}
    assert fork(run, "3").open == {"3": "step 'charge'"}


def test_arguments_that_were_accepted_later_are_accepted_in_the_fork() -> None:
    def changed(ctx: Context) -> Any:
        yield ctx.step(price, "pen")
        yield ctx.step(charge, 1)
        yield ctx.sleep(1)

    run = drive(plain, {"1": 5}).reopen(Reopened(upto=2, accept=("arguments",)), changed).answer("2", 6)
    assert fork(run, "1").open == {"1": "step 'price'"}
    assert fork(run, "2").open == {"2": "step 'charge'"}


def plain(ctx: Context) -> Any:
    yield ctx.step(price, "book")
    yield ctx.step(charge, 1)


# --- children ---------------------------------------------------------------------------------------------------------


def parent(ctx: Context) -> Any:
    handle = yield ctx.spawn(ship, Order("spawned"))
    yield ctx.step(anything, handle.id)
    one = yield ctx.child(ship, Order("awaited"))
    two = yield handle.result()
    return one.item, two.item


def test_children_that_were_open_are_known_by_id_with_their_positions() -> None:
    run = drive(parent)
    spawned, awaited = run.asks()["1"].child, None
    assert open_children(run.rows) == {spawned: "1"}
    awaited = run.answer("2").asks()["3"].child
    assert open_children(run.rows) == {spawned: "1", awaited: "3"}
    run.answer("3", {"item": "a"})
    assert open_children(run.rows) == {spawned: "1"}
    run.answer("4", {"item": "b"})
    assert open_children(run.rows) == {}


def test_open_children_are_new_ones_in_the_fork_and_what_took_their_ids_is_followed() -> None:
    run = drive(parent, {"2": None, "3": {"item": "a"}})
    again = fork(run, "4")
    assert list(again.run.children) == [NEW]
    assert again.leaf("4").asked.child == NEW
    assert again.children == [], "whoever forks starts them"
    assert again.answer("4", {"item": "b"}).result == ("a", "b")


def test_children_that_had_ended_stay_what_they_are() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.child(ship, Order("a"))
        yield ctx.sleep(1)

    run = drive(wf, {"1": {"item": "a"}})
    rows = before_answer(run.rows, "2")
    assert open_children(rows) == {}
    assert forked(rows, {}, NOW)[1:-1] == rows[1:]


def test_children_that_lost_a_race_or_were_never_this_runs_are_not_open() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.race(ctx.child(ship, Order("a")), ctx.sleep(1))
        yield ctx.race(ctx.handle(FORK_ID).result(), ctx.sleep(1))
        yield ctx.sleep(1)

    run = drive(wf, {"1.1": None})
    assert open_children(run.rows) == {}
    assert open_children(run.answer("2.1").rows) == {}


def test_a_wait_for_a_spawned_child_that_lost_leaves_the_child_open() -> None:
    def wf(ctx: Context) -> Any:
        handle = yield ctx.spawn(ship, Order("a"))
        yield ctx.race(handle.result(), ctx.sleep(1))
        yield ctx.sleep(1)

    run = drive(wf, {"2.1": None})
    assert list(open_children(run.rows).values()) == ["1"]


def test_a_child_that_was_refused_has_no_id() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.child(ship, Order("a"))

    assert open_children(Drive(wf, may_have_children=False).rows) == {}


def test_a_child_that_failed_is_open_no_more() -> None:
    run = drive(parent, {"2": None, "3": Fails(Declined(1))})
    assert list(open_children(run.rows).values()) == ["1"]


def test_a_fork_that_asks_anew_starts_its_children_itself() -> None:
    run = drive(parent)
    again = fork(run, "1")
    assert again.run.children.keys() == set(again.children)
    assert again.children[0] not in (*run.children, NEW)


def test_the_original_code_runs_a_fork_that_was_never_begun_by_hand() -> None:
    run = an_interpreter(parent, info=an_info(id=FORK_ID))
    rows = forked(before_answer(drive(parent).rows, "2"), {}, NOW)
    run.replay(rows, NOW)
    assert list(run.leaves) == ["2"]
    run.close()
