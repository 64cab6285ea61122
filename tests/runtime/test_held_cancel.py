"""Cancelling a run, wherever it is, and what becomes of its children."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from typing import Any

import pytest

from runnerq.client.handle import Handle
from runnerq.errors import Cancelled, RetryableError, RunCancelled
from runnerq.persistence.records import Status
from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Stage, Tapped, soon

WORDS: Signal[str] = Signal("words", str)


@workflow
def listener(ctx: Context) -> Flow[str]:
    return (yield from ctx.signal(WORDS))


async def cancelled(run: Handle[Any], reason: str | None = None) -> None:
    """The run ends as cancelled, for this reason."""
    with pytest.raises(RunCancelled) as found:
        await run.result(timeout=SOON)
    assert found.value.reason == reason


async def test_a_waiting_run_is_cancelled(stage: Stage) -> None:
    async with stage.serving(listener) as client:
        run = await client.start(listener)
        await run.reached(Status.WAITING, timeout=SOON)
        assert await run.cancel("no longer wanted")
        await cancelled(run, "no longer wanted")
        assert not await run.cancel()
        assert [entry.kind for entry in await run.history()] == ["started", "signal", "cancel"]


async def test_a_run_that_never_started_is_cancelled_without_a_worker(stage: Stage) -> None:
    run = await stage.client.start(listener)
    assert await run.cancel("a mistake")
    await cancelled(run, "a mistake")


async def test_a_finished_run_is_not_changed_by_a_cancel(stage: Stage) -> None:
    async with stage.serving(listener) as client:
        run = await client.start(listener)
        await run.send(WORDS, "hello")
        await run.result(timeout=SOON)
        assert not await run.cancel()
        assert await run.result(timeout=SOON) == "hello"


async def test_a_cancel_interrupts_an_async_step(stage: Stage) -> None:
    begun = Gate()
    heard: list[str] = []

    @activity
    async def long() -> None:
        begun.come.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            heard.append("cancelled")
            raise

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.step(long)

    async with stage.serving(order) as client:
        run = await client.start(order)
        await begun.somebody()
        assert await run.cancel()
        await cancelled(run)
        assert [(entry.kind, entry.state) for entry in await run.history()] == [
            ("started", "answered"), ("step", "interrupted"), ("cancel", "answered"),
        ]  # fmt: skip
    assert heard == ["cancelled"]


async def test_a_sync_step_hears_of_a_cancel_by_its_heartbeat(stage: Stage) -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    @activity
    def long() -> None:
        loop.call_soon_threadsafe(begun.set)
        while True:
            current().heartbeat()
            threading.Event().wait(0.005)

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.step(long)

    async with stage.serving(order) as client:
        run = await client.start(order)
        await asyncio.wait_for(begun.wait(), SOON)
        assert await run.cancel("stop")
        await cancelled(run, "stop")


async def test_a_sync_steps_own_answer_comes_before_the_cancel(stage: Stage) -> None:
    begun = asyncio.Event()
    may_end = threading.Event()
    loop = asyncio.get_running_loop()
    after: list[str] = []

    @activity
    def long() -> str:
        loop.call_soon_threadsafe(begun.set)
        may_end.wait(SOON)
        return "charged"

    @workflow
    def order(ctx: Context) -> Flow[None]:
        answer = yield from ctx.step(long)
        after.append(answer)
        yield ctx.step(after.append, "not reached")

    tapped = Tapped(stage.storage)
    async with stage.on(tapped).serving(order) as client:
        run = await client.start(order)
        await asyncio.wait_for(begun.wait(), SOON)
        assert await run.cancel()
        # The cancel is on record before the step has ended.
        await soon(lambda: any(row.kind == "cancel" for turn in tapped.turns_of(run.id) for row in turn.rows))
        may_end.set()
        await cancelled(run)
    assert after[0] == "charged"
    assert "not reached" not in after


async def test_a_cancel_between_two_attempts_of_a_step_ends_it_at_once(stage: Stage) -> None:
    @activity
    async def fail() -> None:
        raise RetryableError("again", after=3600)

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.step(fail)

    async with stage.serving(order) as client:
        run = await client.start(order)
        await run.reached(Status.WAITING, timeout=SOON)
        assert await run.cancel()
        await cancelled(run)
        assert [(entry.kind, entry.state, entry.attempts) for entry in await run.history()][1] == (
            "step", "interrupted", 0,
        )  # fmt: skip


async def test_a_caught_cancel_completes_and_says_that_it_was_asked_for(stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[str]:
        try:
            yield ctx.signal(WORDS)
        except Cancelled as error:
            yield ctx.sleep(0.001)
            return f"told: {error.reason}"
        return ""

    async with stage.serving(order) as client:
        run = await client.start(order)
        await run.reached(Status.WAITING, timeout=SOON)
        await run.cancel("please")
        assert await run.result(timeout=SOON) == "told: please"
        assert (await run.info()).cancel_requested


async def test_cleanup_in_finally_works_and_a_retry_loop_does_not_eat_a_cancel(stage: Stage) -> None:
    tidied: list[str] = []

    @activity
    async def tidy(what: str) -> None:
        tidied.append(what)

    @workflow
    def order(ctx: Context) -> Flow[None]:
        try:
            while True:
                try:
                    yield ctx.signal(WORDS)
                except Exception:
                    yield ctx.step(tidy, "wrong")
        finally:
            yield ctx.step(tidy, "first")
            yield ctx.sleep(0.001)
            yield ctx.step(tidy, "second")

    async with stage.serving(order) as client:
        run = await client.start(order)
        await run.reached(Status.WAITING, timeout=SOON)
        await run.cancel("stop")
        await cancelled(run, "stop")
    # A park runs a generator's finally too; it is inert there, and no step comes of it.
    assert tidied == ["first", "second"]


async def test_all_leaves_of_a_composite_get_the_cancel_in_order_and_then_their_parent(stage: Stage) -> None:
    @activity
    async def note(what: str) -> str:
        return what

    def branch(ctx: Context, name: str) -> Generator[Any, Any, str]:
        try:
            yield ctx.signal(name)
        except Cancelled:
            yield ctx.step(note, name)
            return f"{name} saved"
        return ""

    @workflow
    def order(ctx: Context) -> Flow[str]:
        try:
            yield ctx.all(branch(ctx, "left"), ctx.signal(WORDS), branch(ctx, "right"))
        except Cancelled:
            return "cancelled once"
        return ""

    async with stage.serving(order) as client:
        run = await client.start(order)
        await run.reached(Status.WAITING, timeout=SOON)
        await run.cancel()
        assert await run.result(timeout=SOON) == "cancelled once"
        names = [entry.name for entry in await run.history() if entry.kind == "step"]
    assert names == ["note", "note"]


async def test_a_second_cancel_adds_nothing(stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[str]:
        try:
            yield ctx.signal(WORDS)
        except Cancelled:
            return (yield from ctx.signal(WORDS))
        return ""

    async with stage.serving(order) as client:
        run = await client.start(order)
        await run.reached(Status.WAITING, timeout=SOON)
        assert await run.cancel("first")
        async with asyncio.timeout(SOON):
            while (await run.info()).status is not Status.WAITING or len(await run.history()) < 4:
                await asyncio.sleep(0.005)
        assert not await run.cancel("second")
        await run.send(WORDS, "done")
        assert await run.result(timeout=SOON) == "done"


# --- activities -------------------------------------------------------------------------------------------------------


async def test_a_running_activity_is_cancelled(stage: Stage) -> None:
    begun = Gate()

    @activity
    async def long() -> None:
        begun.come.set()
        await asyncio.sleep(60)

    async with stage.serving(long) as client:
        run = await client.start(long)
        await begun.somebody()
        assert await run.cancel("stop")
        await cancelled(run, "stop")


async def test_an_activity_between_two_attempts_is_cancelled(stage: Stage) -> None:
    @activity
    async def fail() -> None:
        raise RetryableError("again", after=3600)

    async with stage.serving(fail) as client:
        run = await client.start(fail)
        await run.reached(Status.RETRYING, timeout=SOON)
        assert await run.cancel("stop")
        await cancelled(run, "stop")


# --- children ---------------------------------------------------------------------------------------------------------


@workflow
def parent(ctx: Context, close: Any) -> Flow[str]:
    child = yield from ctx.options(parent_close=close).spawn(listener)
    yield ctx.publish(child=child.id)
    return (yield from ctx.signal("end"))


async def family(stage: Stage, close: str | None) -> tuple[Handle[str], Handle[str]]:
    """A parent and its child, both waiting."""
    run = await stage.client.start(parent, close)
    child = stage.client.handle((await run.wait(lambda state: "child" in state, timeout=SOON))["child"], str)
    await child.reached(Status.WAITING, timeout=SOON)
    await run.reached(Status.WAITING, timeout=SOON)
    return run, child


async def test_children_are_cancelled_with_an_ended_parent(stage: Stage) -> None:
    async with stage.serving(parent, listener):
        run, child = await family(stage, None)
        await run.send("end", "over")
        assert await run.result(timeout=SOON) == "over"
        await cancelled(child, "its parent ended as completed")


async def test_children_are_cancelled_with_a_cancelled_parent(stage: Stage) -> None:
    async with stage.serving(parent, listener):
        run, child = await family(stage, None)
        await run.cancel()
        await cancelled(run)
        await cancelled(child, "its parent ended as cancelled")


async def test_an_abandoned_child_goes_on(stage: Stage) -> None:
    async with stage.serving(parent, listener):
        run, child = await family(stage, "abandon")
        await run.cancel()
        await cancelled(run)
        await child.send(WORDS, "still here")
        assert await child.result(timeout=SOON) == "still here"


async def test_a_cancel_while_a_child_is_awaited_cancels_the_child(stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.child(listener))

    async with stage.serving(order, listener) as client:
        run = await client.start(order)
        await run.reached(Status.WAITING, timeout=SOON)
        [child_id] = [entry.child_id for entry in await run.history() if entry.child_id]
        await run.cancel()
        await cancelled(run)
        with pytest.raises(RunCancelled):
            await client.handle(child_id).result(timeout=SOON)


# --- timeouts of workflows --------------------------------------------------------------------------------------------


async def test_a_workflow_past_its_timeout_is_cancelled_for_that_reason(stage: Stage) -> None:
    @workflow(timeout=0.05)
    def declared(ctx: Context) -> Flow[str]:
        return (yield from ctx.signal(WORDS))

    async with stage.serving(declared, listener) as client:
        run = await client.start(declared)
        other = await client.options(timeout=0.05).start(listener)
        await cancelled(run, "timeout")
        await cancelled(other, "timeout")


async def test_a_workflow_timeout_reaches_a_running_step(stage: Stage) -> None:
    @activity
    async def long() -> None:
        await asyncio.sleep(60)

    @workflow(timeout=0.05)
    def order(ctx: Context) -> Flow[None]:
        yield ctx.step(long)

    async with stage.serving(order) as client:
        run = await client.start(order)
        await cancelled(run, "timeout")


async def test_a_timeout_counts_from_the_start_and_not_from_a_delay_before_it(stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.signal(WORDS))

    async with stage.serving(order) as client:
        run = await client.options(delay=0.3, timeout=0.25, signals=[(WORDS, "in time")]).start(order)
        assert await run.result(timeout=SOON) == "in time"


async def test_a_workflow_timeout_during_cleanup_adds_nothing(stage: Stage) -> None:
    @workflow(timeout=0.05)
    def order(ctx: Context) -> Flow[str]:
        try:
            yield ctx.signal(WORDS)
        except Cancelled as error:
            yield ctx.sleep(0.05)
            return str(error.reason)
        return ""

    async with stage.serving(order) as client:
        assert await (await client.start(order)).result(timeout=SOON) == "timeout"


@activity(retry=1)
async def turns_its_cancel_into_an_error() -> None:
    INSIDE[0].set()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise ConnectionError("the driver was cut off") from None


@workflow
def has_such_a_step(ctx: Context) -> Flow[None]:
    yield from ctx.step(turns_its_cancel_into_an_error)


INSIDE: list[asyncio.Event] = []


@pytest.mark.parametrize("target", [has_such_a_step, turns_its_cancel_into_an_error], ids=lambda fn: fn.__name__)
async def test_a_step_that_makes_an_error_of_its_cancel_fails_nothing(stage: Stage, target: Any) -> None:
    INSIDE[:] = [asyncio.Event()]
    async with stage.serving(has_such_a_step, turns_its_cancel_into_an_error) as client:
        run = await client.start(target)
        await asyncio.wait_for(INSIDE[0].wait(), SOON)
        assert await run.cancel("enough")
        with pytest.raises(RunCancelled) as cancelled:
            await run.result(timeout=SOON)
    assert cancelled.value.reason == "enough"
