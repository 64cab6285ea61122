"""Journals that were written elsewhere or late: by newer rules, by a patch, by answers that come twice or too late."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from runnerq.errors import StepTimeout, StorageUnavailable
from runnerq.persistence.records import Status, Turn, Verdict
from runnerq.retry import RetryPolicy
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Stage, Tapped, soon

WORDS: Signal[str] = Signal("words", str)
QUICK = RetryPolicy(max_attempts=4, base=0.001, jitter=0)


@activity
async def note(what: str) -> str:
    return what


@workflow
def order(ctx: Context) -> Flow[list[str]]:
    first = yield from ctx.step(note, "one")
    word = yield from ctx.signal(WORDS)
    return [first, word]


async def test_a_journal_of_newer_rules_blocks_an_older_worker_and_a_newer_one_takes_it_up_by_itself(
    memory: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await memory.client.start(order)
    async with memory.serving(order, build="same", cache=0):
        await run.reached(Status.WAITING, timeout=SOON)
    with memory.storage.writing() as (book, _):  # type: ignore[attr-defined]  # as a newer worker would have written it
        rows = book.journals[run.id, 1]
        started = msgspec.json.decode(rows[0].value)
        rows[0] = msgspec.structs.replace(rows[0], value=msgspec.json.encode(started | {"rules": 99}).decode())
    await run.send(WORDS, "go")
    async with memory.serving(order, build="same"):
        await run.reached(Status.BLOCKED, timeout=SOON)
    # A worker of the same code, whose runnerq knows the newer rules: its build is another for that alone.
    for module in ("runnerq.runtime.builds", "runnerq.workflow.interpreter"):
        monkeypatch.setattr(sys.modules[module], "RULES", 99)
    async with memory.serving(order, build="same"):
        assert await run.result(timeout=SOON) == ["one", "go"]


# --- late and twice ---------------------------------------------------------------------------------------------------


async def test_a_step_that_returns_after_its_timeout_is_not_heard(memory: Stage) -> None:
    begun, ended = Gate(), asyncio.Event()

    @activity(retry=1, timeout=0.05)
    async def slow() -> str:
        try:
            begun.come.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.set()
            return "too late"
        return "never"

    @workflow
    def waits(ctx: Context) -> Flow[str]:
        try:
            return (yield from ctx.step(slow))
        except StepTimeout:
            yield from ctx.step(ended.is_set)
            return (yield from ctx.signal(WORDS))

    async with memory.serving(waits) as client:
        run = await client.start(waits)
        await soon(ended.is_set)
        await run.send(WORDS, "timed out")
        assert await run.result(timeout=SOON) == "timed out"
        assert [entry.state for entry in await run.history()] == ["answered", "failed", "answered", "answered"]


async def test_a_turn_whose_reply_was_lost_and_is_sent_again_counts_once(plain_stage: Stage) -> None:
    lost: list[str] = []

    class Losing(Tapped):
        async def commit(self, turns: Sequence[Turn]) -> list[Verdict]:
            verdicts = await super().commit(turns)
            if len(lost) < 3 and any(row.kind == "answered" for turn in turns for row in turn.rows):
                lost.append("a reply")
                raise StorageUnavailable("the reply was lost")
            return verdicts

    @workflow
    def steps(ctx: Context) -> Flow[list[str]]:
        words: list[str] = []
        for word in ("a", "b", "c"):
            words.append((yield from ctx.step(note, word)))
        return words

    async with plain_stage.on(Losing(plain_stage.storage)).serving(steps) as client:
        run = await client.start(steps)
        assert await run.result(timeout=SOON) == ["a", "b", "c"]
        assert [entry.position for entry in await run.history() if entry.kind == "step"] == ["1", "2", "3"]
    await plain_stage.no_gaps(run.id)


# --- retries ----------------------------------------------------------------------------------------------------------


async def test_attempts_take_no_position_and_shift_none(stage: Stage) -> None:
    tries: list[str] = []

    @activity(retry=QUICK)
    async def flaky(name: str) -> str:
        tries.append(name)
        if tries.count(name) < 3:
            raise ValueError(name)
        return name

    def branch(ctx: Context, name: str) -> Any:
        yield ctx.step(flaky, name)
        return (yield ctx.step(note, name))

    @workflow
    def retries(ctx: Context) -> Flow[Any]:
        yield from ctx.step(flaky, "a")
        return list((yield from ctx.all(branch(ctx, "b"), branch(ctx, "c"))))

    async with stage.serving(retries) as client:
        run = await client.start(retries)
        assert await run.result(timeout=SOON) == ["b", "c"]
        positions = sorted(entry.position for entry in await run.history() if entry.kind == "step")
    assert positions == ["1", "2.0.1", "2.0.2", "2.1.1", "2.1.2"]
    assert len(tries) == 9
