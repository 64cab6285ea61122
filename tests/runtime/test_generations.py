"""A run that continues as new, by a real worker: the same run, its journal anew."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from runnerq.errors import RunCancelled
from runnerq.persistence.records import Renew, Status, Verdict
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Stage, Tapped

WORD: Signal[str] = Signal("word", str)
CALLS: list[int] = []


@activity
async def noted(number: int) -> int:
    CALLS.append(number)
    return number


@workflow
def counts(ctx: Context, left: int, done: int = 0) -> Flow[tuple[int, int]]:
    yield from ctx.step(noted, left)
    if left > 1:
        return ctx.continue_as_new(left - 1, done + 1)
    return done + 1, ctx.info.generation


@workflow
def collects(ctx: Context, count: int, words: list[str]) -> Flow[list[str]]:
    """Two words a generation."""
    yield from ctx.publish(generation=ctx.info.generation)
    for _ in range(2):
        words.append((yield from ctx.signal(WORD)))
    if len(words) < count:
        ctx.continue_as_new(count, words)
    return words


@workflow
def waits(ctx: Context) -> Flow[str]:
    return (yield from ctx.signal(WORD))


@workflow
def hands_on(ctx: Context, child_id: str | None = None) -> Flow[str]:
    if child_id is None:
        child = yield from ctx.spawn(waits)
        ctx.continue_as_new(child.id)
    yield from ctx.publish(generation=ctx.info.generation)
    return str((yield from ctx.handle(child_id).result()))


@workflow
def publishes(ctx: Context, first: bool = True) -> Flow[None]:
    if first:
        yield from ctx.publish(a=1, b=1)
        ctx.continue_as_new(False)
    yield from ctx.publish(b=2)


@workflow(timeout=0.3)
def never_ends(ctx: Context) -> Flow[None]:
    # The first one has ended before its time can be over, however long that takes.
    if ctx.info.generation > 1:
        yield from ctx.sleep(0.05)
    ctx.continue_as_new()


async def test_the_same_run_goes_on_with_new_arguments_and_a_journal_anew(stage: Stage) -> None:
    CALLS.clear()
    async with stage.serving(counts, noted) as client:
        run = await client.start(counts, 3)
        assert await run.result(timeout=SOON) == (3, 3)
        assert CALLS == [3, 2, 1]
        assert (await run.info()).generation == 3
        for generation in (1, 2, 3):
            steps = [entry for entry in await run.history(generation) if entry.kind == "step"]
            assert [(entry.position, entry.value) for entry in steps] == [("1", 4 - generation)]
        assert {entry.generation for entry in await run.history()} == {3}


async def test_a_key_and_a_handle_stay_with_the_run(stage: Stage) -> None:
    async with stage.serving(counts, noted) as client:
        run = await client.options(key=f"k-{stage.queue}").start(counts, 2)
        assert await client.handle_by_key(counts, f"k-{stage.queue}").result(timeout=SOON) == (2, 2)
        again = await client.options(key=f"k-{stage.queue}").start(counts, 5)
        assert (again.id, again.created) == (run.id, False)


async def test_signals_that_no_generation_has_taken_are_there_for_the_next(stage: Stage) -> None:
    async with stage.serving(collects) as client:
        run = await client.start(collects, 6, [])
        for word in "abcdef":
            await run.send(WORD, word)
        assert await run.result(timeout=SOON) == list("abcdef")


async def test_a_child_stays_open_and_a_later_generation_hears_of_its_end(stage: Stage) -> None:
    async with stage.serving(hands_on, waits) as client:
        run = await client.start(hands_on)
        await _in_generation(run, 2)
        await run.reached(Status.WAITING, timeout=SOON)
        [child] = (await client.info(run.id)).waiting_for.split()[-1:]  # type: ignore[union-attr]  # it waits
        await client.send(child, WORD, "hello")
        assert await run.result(timeout=SOON) == "hello"


async def test_what_is_published_stays_and_is_merged_into(stage: Stage) -> None:
    async with stage.serving(publishes) as client:
        run = await client.start(publishes)
        await run.result(timeout=SOON)
        assert await run.state() == {"a": 1, "b": 2}


async def test_the_timeout_of_a_workflow_counts_from_the_start_of_its_first_generation(stage: Stage) -> None:
    async with stage.serving(never_ends) as client:
        run = await client.start(never_ends)
        with pytest.raises(RunCancelled) as caught:
            await run.result(timeout=SOON)
        assert caught.value.reason == "timeout"
        assert (await run.info()).generation > 1


async def test_a_worker_lost_between_two_generations_leaves_the_next_one_to_another(
    plain_stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    CALLS.clear()
    tapped = Tapped(plain_stage.storage)
    renewed = asyncio.Event()

    async def after(turns: Any, verdicts: list[Verdict]) -> None:
        if any(isinstance(turn.move, Renew) for turn in turns):
            renewed.set()
            await asyncio.Event().wait()

    tapped.after = after
    stale = plain_stage.on(tapped).worker(counts, noted, shutdown_grace=0)
    async with stale:
        run = await plain_stage.client.start(counts, 2)
        await renewed.wait()
    async with plain_stage.serving(counts, noted):
        assert await run.result(timeout=SOON) == (2, 2)
    assert CALLS == [2, 1]
    await plain_stage.no_gaps(run.id)


async def test_a_run_that_is_cancelled_is_cancelled_in_its_present_generation(stage: Stage) -> None:
    async with stage.serving(collects) as client:
        run = await client.start(collects, 4, [])
        await run.send(WORD, "a")
        await run.send(WORD, "b")
        await _in_generation(run, 2)
        assert await run.cancel("enough")
        with pytest.raises(RunCancelled):
            await run.result(timeout=SOON)
        assert [entry.kind for entry in await run.history()][-1] == "cancel"


async def _in_generation(run: Any, generation: int) -> None:
    await run.wait(lambda state: state.get("generation") == generation, timeout=SOON)


async def test_what_is_raised_behind_continue_as_new_is_told_and_changes_nothing(
    memory: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    @workflow
    def breaks_behind(ctx: Context, left: int) -> Flow[int]:
        yield from ctx.step(noted, left)
        try:
            if left:
                return ctx.continue_as_new(left - 1)
        finally:
            if left:
                raise RuntimeError("the cleanup broke")
        return left

    assert await memory.answer(breaks_behind, 1, serving=[noted]) == 0
    assert "the cleanup broke" in caplog.text
    assert "behind ctx.continue_as_new" in caplog.text


async def test_what_a_run_publishes_costs_it_no_look_into_its_mailbox(plain_stage: Stage) -> None:
    @workflow
    def publishes_often(ctx: Context) -> Flow[None]:
        for nth in range(20):
            yield from ctx.step(noted, nth)
            yield from ctx.publish(nth=nth)

    tapped = Tapped(plain_stage.storage)
    async with plain_stage.on(tapped).worker(publishes_often, noted):
        run = await plain_stage.client.start(publishes_often)
        await run.result(timeout=SOON)
    assert tapped.asked(run.id) == 0
