"""The guarantee and its edge: what is on record before what begins, and what a lost worker leaves to be done again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from runnerq.persistence.records import RunFilter, Status, Turn, Verdict
from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Holding, Stage, Tapped, soon

WORDS: Signal[str] = Signal("words", str)
KEYS: list[tuple[str, str]] = []
"""Which steps ran, with the idempotency key of each."""


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    KEYS.clear()


@activity
async def charge(what: str) -> str:
    KEYS.append((what, current().idempotency_key))
    return what


@workflow
def two_steps(ctx: Context) -> Flow[list[str]]:
    first = yield from ctx.step(charge, "first")
    second = yield from ctx.step(charge, "second")
    return [first, second]


def with_a_row(kind: str) -> Callable[[Turn], bool]:
    return lambda turn: any(row.kind == kind for row in turn.rows)


def ran() -> list[str]:
    return [what for what, _ in KEYS]


async def test_a_step_does_not_begin_before_it_is_on_record(plain_stage: Stage) -> None:
    holding = Holding(plain_stage.storage, with_a_row("started"))
    async with plain_stage.on(holding).serving(two_steps) as client:
        run = await client.start(two_steps)
        await holding.gate.somebody()
        assert ran() == []
        holding.gate.open()
        await run.result(timeout=SOON)
    assert ran() == ["first", "second"]


async def test_an_answer_is_on_record_before_the_next_step_begins(plain_stage: Stage) -> None:
    holding = Holding(plain_stage.storage, with_a_row("answered"))
    async with plain_stage.on(holding).serving(two_steps) as client:
        run = await client.start(two_steps)
        await holding.gate.somebody()
        assert ran() == ["first"]
        holding.gate.open()
        await run.result(timeout=SOON)
    assert ran() == ["first", "second"]


class Lost(Tapped):
    """A worker behind it is lost at its first turn with an answer: before that is written, or after."""

    def __init__(self, storage: Any, written: bool) -> None:
        super().__init__(storage)
        self.come = Gate()
        self._written = written
        self.before = self._lose_before
        self.after = self._lose_after

    async def _lose_before(self, turns: Sequence[Turn]) -> None:
        if not self._written:
            await self._lose(turns)

    async def _lose_after(self, turns: Sequence[Turn], verdicts: list[Verdict]) -> None:
        await self._lose(turns)

    async def _lose(self, turns: Sequence[Turn]) -> None:
        if any(map(with_a_row("answered"), turns)):
            self.come.come.set()
            await asyncio.Event().wait()


@pytest.mark.parametrize("written", [False, True], ids=["before the commit", "after the commit"])
async def test_a_step_runs_again_only_if_its_answer_was_not_committed_and_with_the_same_key(
    plain_stage: Stage, caplog: pytest.LogCaptureFixture, written: bool
) -> None:
    caplog.set_level(logging.CRITICAL)
    lost = Lost(plain_stage.storage, written)
    async with plain_stage.on(lost).worker(two_steps, shutdown_grace=0):
        run = await plain_stage.client.start(two_steps)
        await lost.come.somebody()
    async with plain_stage.serving(two_steps):
        assert await run.result(timeout=SOON) == ["first", "second"]
    assert ran() == (["first", "second"] if written else ["first", "first", "second"])
    assert len({key for what, key in KEYS if what == "first"}) == 1
    assert len({key for _, key in KEYS}) == 2


async def test_a_child_is_started_once_whatever_becomes_of_the_worker_that_asked_for_it(
    plain_stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)

    @workflow
    def parent(ctx: Context) -> Flow[str]:
        yield from ctx.step(charge, "before")
        return (yield from ctx.child(charge, "child"))

    lost = Lost(plain_stage.storage, written=True)
    async with plain_stage.on(lost).worker(parent, charge, shutdown_grace=0):
        run = await plain_stage.client.start(parent)
        await lost.come.somebody()
    async with plain_stage.serving(parent, charge) as client:
        assert await run.result(timeout=SOON) == "child"
        assert len([entry for entry in await run.history() if entry.child_id]) == 1
        assert len((await client.list(RunFilter(parent=run.id))).items) == 1


async def test_a_line_is_logged_again_only_where_its_answer_was_not_committed(
    memory: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    @workflow
    def speaks(ctx: Context) -> Flow[str]:
        yield from ctx.step(charge, "first")
        ctx.log.warning("after the first")
        word = yield from ctx.signal(WORDS)
        ctx.log.warning("after the signal")
        return word

    memory.cache = 0
    lost = Lost(memory.storage, written=False)
    async with memory.on(lost).worker(speaks, shutdown_grace=0):
        run = await memory.client.start(speaks)
        await lost.come.somebody()
    async with memory.serving(speaks):
        await run.reached(Status.WAITING, timeout=SOON)
        await run.send(WORDS, "go")
        assert await run.result(timeout=SOON) == "go"
    lines = [record.getMessage() for record in caplog.records if record.name == "runnerq.workflow"]
    assert lines == ["after the first", "after the first", "after the signal"]


async def test_local_variables_come_back_though_nothing_of_them_is_stored(memory: Stage) -> None:
    class NotJson:
        """Has no JSON form."""

        def __init__(self) -> None:
            self.words: list[str] = []

    @workflow
    def keeps(ctx: Context) -> Flow[list[str]]:
        kept = NotJson()
        for _ in range(3):
            kept.words.append((yield from ctx.signal(WORDS)))
        return kept.words

    memory.cache = 0
    run = await memory.client.start(keeps)
    for word in ("a", "b", "c"):
        async with memory.serving(keeps):
            await run.reached(Status.WAITING, timeout=SOON)
            await run.send(WORDS, word)
    async with memory.serving(keeps):
        assert await run.result(timeout=SOON) == ["a", "b", "c"]


async def test_what_a_workflow_does_outside_of_a_step_is_done_at_every_resumption(memory: Stage) -> None:
    done: list[str] = []

    @workflow
    def careless(ctx: Context) -> Flow[str]:
        done.append("a side effect")
        yield from ctx.signal(WORDS)
        return (yield from ctx.signal(WORDS))

    memory.cache = 0
    async with memory.serving(careless) as client:
        run = await client.start(careless)
        for word in ("a", "b"):
            await soon(lambda: done)
            await run.reached(Status.WAITING, timeout=SOON)
            await run.send(WORDS, word)
        assert await run.result(timeout=SOON) == "b"
    assert len(done) >= 2
