"""Generators at a park and at a worker's stop: when they are closed, and that nothing is heard of those that refuse."""

from __future__ import annotations

import gc
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from runnerq.persistence.records import Park, Status, Turn, Verdict
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from runnerq.workflow.journal import Started
from tests.runtime.stage import SOON, Stage, Tapped
from tests.workflow.driver import START, an_interpreter

WORDS: Signal[str] = Signal("words", str)


async def test_a_parked_generator_is_closed_after_its_commit_and_before_its_slot_is_free(memory: Stage) -> None:
    memory.cache = 0
    seen: list[str] = []

    @workflow
    def waits(ctx: Context) -> Flow[str]:
        try:
            return (yield from ctx.signal(WORDS))
        finally:
            seen.append("closed")

    @workflow
    def next_one(ctx: Context) -> Flow[None]:
        seen.append("the slot is free")
        yield from ctx.sleep(0)

    async def committed(turns: Sequence[Turn], verdicts: list[Verdict]) -> None:
        seen.extend("committed" for turn in turns if isinstance(turn.move, Park))

    tapped = Tapped(memory.storage)
    tapped.after = committed
    first = await memory.client.start(waits)
    second = await memory.client.start(next_one)
    async with memory.on(tapped).serving(waits, next_one, max_workers=1):
        await second.result(timeout=SOON)
        assert await first.status() is Status.WAITING
        assert seen[:3] == ["committed", "closed", "the slot is free"]


async def test_a_stopping_worker_closes_the_generators_that_it_has_kept(memory: Stage) -> None:
    closed: list[int] = []

    @workflow
    def waits(ctx: Context, number: int) -> Flow[str]:
        try:
            return (yield from ctx.signal(WORDS))
        finally:
            closed.append(number)

    async with memory.serving(waits, cache=100) as client:
        runs = await client.start_many(waits, [(number,) for number in range(5)])
        for run in runs:
            await run.reached(Status.WAITING, timeout=SOON)
        assert closed == []
    assert sorted(closed) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "where",
    [
        "the workflow",
        "a generator that it yields from",
    ],
)
async def test_of_a_generator_that_refuses_to_close_nothing_is_scheduled_or_printed(
    memory: Stage, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, where: str
) -> None:
    memory.cache = 0

    @workflow
    def through_another(ctx: Context) -> Flow[str]:
        return (yield from stubborn(ctx))

    @workflow
    def stubborn(ctx: Context) -> Flow[str]:
        try:
            return (yield from ctx.signal(WORDS))
        finally:
            # Without end at a park, where it is closed again and again.
            while ctx.replaying:
                with suppress(GeneratorExit):
                    yield None  # type: ignore[misc]  # what a careless one would write

    order = stubborn if where == "the workflow" else through_another
    async with memory.serving(order) as client:
        run = await client.start(order)
        await run.reached(Status.WAITING, timeout=SOON)
        await run.send(WORDS, "go")
        assert await run.result(timeout=SOON) == "go"
        assert [entry.kind for entry in await run.history()] == ["started", "signal"]
    gc.collect()
    assert capsys.readouterr().err == ""
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        f"run {run.id}: 1 generators refuse to close and are kept for good"
    ]


@pytest.mark.parametrize("yields", [0, 1, 2, 3])
def test_a_generator_is_closed_again_where_its_finally_yields_up_to_three_times_over(yields: int) -> None:
    def wf(ctx: Context) -> Any:
        try:
            yield ctx.signal(WORDS)
        finally:
            try:
                if yields > 0:
                    yield None
            finally:
                try:
                    if yields > 1:
                        yield None
                finally:
                    if yields > 2:
                        yield None

    run = an_interpreter(wf)
    run.begin(Started(seed="s", build="b"), START)
    kept = run.close()
    assert len(kept) == (yields == 3)
    for each in kept:
        each.close()
