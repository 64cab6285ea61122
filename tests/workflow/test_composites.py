"""all, gather and race: what decides them, what becomes of the rest, and in which order that is on record."""

from __future__ import annotations

from typing import Any

from runnerq.errors import SignalTimeout, UsageError
from runnerq.workflow.commands import Flow, Winner
from runnerq.workflow.context import Context
from tests.workflow.driver import Fails, drive
from tests.workflow.steps import GO, Declined, Order, charge, find, paying, price, ship

# --- all, gather ------------------------------------------------------------------------------------------------------


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


# --- race -------------------------------------------------------------------------------------------------------------


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
