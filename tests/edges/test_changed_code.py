"""Each way of changing code is found out on replay, wherever the run stands: it blocks, and does nothing.

A change is found out as soon as what it touches is on record. A run that has not come there goes on by the new code.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from runnerq.client.handle import Handle
from runnerq.errors import ResultTimeout
from runnerq.persistence.records import Status
from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Stage, soon
from tests.workflow.driver import Body, drive
from tests.workflow.steps import GO, charge, find, price

# --- at every stage ---------------------------------------------------------------------------------------------------

ANSWERS = {"1": 10, "2": None, "3": 0, "4": {"item": "pen"}, "5": 7, "6": None}


def original(ctx: Context) -> Any:
    yield ctx.step(price, "book")
    yield ctx.sleep(60)
    yield ctx.step(charge, "book")
    yield ctx.signal(GO)
    yield ctx.step(price, "pen")
    yield ctx.sleep(5)


class Change(msgspec.Struct, frozen=True):
    """Other code, and the position of the first command that is another with it."""

    code: Body
    position: int


def returning_early(ctx: Context) -> Any:
    yield ctx.step(price, "book")
    yield ctx.sleep(60)
    return "early"


def raising_early(ctx: Context) -> Any:
    yield ctx.step(price, "book")
    yield ctx.sleep(60)
    raise ValueError("early")


def with_a_step_inserted(ctx: Context) -> Any:
    yield ctx.step(price, "book")
    yield ctx.step(price, "book")
    yield ctx.sleep(60)
    yield ctx.step(charge, "book")
    yield ctx.signal(GO)
    yield ctx.step(price, "pen")


def with_other_arguments(ctx: Context) -> Any:
    yield ctx.step(price, "book")
    yield ctx.sleep(60)
    yield ctx.step(charge, "a book")
    yield ctx.signal(GO)
    yield ctx.step(price, "pen")


def without_the_wait(ctx: Context) -> Any:
    yield ctx.step(price, "book")
    yield ctx.sleep(60)
    yield ctx.step(charge, "book")
    yield ctx.step(price, "pen")


def with_another_timer(ctx: Context) -> Any:
    yield ctx.step(price, "book")
    yield ctx.sleep(61)
    yield ctx.step(charge, "book")
    yield ctx.signal(GO)
    yield ctx.step(price, "pen")


def with_a_step_renamed(ctx: Context) -> Any:
    yield ctx.step(price, "book")
    yield ctx.sleep(60)
    yield ctx.step(charge, "book")
    yield ctx.signal(GO)
    yield ctx.step(find, "pen")


def with_two_steps_in_the_other_order(ctx: Context) -> Any:
    yield ctx.sleep(60)
    yield ctx.step(price, "book")
    yield ctx.step(charge, "book")


CHANGES = {
    "an early return": Change(returning_early, 3),
    "an early error": Change(raising_early, 3),
    "an inserted step": Change(with_a_step_inserted, 2),
    "other arguments": Change(with_other_arguments, 3),
    "a removed wait": Change(without_the_wait, 4),
    "another timer": Change(with_another_timer, 2),
    "a renamed step": Change(with_a_step_renamed, 5),
    "another order": Change(with_two_steps_in_the_other_order, 1),
}
each_change = pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)


@each_change
@pytest.mark.parametrize("answered", range(len(ANSWERS)))
def test_a_change_is_found_out_once_what_it_touches_is_on_record(change: Change, answered: int) -> None:
    """With so many answers, the command behind them is asked for: a step runs, or the run is parked."""
    run = drive(original, dict(list(ANSWERS.items())[:answered]))
    rows = list(run.rows)
    run.retake(change.code)
    if answered + 1 < change.position:
        assert run.blocked is None
        return
    assert run.block.position == str(change.position)
    assert run.rows == rows
    assert run.starts[answered + 1 :] == []
    run.retake(original)
    assert str(answered + 1) in run.open


@each_change
def test_a_change_is_found_out_by_a_run_that_had_ended_but_for_its_last_row(change: Change) -> None:
    run = drive(original, ANSWERS)
    assert run.end is not None
    assert run.retake(change.code).block.position == str(change.position)


# --- parked and running, by real workers ------------------------------------------------------------------------------

WORDS: Signal[str] = Signal("words", str)
RAN: list[str] = []


@activity
async def first(item: str) -> str:
    RAN.append(f"first {item}")
    return item


@activity
async def second(item: str) -> str:
    RAN.append(f"second {item}")
    return item


@activity
async def slow(item: str) -> str:
    RAN.append(f"slow {item}")
    if RAN.count(f"slow {item}") == 1:
        await asyncio.Event().wait()
    return item


@workflow(name="order")
def as_it_was(ctx: Context) -> Flow[str]:
    yield from ctx.step(first, "book")
    yield from ctx.sleep(0.001)
    word = yield from ctx.signal(WORDS)
    return (yield from ctx.step(slow, word))


@workflow(name="order")
def returns_early(ctx: Context) -> Flow[str]:
    return (yield from ctx.step(first, "book"))


@workflow(name="order")
def inserts_a_step(ctx: Context) -> Flow[str]:
    yield from ctx.step(first, "book")
    yield from ctx.step(first, "book")
    yield from ctx.sleep(0.001)
    return (yield from ctx.signal(WORDS))


@workflow(name="order")
def changes_arguments(ctx: Context) -> Flow[str]:
    yield from ctx.step(first, "a book")
    yield from ctx.sleep(0.001)
    return (yield from ctx.signal(WORDS))


@workflow(name="order")
def removes_the_wait(ctx: Context) -> Flow[str]:
    yield from ctx.step(first, "book")
    yield from ctx.sleep(0.001)
    return (yield from ctx.step(slow, "no word"))


@workflow(name="order")
def changes_the_timer(ctx: Context) -> Flow[str]:
    yield from ctx.step(first, "book")
    yield from ctx.sleep(0.002)
    return (yield from ctx.signal(WORDS))


@workflow(name="order")
def renames_the_step(ctx: Context) -> Flow[str]:
    yield from ctx.step(second, "book")
    yield from ctx.sleep(0.001)
    return (yield from ctx.signal(WORDS))


LATER = {
    "an early return": (returns_early, "2"),
    "an inserted step": (inserts_a_step, "2"),
    "other arguments": (changes_arguments, "1"),
    "a removed wait": (removes_the_wait, "3"),
    "another timer": (changes_the_timer, "2"),
    "a renamed step": (renames_the_step, "1"),
}


@pytest.mark.parametrize("stands", ["parked", "running"])
@pytest.mark.parametrize(("changed", "position"), LATER.values(), ids=LATER)
async def test_a_changed_workflow_blocks_a_run_and_does_nothing_and_the_old_code_ends_it(
    memory: Stage, changed: Any, position: str, stands: str
) -> None:
    RAN.clear()
    async with memory.serving(as_it_was, build="old", shutdown_grace=0) as client:
        run: Handle[str] = await client.start(as_it_was)
        await _waits_for_a_word(run)
        if stands == "running":
            await run.send(WORDS, "book")
            await soon(lambda: "slow book" in RAN)
    before = list(RAN)
    if stands == "parked":
        await run.send(WORDS, "book")
    async with memory.serving(changed, build="new"):
        await run.reached(Status.BLOCKED, timeout=SOON)
    with pytest.raises(ResultTimeout) as late:
        await run.result(timeout=0)
    assert late.value.blocked.position == position
    assert before == RAN
    RAN.append("slow book")
    async with memory.serving(as_it_was, build="old"):
        assert await run.result(timeout=SOON) == "book"
    await memory.no_gaps(run.id)


async def _waits_for_a_word(run: Handle[Any]) -> None:
    async with asyncio.timeout(SOON):
        while (await run.info()).waiting_for != "signal 'words'":
            await run.reached(Status.WAITING, timeout=SOON)
            await asyncio.sleep(0)


# --- ways to change code that go on -----------------------------------------------------------------------------------


async def test_a_step_that_is_renamed_while_it_is_open_keeps_its_idempotency_key(memory: Stage) -> None:
    keys: list[str] = []

    @activity
    async def charge_card() -> str:
        keys.append(current().idempotency_key)
        if len(keys) == 1:
            await asyncio.Event().wait()
        return "charged"

    @workflow(name="order")
    def with_the_old_name(ctx: Context) -> Flow[str]:
        return (yield from ctx.options(name="charge").step(charge_card))

    @workflow(name="order")
    def with_the_new_name(ctx: Context) -> Flow[str]:
        return (yield from ctx.options(formerly="charge").step(charge_card))

    async with memory.serving(with_the_old_name, build="old", shutdown_grace=0) as client:
        run = await client.start(with_the_old_name)
        await soon(lambda: keys)
    async with memory.serving(with_the_new_name, build="new"):
        assert await run.result(timeout=SOON) == "charged"
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_a_step_that_is_open_runs_with_the_arguments_of_the_new_code_if_any_will_do(memory: Stage) -> None:
    sent: list[tuple[str, str]] = []

    @activity
    async def mail(text: str) -> str:
        sent.append((text, current().idempotency_key))
        if len(sent) == 1:
            await asyncio.Event().wait()
        return text

    @workflow(name="order")
    def as_worded(ctx: Context) -> Flow[str]:
        return (yield from ctx.step(mail, "dear sir"))

    @workflow(name="order")
    def reworded(ctx: Context) -> Flow[str]:
        return (yield from ctx.options(arguments="any").step(mail, "hello"))

    async with memory.serving(as_worded, build="old", shutdown_grace=0) as client:
        run = await client.start(as_worded)
        await soon(lambda: sent)
    async with memory.serving(reworded, build="new"):
        assert await run.result(timeout=SOON) == "hello"
    assert [text for text, _ in sent] == ["dear sir", "hello"]
    assert len({key for _, key in sent}) == 1
