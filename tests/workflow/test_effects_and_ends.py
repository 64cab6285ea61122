"""Sending, publishing and options; and how a workflow comes to its end."""

from __future__ import annotations

from asyncio import CancelledError
from datetime import timedelta
from typing import Any

import pytest

from runnerq.errors import EncodingError, PayloadTooLarge, RunFinished
from runnerq.serialization.codec import Codec
from runnerq.workflow.context import Context
from runnerq.workflow.ending import Raised, Returned
from tests.workflow.driver import START, Drive, Fails, an_interpreter, drive
from tests.workflow.steps import GO, Declined, Order, charge, price, ship

OTHER = "018f3d5e-7a0c-7c2b-8b7e-ffffffffffff"


# --- sending, publishing ----------------------------------------------------------------------------------------------


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


def test_what_is_published_again_in_replay_never_meets_what_came_later() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.publish(a="x" * 600)
        yield ctx.publish(a="short", b="x" * 600)
        yield ctx.sleep(1)

    run = Drive(wf, codec=Codec(1000))
    again = an_interpreter(wf, codec=run.codec)
    again.state = dict(run.run.state)
    again.replay(run.rows, START)
    assert again.state == run.run.state
    assert list(again.leaves) == ["3"]
    again.close()


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


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_a_workflow_that_returns_before_its_first_yield_ends_at_once() -> None:
    def wf(ctx: Context) -> Any:
        if ctx.info.id:
            return "early"
        yield ctx.sleep(1)

    run = drive(wf)
    assert run.result == "early"
    assert run.written == ["started"]


def test_a_workflow_whose_yield_is_never_reached_ends_at_once() -> None:
    def wf(ctx: Context) -> Any:
        return "done"
        yield ctx.sleep(1)

    run = drive(wf)
    assert run.result == "done"
    assert run.written == ["started"]


def test_a_result_that_cannot_be_stored_fails_the_run_once_with_that_reason() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.sleep(1)
        return {"items": [1, object()]}

    run = drive(wf, {"1": None})
    assert isinstance(run.error, EncodingError)
    assert run.error.path == "['items'][1]"
    assert "the result of workflow 'wf', run" in str(run.error)
    assert run.retake().error.args == run.error.args


def test_a_result_that_is_too_large_fails_the_run() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.sleep(1)
        return "x" * 2000

    assert isinstance(Drive(wf, codec=Codec(1000)).answer("1").error, PayloadTooLarge)


def test_a_result_is_told_with_its_json() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.sleep(1)
        return Order("book")

    end = drive(wf, {"1": None}).end
    assert isinstance(end, Returned)
    assert (end.value, end.text) == (Order("book"), '{"item":"book","count":1}')


def test_a_failure_is_raised_from_its_record_as_a_new_and_equal_exception_each_time() -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.step(charge, 1)
        except Declined as declined:
            new = not hasattr(declined, "marked")
            declined.marked = True  # type: ignore[attr-defined]
            yield ctx.sleep(1)
            return [new, declined.code, declined.__notes__, repr(declined.__cause__)]

    thrown = Declined(7)
    thrown.__cause__ = ValueError("because")
    thrown.add_note("noted")
    # Each event replays all prefixes: a failure that was kept would be marked by then.
    run = drive(wf, {"1": Fails(thrown)}).retake()
    assert run.answer("2").result == [True, 7, ["noted"], "ValueError('because')"]
    assert not hasattr(thrown, "marked")


def test_a_return_and_a_cancel_in_one_turn_are_decided_by_the_order_of_the_journal() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.signal(GO)
        return "returned"

    first_the_answer = Drive(wf)
    first_the_answer.run.answer("1", '{"item":"a"}', Order("a"), START)
    first_the_answer.run.cancel("late", START)
    progress = first_the_answer.run.collect()
    assert [row.kind for row in progress.rows] == ["answered"]
    assert isinstance(progress.end, Returned)

    first_the_cancel = Drive(wf)
    first_the_cancel.run.cancel("first", START)
    assert not first_the_cancel.run.answer("1", '{"item":"a"}', Order("a"), START)
    progress = first_the_cancel.run.collect()
    assert [row.kind for row in progress.rows] == ["cancel"]
    assert isinstance(progress.end, Raised)


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


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, CancelledError, ValueError])
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
