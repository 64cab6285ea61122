"""Steps, sleeps and signals: what they ask for, and what they answer with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

from runnerq.errors import (
    EncodingError,
    SignalPayloadError,
    SignalTimeout,
    StepError,
)
from runnerq.serialization.failures import recorded_failure
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from tests.workflow.driver import RUN_ID, START, Fails, drive
from tests.workflow.steps import GO, Declined, Order, anything, charge, find, pack, price, ship

OTHER = "018f3d5e-7a0c-7c2b-8b7e-ffffffffffff"


# --- steps ------------------------------------------------------------------------------------------------------------


def test_a_step_answers_its_value_to_yield_and_to_yield_from() -> None:
    def wf(ctx: Context) -> Any:
        one = yield ctx.step(price, "book")
        two = yield from ctx.step(price, "pen")
        return one, two

    run = drive(wf, {"1": 10, "2": 2})
    assert run.result == (10, 2)
    assert run.written == ["started +1", "answered 1 10 +2", "answered 2 2"]


def test_an_answer_is_decoded_into_the_annotated_type() -> None:
    def wf(ctx: Context) -> Flow[Order]:
        order = yield from ctx.step(find, "book")
        packed = yield from ctx.step(pack, order)
        return packed[0]

    assert drive(wf, {"1": {"item": "book", "count": 2}, "2": [{"item": "book"}]}).result == Order("book", 1)


def test_without_annotations_an_answer_is_json_builtins() -> None:
    def wf(ctx):
        return (yield ctx.step(anything, 1, key="k"))

    assert drive(wf, {"1": {"a": [1, 2.5, None]}}).result == {"a": [1, 2.5, None]}


def test_each_replay_gets_a_fresh_copy_of_an_answer() -> None:
    def wf(ctx: Context) -> Any:
        values = yield ctx.step(anything)
        values.append("mine")
        more = yield ctx.step(anything)
        return values, more

    assert drive(wf, {"1": [], "2": []}).result == (["mine"], [])


def test_a_step_is_on_record_by_its_declared_name_or_by_the_one_given() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.step(pack, Order("book"))
        yield ctx.options(name="repack").step(pack, Order("book"))
        yield ctx.step(partial(anything, 1))
        yield ctx.options(name="deliver").child(ship, Order("book"))

    asked = drive(wf, {"1": [], "2": [], "3": None}).asks()
    assert [ask.name for ask in asked.values()] == ["pack-it", "repack", "anything", "deliver"]


def test_any_callable_is_a_step_even_one_that_cannot_be_hashed() -> None:
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, item: str) -> int:
            raise AssertionError(item)

    def wf(ctx: Context) -> Any:
        return (yield ctx.step(Unhashable(), "book")), (yield ctx.step(Order("book").__eq__, 1))

    assert drive(wf, {"1": 1, "2": True}).result == (1, True)


def test_a_run_may_call_any_number_of_functions() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.gather([ctx.step(partial(price, number)) for number in range(300)], limit=1)

    assert drive(wf).open == {"1.0": "step 'price'"}


def test_the_digest_tells_arguments_apart_and_is_keyed_by_the_run() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.step(anything, 1)
        yield ctx.step(anything, 1)
        yield ctx.step(anything, 2)
        yield ctx.step(anything, one=1)

    digests = [ask.digest for ask in drive(wf, {"1": 0, "2": 0, "3": 0}).asks().values()]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_a_recorded_failure_is_raised_as_its_own_class() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.step(charge, "book")
        except Declined as declined:
            return declined.code, declined.__notes__, str(declined.__cause__)

    declined = Declined(51)
    declined.add_note("a note")
    declined.__cause__ = ValueError("no money")
    assert drive(wf, {"1": Fails(declined)}).result == (51, ["a note"], "no money")


def test_a_failure_whose_class_is_not_to_be_had_is_a_step_error() -> None:
    class Local(Exception):
        pass

    def wf(ctx: Context) -> Any:
        try:
            yield from ctx.step(charge, "book")
        except StepError as error:
            return error.failure.type, str(error)

    run = drive(wf, {"1": Fails(Local("not here"))})
    assert run.result[0].endswith("Local")
    assert run.result[1] == "not here"


def test_each_failure_is_a_new_instance_that_carries_its_record() -> None:
    given = Declined(1)

    def wf(ctx: Context) -> Any:
        try:
            yield ctx.step(charge, "book")
        except Declined as declined:
            return declined is given, recorded_failure(declined) is not None

    assert drive(wf, {"1": Fails(given)}).result == (False, True)


def test_an_uncaught_failure_ends_the_run_with_it() -> None:
    def wf(ctx: Context) -> Any:
        yield from ctx.step(charge, "book")

    error = drive(wf, {"1": Fails(KeyError("k"))}).error
    assert isinstance(error, KeyError)


def test_an_argument_that_cannot_be_encoded_is_an_error_at_the_users_line() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.step(charge, {"price": {1: object()}})
        except EncodingError as error:
            message = str(error)
        yield ctx.step(charge, 1)
        return message

    run = drive(wf, {"1": 0})
    assert "an argument of <step 'charge'>" in run.result
    assert RUN_ID in run.result
    assert "price" in run.result


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("duration", [90, 90.0, timedelta(seconds=90)])
def test_a_sleep_ends_at_its_deadline_and_not_before(duration: Any) -> None:
    def wf(ctx: Context) -> Any:
        answer = yield from ctx.sleep(duration)
        return answer, ctx.now()

    run = drive(wf)
    assert run.asks()["1"].deadline == START + timedelta(seconds=90)
    assert run.answer("1").result == (None, START + timedelta(seconds=90))


def test_sleeping_until_a_time_takes_any_zone() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.sleep_until(datetime(2026, 1, 2, 2, tzinfo=timezone(timedelta(hours=2))))

    assert drive(wf).asks()["1"].deadline == datetime(2026, 1, 2, tzinfo=UTC)


# --- signals ----------------------------------------------------------------------------------------------------------


def test_a_signal_is_decoded_into_its_channels_type() -> None:
    def wf(ctx: Context) -> Flow[Order]:
        return (yield from ctx.signal(GO))

    assert drive(wf, {"1": {"item": "book"}}).result == Order("book")


def test_a_channel_by_name_answers_json_builtins() -> None:
    def wf(ctx: Context) -> Any:
        return (yield from ctx.signal("go")), (yield from ctx.signal(Signal("untyped")))

    assert drive(wf, {"1": {"item": "book"}, "2": [1]}).result == ({"item": "book"}, [1])


def test_a_signal_that_does_not_come_raises_its_timeout() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield from ctx.signal(GO, timeout=5)
        except SignalTimeout as timeout:
            return timeout.channel

    run = drive(wf)
    assert run.asks()["1"].deadline == START + timedelta(seconds=5)
    assert run.answer("1", Fails(SignalTimeout("go"))).result == "go"


def test_a_signal_that_does_not_come_answers_its_default_if_there_is_one() -> None:
    def wf(ctx: Context) -> Any:
        return (yield from ctx.signal(GO, timeout=timedelta(hours=1), default=None)), (yield ctx.signal(GO))

    run = drive(wf, {"1": Fails(SignalTimeout("go")), "2": Fails(SignalTimeout("go"))})
    assert isinstance(run.error, SignalTimeout)
    assert run.written[1] == "failed 1 SignalTimeout +2"


def test_a_default_stands_for_a_timeout_only() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.signal(GO, timeout=5, default=None))

    assert isinstance(drive(wf, {"1": Fails(SignalPayloadError("go", "Order", "bad"))}).error, SignalPayloadError)


def test_options_given_one_after_the_other_add_up() -> None:
    command = Context().options(timeout=5).options(retry=2).step(len, "abc")
    assert command.options.timeout == 5
    assert command.options.retry is not None
    assert command.options.retry.max_attempts == 2
