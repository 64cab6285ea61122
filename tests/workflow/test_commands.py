"""Every command: what it asks for, and what it answers with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

from runnerq.errors import (
    ChildCancelled,
    ChildFailed,
    DepthExceeded,
    EncodingError,
    PayloadTooLarge,
    RunFinished,
    SignalPayloadError,
    SignalTimeout,
    StepError,
)
from runnerq.serialization.codec import Codec
from runnerq.serialization.failures import recorded_failure
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import ChildHandle, Context
from runnerq.workflow.declare import workflow
from tests.workflow.driver import RUN_ID, START, Drive, Fails, drive
from tests.workflow.steps import GO, Declined, Order, anything, charge, find, pack, price, ship

OTHER = "018f3d5e-7a0c-7c2b-8b7e-ffffffffffff"


# --- steps -------------------------------------------------------------------------------------------------------------


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
    def wf(ctx):  # noqa: ANN001, ANN202 - a user's workflow without any types
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


# --- time --------------------------------------------------------------------------------------------------------------


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


# --- signals -----------------------------------------------------------------------------------------------------------


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


# --- children ----------------------------------------------------------------------------------------------------------


def test_a_child_is_started_with_an_id_on_record_and_answers_its_result() -> None:
    def wf(ctx: Context) -> Flow[Order]:
        return (yield from ctx.child(ship, Order("book")))

    run = drive(wf)
    assert run.children == [run.asks()["1"].child]
    assert run.leaf("1").command.payload == '[{"item":"book","count":1}]'
    assert run.answer("1", {"item": "pen"}).result == Order("pen")
    assert run.run.children == {}


def test_a_child_that_failed_raises_its_error_as_the_cause() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.child(pack, Order("book"))
        except ChildFailed as failed:
            return failed.status, failed.__cause__

    failed = ChildFailed(OTHER, "pack-it", "failed", "1")
    failed.__cause__ = Declined(1)
    status, cause = drive(wf, {"1": Fails(failed)}).result
    assert status == "failed"
    assert isinstance(cause, Declined)


def test_spawning_answers_a_handle_at_once() -> None:
    def wf(ctx: Context) -> Any:
        handle = yield from ctx.spawn(ship, Order("book"))
        yield handle.send(GO, Order("pen"))
        changed = yield handle.cancel()
        try:
            yield handle.result()
        except ChildCancelled as cancelled:
            return handle.id, changed, cancelled.child_id

    run = drive(wf)
    child = run.asks()["1"].child
    assert run.open == {"2": "send 'go'"}
    assert run.children == [child]
    run.feed({"2": None, "3": True})
    assert run.asks()["4"].child == child
    assert run.answer("4", Fails(ChildCancelled(str(child), "ship"))).result == (child, True, child)


def test_a_spawned_child_stays_open_until_its_result_is_had() -> None:
    def wf(ctx: Context) -> Any:
        handle = yield ctx.spawn(ship, Order("book"))
        yield ctx.sleep(1)
        return (yield handle.result())

    run = drive(wf)
    child = run.asks()["1"].child
    assert list(run.run.children) == [child]
    run.answer("2")
    assert list(run.run.children) == [child]
    run.answer("3", {"item": "book"})
    assert list(run.run.children) == []


def test_a_handle_says_which_child_it_is() -> None:
    def wf(ctx: Context) -> Any:
        handle = yield ctx.spawn(ship, Order("book"))
        return repr(handle)

    run = drive(wf)
    assert run.result == f"ChildHandle('ship', {run.asks()['1'].child!r})"


def test_a_handle_by_id_waits_for_a_child_that_exists() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.handle(OTHER).result())

    run = drive(wf, {"1": {"any": "thing"}})
    assert run.asks()["1"].child == OTHER
    assert run.children == []
    assert run.result == {"any": "thing"}


def test_ids_of_children_differ_by_position() -> None:
    def wf(ctx: Context) -> Any:
        one = yield ctx.spawn(ship, Order("book"))
        two = yield ctx.spawn(ship, Order("book"))
        return one.id, two.id

    one, two = drive(wf).result
    assert one != two


@pytest.mark.parametrize("verb", ["child", "spawn"])
def test_a_child_that_would_lie_too_deep_is_a_recorded_failure(verb: str) -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield getattr(ctx, verb)(ship, Order("book"))
        except DepthExceeded as error:
            return error.child

    run = Drive(wf, may_have_children=False)
    assert run.result == "ship"
    assert run.children == []
    assert run.written == ["started +1", "failed 1 DepthExceeded"]
    assert run.asks()["1"].child is None


def test_what_was_refused_stays_refused_when_the_limit_is_raised() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.child(ship, Order("book"))
        except DepthExceeded:
            yield ctx.step(charge, 1)

    run = Drive(wf, may_have_children=False)
    run.may_have_children = True
    assert run.retake().open == {"2": "step 'charge'"}
    assert run.rows[-1].kind == "failed"


def test_what_was_started_stays_started_when_the_limit_is_lowered() -> None:
    def wf(ctx: Context) -> Any:
        return (yield ctx.child(ship, Order("book")))

    run = Drive(wf)
    run.may_have_children = False
    assert run.retake().answer("1", {"item": "book"}).result == Order("book")


def test_a_child_refused_in_a_race_decides_it() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.race(ctx.sleep(1), ctx.child(ship, Order("book")))
        except DepthExceeded as error:
            return error.child

    run = Drive(wf, may_have_children=False)
    assert run.result == "ship"
    assert run.written == [
        "started +1 +1.0 +1.1", "failed 1.1 DepthExceeded", "closed 1.0", "failed 1 1",
    ]  # fmt: skip


def test_a_workflow_whose_context_is_not_annotated_at_run_time_can_be_a_child() -> None:
    def child(ctx: NotThere, order: Order) -> Flow[Order]:  # type: ignore[name-defined]  # noqa: F821 - on purpose
        yield ctx.sleep(1)
        return order

    workflow(child)

    def wf(ctx: Context) -> Any:
        return (yield ctx.child(child, Order("book")))

    assert drive(wf, {"1": {"item": "pen"}}).result == Order("pen")


# --- sending, publishing -----------------------------------------------------------------------------------------------


def test_a_send_keeps_what_it_sends_and_answers_none() -> None:
    def wf(ctx: Context) -> Any:
        return (yield from ctx.send(OTHER.upper(), GO, Order("book")))

    run = drive(wf)
    leaf = run.leaf("1")
    assert (leaf.command.payload, leaf.command.name) == ('{"item":"book","count":1}', "go")
    assert run.answer("1").result is None


def test_a_send_that_nobody_hears_raises_at_the_yield() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.send(OTHER, "go", 1)
        except RunFinished as finished:
            return finished.run_id

    assert drive(wf, {"1": Fails(RunFinished(OTHER))}).result == OTHER


def test_publishing_answers_at_once_and_merges() -> None:
    def wf(ctx: Context) -> Any:
        first = yield ctx.publish(step="one", items=[Order("book")])
        yield ctx.sleep(1)
        yield from ctx.publish(step="two")
        yield ctx.sleep(1)
        return first

    run = drive(wf)
    assert run.published == {"step": "one", "items": [{"item": "book", "count": 1}]}
    run.answer("2")
    assert run.published == {"step": "two", "items": [{"item": "book", "count": 1}]}
    assert run.run.state == run.published
    assert run.answer("4").result is None


def test_what_was_published_does_not_change_with_the_value() -> None:
    def wf(ctx: Context) -> Any:
        items = [1]
        yield ctx.publish(items=items)
        items.append(2)
        yield ctx.sleep(1)

    assert drive(wf).published == {"items": [1]}


def test_replay_publishes_nothing() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.publish(step="one")
        yield ctx.sleep(1)

    run = drive(wf)
    run.published = None
    run.retake()
    assert run.published is None
    assert run.run.state == {"step": "one"}


def test_a_visible_state_over_the_limit_is_an_error_at_the_users_line() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.publish(a="x" * 600)
        try:
            yield ctx.all(ctx.publish(b="x" * 300), ctx.publish(c="x" * 300))
        except PayloadTooLarge as error:
            message = str(error)
        yield ctx.publish(a="short", b="x" * 300)
        return message

    run = Drive(wf, codec=Codec(1000))
    assert "the published state of run" in run.result
    assert run.published == {"a": "short", "b": "x" * 300}


def test_options_are_for_the_next_call() -> None:
    def wf(ctx: Context) -> Any:
        patient = ctx.options(timeout=timedelta(minutes=1), retry=2, key="k", delay=5, priority=1, queue="slow")
        yield patient.child(ship, Order("book"))
        yield ctx.child(ship, Order("book"))

    run = drive(wf)
    options = run.leaf("1").command.options
    assert (options.timeout, options.key, options.delay, options.priority, options.queue) == (60.0, "k", 5.0, 1, "slow")
    assert options.retry is not None
    assert options.retry.max_attempts == 2
    run.answer("1", {"item": "book"})
    assert run.leaf("2").command.options.retry is None


# --- the rest ----------------------------------------------------------------------------------------------------------


def test_a_workflow_that_returns_before_its_first_yield_ends_at_once() -> None:
    def wf(ctx: Context) -> Any:
        if ctx.info.id:
            return "early"
        yield ctx.sleep(1)

    run = drive(wf)
    assert run.result == "early"
    assert run.written == ["started"]


def test_an_answer_for_what_is_not_waited_for_is_ignored_and_counted() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.step(price, "book")

    run = drive(wf)
    assert not run.run.answer("9", "1", 1, START)
    assert not run.run.fail("9", "{}", START)
    assert not run.run.interrupt("9", START)
    run.answer("1", 1)
    assert not run.run.answer("1", "1", 1, START)
    assert run.run.late == 4
    assert run.written == ["started +1", "answered 1 1"]


def test_only_a_generators_own_stop_means_that_it_is_done() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.sleep(1)
        next(iter(()))

    error = drive(wf, {"1": None}).error
    assert isinstance(error, RuntimeError)
    assert "StopIteration" in str(error)


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, ValueError])
def test_what_is_raised_ends_the_run_and_nothing_else(error: type[BaseException]) -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.sleep(1)
        raise error(3)

    assert type(drive(wf, {"1": None}).error) is error


def test_a_step_that_failed_with_stop_iteration_fails_the_run() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.step(charge, 1)
        return "not reached"

    assert isinstance(drive(wf, {"1": Fails(StopIteration(5))}).error, RuntimeError)


def test_ctrl_c_in_user_code_passes_through_and_writes_nothing() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.sleep(1)
        raise KeyboardInterrupt

    run = drive(wf)
    with pytest.raises(KeyboardInterrupt):
        run.answer("1")
    assert run.run.collect().rows == ()
    assert run.retake(lambda ctx: (yield ctx.sleep(1))).open == {"1": "sleep"}


def test_ctrl_c_while_the_function_is_called_passes_through() -> None:
    def wf(ctx: Context) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(wf)


def test_a_wrapper_that_returns_the_generator_is_a_workflow() -> None:
    def inner(ctx: Context) -> Any:
        return (yield ctx.step(price, "book"))

    def wf(ctx: Context) -> Any:
        return inner(ctx)

    assert drive(wf, {"1": 5}).result == 5


def test_a_wrapper_that_raises_ends_the_run() -> None:
    def wf(ctx: Context) -> Any:
        raise ValueError("never started")

    assert str(drive(wf).error) == "never started"

