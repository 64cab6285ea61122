"""Time, chance and the log: the same in every replay, and tied to the place where they are asked for."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from runnerq.workflow.context import Context
from runnerq.workflow.ending import Returned
from runnerq.workflow.journal import Started
from tests.workflow.driver import RUN_ID, START, an_interpreter, drive
from tests.workflow.steps import GO, price


def test_now_is_the_time_of_the_last_answer() -> None:
    def wf(ctx: Context) -> Any:
        times = [ctx.now()]
        yield ctx.step(price, "book")
        times.append(ctx.now())
        yield ctx.publish(a=1)
        times.append(ctx.now())
        yield ctx.sleep(60)
        times.append(ctx.now())
        return [(time - START).total_seconds() for time in times]

    assert drive(wf, {"1": 5, "3": None}).result == [0, 1, 1, 61]


def test_time_never_goes_back() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.step(price, "book")
        one = ctx.now()
        yield ctx.step(price, "pen")
        return ctx.now() >= one

    run = an_interpreter(wf)
    run.begin(Started(seed="s", build="b"), START)
    run.answer("1", "1", 1, START + timedelta(seconds=9))
    run.answer("2", "2", 2, START + timedelta(seconds=3))
    times = [row.at for row in run.collect().rows]
    assert times == [START, START + timedelta(seconds=9), START + timedelta(seconds=9)]
    run.close()


def test_uuids_differ_and_are_the_same_in_replay() -> None:
    def wf(ctx: Context) -> Any:
        one = [ctx.uuid(), ctx.uuid()]
        yield ctx.sleep(1)
        return [*one, ctx.uuid()]

    uuids = drive(wf, {"1": None}).retake().result
    assert len(set(uuids)) == 3
    assert all(isinstance(uuid, UUID) and uuid.version == 4 for uuid in uuids)


def test_an_inserted_call_shifts_nothing_after_the_next_command() -> None:
    def wf(ctx: Context, extra: bool = False) -> Any:
        before = ctx.uuid()
        if extra:
            ctx.uuid()
            ctx.random.random()
        first = ctx.random.random()
        yield ctx.sleep(1)
        return before, first, ctx.uuid(), ctx.random.random()

    plain = drive(wf, {"1": None}).result
    inserted = drive(lambda ctx: wf(ctx, True), {"1": None}).result
    assert plain[0] == inserted[0]
    assert plain[1] != inserted[1]
    assert plain[2:] == inserted[2:]


def test_branches_draw_by_themselves_whatever_the_order_of_answers() -> None:
    def branch(ctx: Context) -> Any:
        one = ctx.uuid()
        yield ctx.step(price, "book")
        return one, ctx.uuid(), ctx.random.random()

    def wf(ctx: Context) -> Any:
        drawn = yield ctx.all(branch(ctx), branch(ctx))
        return [*drawn, (ctx.uuid(), ctx.uuid(), ctx.random.random())]

    one = drive(wf, {"1.0.1": 1, "1.1.1": 2}).result
    assert one == drive(wf, {"1.1.1": 2, "1.0.1": 1}).result
    assert len({value for drawn in one for value in drawn}) == 9


def test_dice_go_on_rolling_until_the_next_command() -> None:
    def wf(ctx: Context) -> Any:
        dice = ctx.random
        same = dice is ctx.random
        rolls = [ctx.random.random(), ctx.random.random()]
        yield ctx.sleep(1)
        return same, dice is ctx.random, rolls[0] != rolls[1]

    assert drive(wf, {"1": None}).result == (True, False, True)


def test_runs_draw_by_their_seed() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.publish(uuid=str(ctx.uuid()))

    drawn = []
    for seed in ("a", "b", "a"):
        run = an_interpreter(wf)
        run.begin(Started(seed=seed, build="b"), START)
        drawn.append(run.collect().published)
        run.close()
    assert drawn[0] == drawn[2] != drawn[1]


def test_what_a_wrapper_draws_before_the_generator_exists_is_not_drawn_again() -> None:
    def inner(ctx: Context, drawn: UUID) -> Any:
        mine = ctx.uuid()
        yield ctx.sleep(1)
        return drawn, mine

    def wf(ctx: Context) -> Any:
        return inner(ctx, ctx.uuid())

    drawn, mine = drive(wf, {"1": None}).result
    assert drawn != mine


def test_what_a_workflow_sets_in_a_contextvar_is_gone_after_a_yield() -> None:
    var: ContextVar[str] = ContextVar("var", default="nothing")
    var.set("the worker's")

    def branch(ctx: Context) -> Any:
        before = var.get()
        var.set("the branch's")
        yield ctx.step(price, "book")
        return before, var.get()

    def wf(ctx: Context) -> Any:
        var.set("the workflow's")
        first = var.get()
        [in_branch] = yield ctx.all(branch(ctx))
        return first, var.get(), in_branch

    run = an_interpreter(wf)
    run.begin(Started(seed="s", build="b"), START)
    var.set("somebody else's")
    run.answer("1.0.1", "1", 1, START)
    assert isinstance(run.end, Returned)
    assert run.end.value == ("the workflow's", "the worker's", ("the worker's", "the worker's"))
    assert var.get() == "somebody else's"
    run.close()


def test_the_log_is_silent_in_replay(caplog: pytest.LogCaptureFixture) -> None:
    def wf(ctx: Context) -> Any:
        ctx.log.warning("one", extra={"mine": 1})
        yield ctx.sleep(1)
        ctx.log.warning("two")
        yield ctx.sleep(1)

    run = an_interpreter(wf)
    run.begin(Started(seed="s", build="b"), START)
    run.answer("1", None, None, START)
    assert [record.message for record in caplog.records] == ["one", "two"]
    assert [getattr(caplog.records[0], name) for name in ("run_id", "workflow", "mine")] == [RUN_ID, "wf", 1]
    rows = run.collect().rows
    run.close()
    caplog.clear()

    again = an_interpreter(wf)
    again.replay(rows[:1], START)
    again.answer("1", None, None, START)
    again.close()
    assert [record.message for record in caplog.records] == ["two"]


def test_replaying_is_true_until_every_recorded_row_has_been_fed() -> None:
    seen: list[bool] = []

    def branch(ctx: Context, channel: str) -> Any:
        yield ctx.signal(channel)
        seen.append(ctx.replaying)
        yield ctx.sleep(1)

    def wf(ctx: Context) -> Any:
        seen.append(ctx.replaying)
        yield ctx.all(branch(ctx, "a"), branch(ctx, "b"))
        seen.append(ctx.replaying)

    run = an_interpreter(wf)
    run.begin(Started(seed="s", build="b"), START)
    run.answer("1.1.1", "1", 1, START)
    rows = run.collect().rows
    run.close()
    assert seen == [False, False]
    seen.clear()

    again = an_interpreter(wf)
    again.replay(rows, START)
    assert seen == [True, True]
    for position in ("1.0.1", "1.0.2", "1.1.2"):
        again.answer(position, "1", 1, START)
    assert seen == [True, True, False, False]
    again.close()


def test_a_logger_below_its_level_stays_silent(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "runnerq.workflow"):
        Context().log.warning("not heard")
        Context().log.error("heard")
    assert [record.message for record in caplog.records] == ["heard"]


def test_a_run_knows_what_it_is() -> None:
    def wf(ctx: Context) -> Any:
        first = ctx.info.entries
        yield ctx.signal(GO)
        return ctx.info.id, ctx.info.workflow, ctx.info.generation, first, ctx.info.entries

    assert drive(wf, {"1": {"item": "a"}}).result == (RUN_ID, "wf", 1, 0, 1)
