"""How runs begin and end in the corners: before the first yield, in one turn with a cancel, with mail unread."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from runnerq.errors import Cancelled, ChildFailed, NonRetryableError, RunCancelled, RunFailed, RunFinished
from runnerq.persistence.records import End, Status
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Holding, Stage
from tests.workflow.driver import drive
from tests.workflow.steps import price

WORDS: Signal[str] = Signal("words", str)


@activity
async def note(what: str) -> str:
    return what


@workflow
def listens(ctx: Context) -> Flow[str]:
    return (yield from ctx.signal(WORDS))


# --- before the first yield -------------------------------------------------------------------------------------------


async def test_a_workflow_whose_yield_is_never_reached_completes(stage: Stage) -> None:
    @workflow
    def unreachable(ctx: Context) -> Flow[str]:
        return "at once"
        yield ctx.sleep(1)  # type: ignore[unreachable]  # what makes it a generator function

    async with stage.serving(unreachable) as client:
        run = await client.start(unreachable)
        assert await run.result(timeout=SOON) == "at once"
        assert [entry.kind for entry in await run.history()] == ["started"]


# --- return and cancel ------------------------------------------------------------------------------------------------


def waits_then_returns(ctx: Context) -> Any:
    yield ctx.step(price, "book")
    return "done"


def test_an_answer_before_the_cancel_completes_the_run() -> None:
    run = drive(waits_then_returns, {"1": 5}).cancel("too late")
    assert run.result == "done"
    assert run.retake().result == "done"


def test_a_cancel_before_the_answer_of_a_wait_ends_the_run() -> None:
    def wf(ctx: Context) -> Any:
        yield ctx.signal(WORDS)
        return "done"

    run = drive(wf).cancel("in time")
    assert str(run.error) == "in time"
    assert not run.run.answer("1", '"late"', "late", run.at)
    assert run.written[-1] == 'cancel "in time"'


async def test_a_cancel_that_comes_while_the_end_is_written_is_marked_on_the_completed_run(plain_stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.step(note, "done"))

    holding = Holding(plain_stage.storage, lambda turn: isinstance(turn.move, End))
    async with plain_stage.on(holding).serving(order) as client:
        run = await client.start(order)
        await holding.gate.somebody()
        assert await run.cancel("too late")
        holding.gate.open()
        assert await run.result(timeout=SOON) == "done"
        assert (await run.info()).cancel_requested


async def test_a_run_whose_cancel_was_taken_in_ends_as_cancelled_though_its_end_was_near(plain_stage: Stage) -> None:
    async with plain_stage.serving(listens) as client:
        run = await client.start(listens)
        await run.reached(Status.WAITING, timeout=SOON)
        assert await run.cancel("first")
        with pytest.raises(RunCancelled):
            await run.result(timeout=SOON)
        with pytest.raises(RunFinished):
            await run.send(WORDS, "second")


async def test_a_cancelled_run_that_raises_something_else_in_its_cleanup_fails_and_is_marked(
    plain_stage: Stage,
) -> None:
    @workflow
    def stumbles(ctx: Context) -> Flow[str]:
        try:
            return (yield from ctx.signal(WORDS))
        except Cancelled:
            yield from ctx.step(note, "tidying up")
            raise ValueError("in the cleanup") from None

    async with plain_stage.serving(stumbles) as client:
        run = await client.start(stumbles)
        await run.reached(Status.WAITING, timeout=SOON)
        assert await run.cancel("stop")
        with pytest.raises(RunFailed, match="in the cleanup"):
            await run.result(timeout=SOON)
        assert (await run.info()).cancel_requested


async def test_a_cancel_of_a_child_that_has_ended_changes_nothing(stage: Stage) -> None:
    @workflow
    def parent(ctx: Context) -> Flow[list[Any]]:
        child = yield from ctx.spawn(note, "done")
        first = yield from child.result()
        cancelled = yield from child.cancel()
        return [first, cancelled, (yield from child.result())]

    assert await stage.answer(parent, serving=[note]) == ["done", False, "done"]


# --- how a child's end becomes its parent's ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status"),
    [(ValueError("down"), "dead_letter"), (NonRetryableError("no"), "failed")],
    ids=["used up", "refused"],
)
async def test_a_parent_ends_as_its_child_did_if_it_does_not_catch_its_failure(
    plain_stage: Stage, error: Exception, status: str
) -> None:
    @activity(retry=1)
    async def fails() -> None:
        raise error

    @workflow
    def child(ctx: Context) -> Flow[None]:
        yield from ctx.step(fails)

    @workflow
    def parent(ctx: Context) -> Flow[None]:
        yield from ctx.child(child)

    async with plain_stage.serving(parent, child) as client:
        run = await client.start(parent)
        with pytest.raises(RunFailed) as failed:
            await run.result(timeout=SOON)
    assert failed.value.status == status
    assert isinstance(failed.value.__cause__, ChildFailed)


# --- what is left over ------------------------------------------------------------------------------------------------


async def test_a_signal_that_comes_in_the_instant_of_the_end_is_kept_and_read_once_the_run_is_retried(
    plain_stage: Stage,
) -> None:
    down = [True]

    @activity(retry=1)
    async def answers() -> None:
        if down:
            raise NonRetryableError("down")

    @workflow
    def order(ctx: Context) -> Flow[str]:
        yield from ctx.step(answers)
        return (yield from ctx.signal(WORDS))

    holding = Holding(plain_stage.storage, lambda turn: isinstance(turn.move, End))
    async with plain_stage.on(holding).serving(order) as client:
        run = await client.start(order)
        await holding.gate.somebody()
        await run.send(WORDS, "kept")
        holding.gate.open()
        with pytest.raises(RunFailed):
            await run.result(timeout=SOON)
        with pytest.raises(RunFinished):
            await run.send(WORDS, "refused")
        down.clear()
        assert await client.retry(run.id)
        assert await run.result(timeout=SOON) == "kept"


async def test_a_command_that_was_never_yielded_is_told_with_its_line_when_the_run_ends(
    memory: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    @workflow
    def forgetful(ctx: Context) -> Flow[str]:
        ctx.step(note, "forgotten")
        return (yield from ctx.step(note, "asked for"))

    assert await memory.answer(forgetful) == "asked for"
    [told] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    line = forgetful.__code__.co_firstlineno + 2
    assert told.endswith(f"<step 'note'> was made at {__file__}:{line} and never yielded: it did nothing")


# --- commands from elsewhere ------------------------------------------------------------------------------------------

KEPT: list[Any] = []


@pytest.mark.parametrize("kept_in", ["a module global", "a closure"])
async def test_a_command_that_another_run_made_is_refused_at_the_line_that_yields_it(
    memory: Stage, kept_in: str
) -> None:
    closed_over: list[Any] = []
    place = KEPT if kept_in == "a module global" else closed_over
    KEPT.clear()

    @workflow
    def lends(ctx: Context) -> Flow[str]:
        place.append(ctx.step(note, "lent"))
        return (yield from ctx.signal(WORDS))

    @workflow
    def borrows(ctx: Context) -> Flow[str]:
        try:
            yield place[0]
        except Exception as error:
            yield ctx.sleep(0)
            return f"{type(error).__name__}: {error}"
        return "taken"

    async with memory.serving(lends, borrows) as client:
        lender = await client.start(lends)
        await lender.reached(Status.WAITING, timeout=SOON)
        told = await (await client.start(borrows)).result(timeout=SOON)
    assert told.startswith("UsageError")
    assert "belongs to another run's context" in told


# --- races ------------------------------------------------------------------------------------------------------------


async def test_of_two_that_have_both_come_the_same_one_wins_a_race_in_every_replay(stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[list[int]]:
        winners: list[int] = []
        for number in range(3):
            won = yield from ctx.race(ctx.signal(f"a{number}"), ctx.signal(f"b{number}"))
            winners.append(won.index)
            yield from ctx.sleep(0.001)
        return winners

    run = await stage.client.start(order)
    for channel in ("b0", "a0", "a1", "b1", "b2", "a2"):
        await run.send(channel, None)
    async with stage.serving(order):
        assert await run.result(timeout=SOON) == [1, 0, 1]
