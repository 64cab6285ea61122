"""What workflows wait for, one thing or several: signals, composites, branches; through a real worker."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from runnerq.client.handle import Handle
from runnerq.errors import (
    NonRetryableError,
    RunCancelled,
    SignalPayloadError,
    SignalTimeout,
)
from runnerq.persistence.records import Status
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Stage


@dataclass
class Receipt:
    """A mutable answer, so that a shared copy would show."""

    cents: int
    lines: list[str]


@activity
async def charge(cents: int) -> Receipt:
    return Receipt(cents, ["paid"])


@activity
def print_label(to: str, *, copies: int = 1) -> tuple[str, ...]:
    return (to,) * copies


@activity
async def refuse(why: str) -> None:
    raise NonRetryableError(why)


APPROVAL = Signal("approval", bool)
WORDS: Signal[str] = Signal("words", str)


@workflow
def pack(ctx: Context, items: list[str]) -> Flow[str]:
    yield ctx.step(print_label, items[0])
    return ", ".join(items)


@workflow
def wait_for_words(ctx: Context) -> Flow[str]:
    return (yield from ctx.signal(WORDS))


@workflow
def fail(ctx: Context, why: str) -> Flow[None]:
    yield ctx.step(refuse, why)


# --- signals ----------------------------------------------------------------------------------------------------------


async def test_signals_are_taken_in_order_from_before_the_start_while_it_runs_and_while_it_waits(stage: Stage) -> None:
    gate = Gate()

    @activity
    async def hold() -> None:
        await gate.pass_through()

    @workflow
    def listener(ctx: Context) -> Flow[list[str]]:
        words = [(yield from ctx.signal(WORDS))]
        yield ctx.step(hold)
        for _ in range(2):
            words.append((yield from ctx.signal(WORDS)))
        return words

    run = await stage.client.start(listener)
    await run.send(WORDS, "before")
    async with stage.serving(listener):
        await gate.somebody()
        await run.send(WORDS, "running")
        gate.open()
        await run.reached(Status.WAITING, timeout=SOON)
        await run.send(WORDS, "waiting")
        assert await run.result(timeout=SOON) == ["before", "running", "waiting"]


async def test_a_wait_that_is_over_raises_or_answers_its_default(stage: Stage) -> None:
    @workflow
    def listener(ctx: Context) -> Flow[list[Any]]:
        heard: list[Any] = []
        try:
            yield ctx.signal(WORDS, timeout=0.02)
        except SignalTimeout as error:
            heard.append(error.channel)
        heard.append((yield ctx.signal(WORDS, timeout=0.02, default=None)))
        heard.append((yield ctx.signal(WORDS, timeout=timedelta(milliseconds=20), default=["none"])))
        return heard

    assert await stage.answer(listener) == ["words", None, ["none"]]


async def test_a_poll_parks_nothing_and_takes_what_is_there(stage: Stage) -> None:
    @workflow
    def listener(ctx: Context) -> Flow[list[Any]]:
        heard: list[Any] = []
        for _ in range(3):
            heard.append((yield ctx.signal(WORDS, timeout=0, default=None)))
        try:
            yield ctx.signal(WORDS, timeout=0)
        except SignalTimeout:
            heard.append("over")
        return heard

    run = await stage.client.start(listener)
    await run.send(WORDS, "one")
    await run.send(WORDS, "two")
    async with stage.serving(listener):
        assert await run.result(timeout=SOON) == ["one", "two", None, "over"]


async def test_latest_takes_the_newest_and_drops_the_older_ones(stage: Stage) -> None:
    @workflow
    def listener(ctx: Context) -> Flow[list[Any]]:
        newest = yield ctx.signal(WORDS, latest=True)
        return [newest, (yield ctx.signal(WORDS, timeout=0, default=None))]

    run = await stage.client.start(listener)
    for word in ("one", "two", "three"):
        await run.send(WORDS, word)
    async with stage.serving(listener):
        assert await run.result(timeout=SOON) == ["three", None]


async def test_a_payload_of_another_type_is_consumed_and_raises(stage: Stage) -> None:
    @workflow
    def listener(ctx: Context) -> Flow[list[Any]]:
        heard: list[Any] = []
        for _ in range(2):
            try:
                heard.append((yield ctx.signal(APPROVAL)))
            except SignalPayloadError as error:
                heard.append(error.channel)
        return heard

    run = await stage.client.start(listener)
    await run.send("approval", {"not": "a bool"})
    async with stage.serving(listener):
        await run.send(APPROVAL, True)
        assert await run.result(timeout=SOON) == ["approval", True]


async def test_a_losing_wait_does_not_eat_later_signals(stage: Stage) -> None:
    @workflow
    def listener(ctx: Context) -> Flow[list[Any]]:
        first = yield from ctx.race(ctx.signal(WORDS), ctx.sleep(0.01))
        return [first.index, (yield from ctx.signal(WORDS))]

    async with stage.serving(listener) as client:
        run = await client.start(listener)
        await run.wait(lambda _: True, timeout=SOON)
        await _entries(run, 5)
        await run.send(WORDS, "late")
        assert await run.result(timeout=SOON) == [1, "late"]


# --- composites -------------------------------------------------------------------------------------------------------


async def test_all_answers_a_tuple_and_gather_a_list_in_order(stage: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[list[Any]]:
        three = yield from ctx.all(ctx.step(charge, 1), ctx.child(pack, ["cup"]), ctx.sleep(0.01))
        numbers = yield from ctx.gather([ctx.step(charge, n) for n in range(5)], limit=2)
        nothing = yield from ctx.all()
        none = yield from ctx.gather([])
        return [type(three).__name__, three[0].cents, three[1:], [r.cents for r in numbers], nothing, none]

    answer = await stage.answer(order, serving=[pack])
    assert answer == ["tuple", 1, ["cup", None], [0, 1, 2, 3, 4], [], []]


async def test_gather_runs_no_more_than_its_limit_at_once(stage_in_memory: Stage) -> None:
    running: set[int] = set()
    most: list[int] = []

    @activity
    async def work(number: int) -> int:
        running.add(number)
        most.append(len(running))
        await asyncio.sleep(0.002)
        running.discard(number)
        return number

    @workflow
    def order(ctx: Context) -> Flow[list[int]]:
        return (yield from ctx.gather((ctx.step(work, n) for n in range(12)), limit=3))

    assert await stage_in_memory.answer(order) == list(range(12))
    assert max(most) == 3


async def test_gather_can_answer_errors_as_values(stage_in_memory: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        answers = yield from ctx.gather(
            [ctx.step(charge, 1), ctx.step(refuse, "no"), ctx.child(fail, "never")], return_errors=True
        )
        return [type(answer).__name__ for answer in answers]

    assert await stage_in_memory.answer(order, serving=[fail]) == ["Receipt", "NonRetryableError", "ChildFailed"]


async def test_the_first_error_decides_an_all_and_cancels_the_others(stage: Stage) -> None:
    ended: list[str] = []
    begun = Gate()

    @activity
    async def long() -> None:
        begun.come.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    @activity
    async def refuse_once_it_runs() -> None:
        await begun.somebody()
        raise NonRetryableError("no")

    @workflow
    def order(ctx: Context) -> Flow[str]:
        try:
            yield ctx.all(ctx.step(long), ctx.step(refuse_once_it_runs))
        except NonRetryableError as error:
            # As many open waits as there are losers: none of them keeps a loser running.
            yield ctx.all(ctx.signal("a", timeout=0.01, default=1), ctx.signal("b", timeout=0.01, default=1))
            return str(error)
        return ""

    assert await stage.answer(order) == "no"
    assert ended == ["cancelled"]


async def test_a_race_answers_with_the_first_and_cancels_the_losers_step_and_child(stage: Stage) -> None:
    ended: list[str] = []

    @activity
    async def long() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    @workflow
    def order(ctx: Context) -> Flow[list[Any]]:
        won = yield from ctx.race(ctx.step(long), ctx.child(wait_for_words), ctx.signal(APPROVAL))
        yield ctx.signal("more", timeout=0.01, default=None)
        return [won.index, won.value]

    async with stage.serving(order, wait_for_words) as client:
        run = await client.start(order)
        child = await _child_of(run)
        await child.reached(Status.WAITING, timeout=SOON)
        await run.send(APPROVAL, True)
        assert await run.result(timeout=SOON) == [2, True]
        with pytest.raises(RunCancelled):
            await child.result(timeout=SOON)
    assert ended == ["cancelled"]


async def test_branches_advance_side_by_side_and_number_their_own_commands(stage: Stage) -> None:
    def pipeline(ctx: Context, name: str) -> Generator[Any, Any, str]:
        yield ctx.step(charge, 1)
        word = yield ctx.signal(name)
        yield ctx.sleep(0.001)
        return f"{name}: {word}"

    @workflow
    def order(ctx: Context) -> Flow[Any]:
        return (yield from ctx.all(pipeline(ctx, "left"), pipeline(ctx, "right"), ctx.step(charge, 3)))[:2]

    async with stage.serving(order) as client:
        run = await client.start(order)
        await run.send("right", "second")
        await run.send("left", "first")
        assert await run.result(timeout=SOON) == ["left: first", "right: second"]
        positions = {entry.position for entry in await run.history()}
        assert positions == {"", "1", "1.0.1", "1.0.2", "1.0.3", "1.1.1", "1.1.2", "1.1.3", "1.2"}
        await stage.no_gaps(run.id)


async def test_a_losing_branch_finishes_its_cleanup_before_the_race_answers(stage: Stage) -> None:
    done: list[str] = []

    @activity
    async def tidy() -> None:
        done.append("tidied")

    def pipeline(ctx: Context) -> Generator[Any, Any, str]:
        try:
            yield ctx.signal("never")
        finally:
            yield ctx.step(tidy)
        return ""

    @workflow
    def order(ctx: Context) -> Flow[list[Any]]:
        won = yield from ctx.race(pipeline(ctx), ctx.sleep(0.01))
        return [won.index, list(done)]

    assert await stage.answer(order) == [1, ["tidied"]]


async def _entries(run: Handle[Any], count: int) -> None:
    async with asyncio.timeout(SOON):
        while len(await run.history()) < count:
            await asyncio.sleep(0.005)


async def _child_of(run: Handle[Any]) -> Handle[Any]:
    async with asyncio.timeout(SOON):
        while True:
            for entry in await run.history():
                if entry.child_id is not None:
                    return Handle(run._core, entry.child_id, Any)
            await asyncio.sleep(0.005)
