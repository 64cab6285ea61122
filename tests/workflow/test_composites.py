"""all, gather and race: what decides them, what becomes of the rest, and in which order that is on record."""

from __future__ import annotations

from typing import Any

import pytest

from runnerq.errors import Cancelled, SignalTimeout, UsageError
from runnerq.workflow.commands import Flow, Winner
from runnerq.workflow.context import Context
from tests.workflow.driver import Fails, drive
from tests.workflow.steps import GO, Declined, Order, anything, charge, find, price, ship


def paying(ctx: Context, item: str) -> Flow[int]:
    """A branch of two steps."""
    cost = yield from ctx.step(price, item)
    yield from ctx.step(charge, item)
    return cost


def tidy(ctx: Context, name: str) -> Any:
    """A branch that cleans up when it is cancelled."""
    try:
        yield ctx.signal(name)
    except Cancelled as cancelled:
        yield ctx.step(anything, "clean", name)
        return str(cancelled)
    return name


# --- all, gather -------------------------------------------------------------------------------------------------------


def test_all_answers_a_tuple_in_the_order_of_its_members() -> None:
    def wf(ctx: Context) -> Flow[Any]:
        return (yield from ctx.all(ctx.step(price, "book"), ctx.step(find, "pen"), ctx.sleep(1)))

    run = drive(wf, {"1.1": {"item": "pen"}, "1.2": None, "1.0": 3})
    assert run.result == (3, Order("pen"), None)
    assert run.written == ["started +1 +1.0 +1.1 +1.2", 'answered 1.1 {"item":"pen"}', "answered 1.2", "answered 1.0 3",
                           "answered 1"]  # fmt: skip


def test_gather_answers_a_list() -> None:
    def wf(ctx: Context) -> Flow[Any]:
        return (yield from ctx.gather(ctx.step(price, item) for item in "abc"))

    assert drive(wf, {"1.2": 3, "1.0": 1, "1.1": 2}).result == [1, 2, 3]


def test_of_nothing_they_answer_at_once() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.all()), (yield ctx.gather([])), (yield ctx.all(ctx.gather([]), ctx.all()))

    assert drive(wf).result == ((), [], ([], ()))


def test_a_race_of_nothing_is_an_error_at_the_users_line() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.race()
        except UsageError as error:
            return str(error)

    assert "race of nothing" in drive(wf).result


def test_the_first_error_decides_and_closes_the_rest_in_order() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.all(*[ctx.step(price, item) for item in "abcd"])
        except Declined as error:
            return error.code

    run = drive(wf, {"1.1": 5, "1.2": Fails(Declined(7))})
    assert run.result == 7
    assert run.written[2:] == ["failed 1.2 Declined", "closed 1.0", "closed 1.3", "failed 1 2"]


def test_errors_can_be_values_so_that_nothing_decides_early() -> None:
    def wf(ctx: Context) -> Any:
        values = yield ctx.gather([ctx.step(price, item) for item in "abc"], return_errors=True)
        return [value.code if isinstance(value, Declined) else value for value in values]

    assert drive(wf, {"1.1": Fails(Declined(7)), "1.0": 1, "1.2": 3}).result == [1, 7, 3]


def test_what_is_no_exception_decides_even_where_errors_are_values() -> None:
    def leaving(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        raise SystemExit(2)

    def wf(ctx: Context) -> Any:
        yield ctx.gather([leaving(ctx), ctx.step(price, "pen")], return_errors=True)

    assert isinstance(drive(wf, {"1.0.1": 1}).error, SystemExit)


def test_a_limit_starts_the_next_member_when_one_has_ended() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.gather([ctx.step(price, item) for item in "abcd"], limit=2))

    run = drive(wf)
    assert list(run.open) == ["1.0", "1.1"]
    assert list(run.answer("1.1", 2).open) == ["1.0", "1.2"]
    assert list(run.answer("1.0", 1).open) == ["1.2", "1.3"]
    assert run.feed({"1.3": 4, "1.2": 3}).result == [1, 2, 3, 4]


def test_what_was_not_started_when_an_error_decides_never_is() -> None:
    def wf(ctx: Context) -> Any:
        rest = [paying(ctx, "a"), paying(ctx, "b"), paying(ctx, "c")]
        try:
            yield ctx.gather(rest, limit=1)
        except Declined:
            return (yield from rest[1])

    run = drive(wf, {"1.0.1": Fails(Declined(1))})
    assert run.open == {"2": "step 'price'"}
    assert run.feed({"2": 5, "3": 1}).result == 5


def test_a_limit_below_one_is_refused() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.gather([ctx.sleep(1)], limit=0)
        except UsageError as error:
            return str(error)

    assert "limit=0" in drive(wf).result


def test_members_that_end_at_once_make_room_without_depth() -> None:
    def at_once(number: int) -> Any:
        return number
        yield

    def wf(ctx: Context) -> Any:
        values = yield ctx.gather((at_once(number) for number in range(3000)), limit=1)
        return sum(values)

    assert drive(wf).result == sum(range(3000))


def test_a_handle_and_a_publish_are_members_that_answer_at_once() -> None:
    def wf(ctx: Context) -> Any:
        handle, nothing, cost = yield ctx.all(
            ctx.spawn(ship, Order("book")), ctx.publish(at="work"), ctx.step(price, "book")
        )
        return handle.id, nothing, cost

    run = drive(wf, {"1.2": 4})
    assert run.result == (run.asks()["1.0"].child, None, 4)
    assert run.published == {"at": "work"}


def test_members_that_all_answer_at_once_answer_together() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.all(ctx.publish(a=1), ctx.publish(b=2)))

    run = drive(wf)
    assert run.result == (None, None)
    assert run.written == ["started +1 +1.0 +1.1", "answered 1"]


# --- race --------------------------------------------------------------------------------------------------------------


def test_a_race_answers_its_first_member_by_index() -> None:
    def wf(ctx: Context) -> Any:
        winner = yield ctx.race(ctx.step(price, "book"), ctx.signal(GO), ctx.sleep(9))
        index, value = winner
        return index, value, winner.value

    run = drive(wf, {"1.1": {"item": "pen"}})
    assert run.result == (1, Order("pen"), Order("pen"))
    assert run.written[1:] == ['answered 1.1 {"item":"pen"}', "closed 1.0", "closed 1.2", "answered 1 1"]


def test_a_race_is_lost_with_its_first_error() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.race(ctx.signal(GO, timeout=1), ctx.step(price, "book"))
        except SignalTimeout as timeout:
            return timeout.channel

    run = drive(wf, {"1.0": Fails(SignalTimeout("go"))})
    assert run.result == "go"
    assert run.written[-1] == "failed 1 0"


def test_a_late_answer_of_a_loser_is_ignored() -> None:
    def wf(ctx: Context) -> Any:
        winner = yield ctx.race(ctx.step(price, "book"), ctx.step(price, "pen"))
        yield ctx.sleep(1)
        return winner.index

    run = drive(wf, {"1.1": 2})
    assert not run.run.answer("1.0", "1", 1, run.at)
    assert run.answer("2").result == 1


def test_a_race_that_is_decided_while_it_starts_starts_no_more() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.race(ctx.step(price, "book"), ctx.publish(won=True), ctx.step(charge, "book")))

    run = drive(wf)
    assert run.result == Winner(1, None)
    assert run.written == ["started +1 +1.0 +1.1", "closed 1.0", "answered 1 1"]


def test_a_losing_child_is_cancelled_and_a_losing_wait_for_one_is_not() -> None:
    def wf(ctx: Context) -> Any:
        handle = yield ctx.spawn(ship, Order("book"))
        yield ctx.race(ctx.child(ship, Order("pen")), handle.result(), ctx.sleep(1))
        yield ctx.sleep(1)

    run = drive(wf, {"2.2": None})
    assert run.cancels == [run.asks()["2.0"].child]
    assert list(run.run.children) == [run.asks()["1"].child]


def test_cancels_of_losing_children_are_sent_again_by_every_replay() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.race(ctx.child(ship, Order("pen")), ctx.sleep(1))
        yield ctx.sleep(1)

    run = drive(wf, {"1.1": None})
    assert len(run.retake().cancels) == 2


def test_losing_waits_and_timers_are_open_no_more() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.race(ctx.signal(GO, timeout=60), ctx.sleep(1), ctx.step(price, "book"))
        yield ctx.signal("other")

    run = drive(wf, {"1.2": 1})
    assert run.open == {"2": "signal 'other'"}
    assert list(run.run.timed()) == []


# --- branches ----------------------------------------------------------------------------------------------------------


def test_branches_are_numbered_by_themselves_whatever_the_order_of_answers() -> None:
    def wf(ctx: Context) -> Flow[Any]:
        return (yield from ctx.all(paying(ctx, "book"), paying(ctx, "pen")))

    one = drive(wf, {"1.0.1": 10, "1.0.2": 0, "1.1.1": 2, "1.1.2": 0})
    other = drive(wf, {"1.1.1": 2, "1.0.1": 10, "1.1.2": 0, "1.0.2": 0})
    assert one.result == other.result == (10, 2)
    assert one.asks() == other.asks()


def test_a_branch_that_ends_at_once_is_a_member_like_any() -> None:
    def at_once() -> Any:
        return "done"
        yield

    def wf(ctx: Context) -> Any:
        return (yield ctx.all(at_once(), ctx.step(price, "book")))

    assert drive(wf, {"1.1": 5}).result == ("done", 5)


def test_an_error_that_leaves_a_branch_decides() -> None:
    def failing(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        raise Declined(9)

    def wf(ctx: Context) -> Any:
        try:
            yield ctx.all(ctx.signal(GO), failing(ctx))
        except Declined as error:
            return error.code

    run = drive(wf, {"1.1.1": 5})
    assert run.result == 9
    assert run.written[1:] == ["answered 1.1.1 5", "closed 1.0", "failed 1 1"]


def test_an_error_of_one_branch_is_no_context_of_the_next_ones() -> None:
    def failing(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        raise Declined(9)

    def looking(ctx: Context) -> Any:
        yield ctx.publish(looks=True)
        try:
            raise ValueError
        except ValueError as error:
            return error.__context__

    def wf(ctx: Context) -> Any:
        values = yield ctx.gather([failing(ctx), looking(ctx)], limit=1, return_errors=True)
        return values[1]

    assert drive(wf, {"1.0.1": 5}).result is None


def test_a_losing_branch_is_cancelled_and_cleans_up_before_the_race_answers() -> None:
    def wf(ctx: Context) -> Any:
        winner = yield ctx.race(tidy(ctx, "a"), ctx.step(price, "book"), tidy(ctx, "b"))
        return winner

    run = drive(wf, {"1.1": 5})
    assert run.open == {"1.0.2": "step 'anything'", "1.2.2": "step 'anything'"}
    assert run.written[1:] == ["answered 1.1 5", "closed 1.0 +1.0.2", "closed 1.2 +1.2.2"]
    run.answer("1.2.2")
    assert run.answer("1.0.2").result == Winner(1, 5)
    assert run.written[-1] == "answered 1 1"


def test_a_losing_branch_that_waits_for_a_step_gets_its_answer_first() -> None:
    seen: dict[str, Any] = {}

    def stepping(ctx: Context) -> Any:
        seen["cost"] = yield ctx.step(price, "book")
        try:
            yield ctx.step(charge, "book")
        except Cancelled as cancelled:
            seen["reason"] = cancelled.reason
            raise

    def wf(ctx: Context) -> Any:
        return (yield ctx.race(stepping(ctx), ctx.sleep(1)))

    run = drive(wf, {"1.1": None})
    assert run.open == {"1.0.1": "step 'price'"}
    assert run.run.cutting == {"1.0.1"}
    assert run.answer("1.0.1", 7).result == Winner(1, None)
    assert seen == {"cost": 7, "reason": "its race or group was decided"}


def test_what_a_losing_branch_returns_or_raises_changes_nothing() -> None:
    def raising(ctx: Context) -> Any:
        try:
            yield ctx.signal(GO)
        finally:
            raise Declined(1)

    def wf(ctx: Context) -> Any:
        return (yield ctx.race(raising(ctx), tidy(ctx, "b"), ctx.sleep(1)))

    assert drive(wf, {"1.2": None, "1.1.2": None}).result == Winner(2, None)


# --- nested ------------------------------------------------------------------------------------------------------------


def test_composites_of_composites_are_numbered_by_path() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.all(ctx.race(ctx.sleep(1), ctx.signal(GO)), ctx.gather([ctx.step(price, "book")])))

    run = drive(wf)
    assert run.written == ["started +1 +1.0 +1.0.0 +1.0.1 +1.1 +1.1.0"]
    assert run.feed({"1.1.0": 4, "1.0.0": None}).result == (Winner(0, None), [4])
    assert run.written[1:] == [
        "answered 1.1.0 4", "answered 1.1", "answered 1.0.0", "closed 1.0.1", "answered 1.0 0", "answered 1",
    ]  # fmt: skip


def test_a_losing_composite_closes_its_members_and_waits_for_branches_only() -> None:
    def wf(ctx: Context) -> Any:
        inner = ctx.all(ctx.step(price, "book"), tidy(ctx, "a"), ctx.race(ctx.sleep(5), ctx.child(ship, Order("pen"))))
        return (yield ctx.race(inner, ctx.sleep(1)))

    run = drive(wf, {"1.1": None})
    assert run.open == {"1.0.1.2": "step 'anything'"}
    assert run.written[1:] == [
        "answered 1.1", "closed 1.0", "closed 1.0.0", "closed 1.0.1 +1.0.1.2", "closed 1.0.2", "closed 1.0.2.0",
        "closed 1.0.2.1",
    ]  # fmt: skip
    assert run.cancels == [run.asks()["1.0.2.1"].child]
    assert run.answer("1.0.1.2").result == Winner(1, None)


def test_a_losing_composite_that_was_decided_itself_finishes_what_it_closes() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.race(ctx.race(ctx.step(price, "book"), tidy(ctx, "a")), ctx.sleep(1)))

    run = drive(wf, {"1.0.0": 5})
    assert run.open == {"1.1": "sleep", "1.0.1.2": "step 'anything'"}
    run.answer("1.1")
    assert run.answer("1.0.1.2").result == Winner(1, None)
    assert run.written[1:] == [
        "answered 1.0.0 5", "closed 1.0.1 +1.0.1.2", "answered 1.1", "closed 1.0",
        "answered 1.0.1.2 null", "answered 1 1",
    ]  # fmt: skip


def test_a_composite_that_is_decided_in_the_same_event_as_the_one_around_it_is_closed() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.race(ctx.all(ctx.publish(a=1)), ctx.publish(b=2)))

    run = drive(wf)
    assert run.result == Winner(1, None)
    assert run.written == ["started +1 +1.0 +1.0.0 +1.1", "answered 1.0", "answered 1 1"]


def test_an_answer_that_was_about_to_come_is_lost_with_its_branch() -> None:
    def deciding(ctx: Context) -> Any:
        yield ctx.all(ctx.publish(a=1))
        try:
            yield ctx.all(ctx.publish(b=2))
        except Cancelled:
            return "cancelled"

    def wf(ctx: Context) -> Any:
        return (yield ctx.race(deciding(ctx), ctx.publish(c=3)))

    run = drive(wf)
    assert run.result == Winner(1, None)
    assert run.written == ["started +1 +1.0.1 +1.0.1.0 +1.1", "answered 1.0.1 +1.0.2 +1.0.2.0", "closed 1.0",
                           "answered 1 1"]  # fmt: skip


def test_branches_may_hold_composites_of_branches() -> None:
    def middle(ctx: Context) -> Any:
        return (yield ctx.all(paying(ctx, "a"), paying(ctx, "b")))

    def wf(ctx: Context) -> Any:
        return (yield ctx.all(middle(ctx), middle(ctx)))

    order = ["1.1.1.0.1", "1.0.1.1.1", "1.1.1.1.1", "1.0.1.0.1", "1.1.1.1.2", "1.1.1.0.2", "1.0.1.0.2", "1.0.1.1.2"]
    run = drive(wf, {position: number for number, position in enumerate(order)})
    assert run.result == ((3, 1), (0, 2))


@pytest.mark.parametrize("order", [["1.0", "1.1"], ["1.1", "1.0"]])
def test_the_winner_is_the_first_in_the_journal_and_stays_it(order: list[str]) -> None:
    def wf(ctx: Context) -> Any:
        first = yield ctx.race(ctx.step(price, "a"), ctx.step(price, "b"))
        yield ctx.sleep(1)
        return first.index

    run = drive(wf, {order[0]: 1})
    assert run.retake().answer("2").result == int(order[0][-1])


def test_a_composite_that_is_decided_while_its_own_end_is_on_the_way_is_closed_once() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.race(ctx.all(ctx.all(ctx.publish(a=1))), ctx.publish(b=2)))

    run = drive(wf)
    assert run.result == Winner(1, None)
    assert run.written == ["started +1 +1.0 +1.0.0 +1.0.0.0 +1.1", "answered 1.0.0", "closed 1.0", "answered 1 1"]
