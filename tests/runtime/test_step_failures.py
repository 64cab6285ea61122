"""Failures of steps as data, what steps raise that is no failure, and what a step knows of itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runnerq.client.handle import Handle
from runnerq.errors import (
    RunFailed,
)
from runnerq.persistence.records import Status
from runnerq.retry import RetryPolicy
from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Gate, Stage

QUICK = RetryPolicy(max_attempts=3, base=0.01, jitter=0)


async def failed(run: Handle[Any]) -> RunFailed:
    with pytest.raises(RunFailed) as found:
        await run.result(timeout=SOON)
    return found.value


# --- failures as data -------------------------------------------------------------------------------------------------


class CardDeclined(Exception):
    """With a constructor of its own."""

    def __init__(self, card: str, *, code: int) -> None:
        self.card = card
        self.code = code
        super().__init__(f"card {card} declined ({code})")

    def __reduce__(self) -> Any:
        return _declined, (self.card, self.code)


def _declined(card: str, code: int) -> CardDeclined:
    return CardDeclined(card, code=code)


class OutOfStock(Exception):
    def __init__(self, item: str, left: int) -> None:
        self.item = item
        self.left = left
        super().__init__(item, left)


async def test_a_failure_is_the_same_exception_live_and_in_every_replay(stage_in_memory: Stage) -> None:
    @activity
    async def buy() -> None:
        error = OutOfStock("cup", 0)
        error.add_note("asked twice")
        raise error from ValueError("shelf 7 is empty")

    @workflow
    def order(ctx: Context) -> Flow[list[list[Any]]]:
        seen = []
        for _ in range(2):
            try:
                yield ctx.options(retry=1).step(buy)
            except OutOfStock as error:
                seen.append([
                    error.item, error.left, list(error.args), error.__notes__,
                    type(error.__cause__).__name__, str(error.__cause__),
                ])  # fmt: skip
            yield ctx.sleep(0.001)
        return seen

    what = ["cup", 0, ["cup", 0], ["asked twice"], "ValueError", "shelf 7 is empty"]
    assert await stage_in_memory.answer(order) == [what, what]


async def test_a_class_that_cannot_be_made_again_is_a_step_error_with_the_record(stage_in_memory: Stage) -> None:
    @activity
    async def pay() -> None:
        class Local(Exception):
            pass

        raise Local("nobody can import this")

    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        try:
            yield ctx.options(retry=1).step(pay)
        except Exception as error:
            yield ctx.sleep(0.001)
            return [type(error).__name__, str(error), error.failure.type.rpartition(".")[2]]  # type: ignore[attr-defined]
        return []

    assert await stage_in_memory.answer(order) == ["StepError", "nobody can import this", "Local"]


@pytest.mark.parametrize("leave", [SystemExit(3), GeneratorExit(), StopIteration(7)])
@pytest.mark.parametrize("threaded", [False, True], ids=["async", "sync"])
async def test_a_step_that_means_to_end_the_process_fails_its_run_and_stops_nobody(
    memory: Stage, leave: BaseException, threaded: bool
) -> None:
    @activity
    async def leave_async() -> None:
        raise leave

    @activity
    def leave_sync() -> None:
        raise leave

    @workflow
    def order(ctx: Context, leaves: bool) -> Flow[str]:
        if leaves:
            yield ctx.step(leave_sync if threaded else leave_async)
        return (yield from ctx.step(lambda: "fine"))

    async with memory.serving(order) as client:
        why = await failed(await client.start(order, True))
        assert why.status == "failed"
        assert await (await client.start(order, False)).result(timeout=SOON) == "fine"


async def test_a_cancelled_error_of_the_steps_own_is_a_failed_attempt(stage_in_memory: Stage) -> None:
    tries: list[int] = []

    @activity
    async def odd() -> str:
        tries.append(current().attempt)
        if len(tries) == 1:
            raise asyncio.CancelledError
        return "fine"

    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.options(retry=QUICK).step(odd))

    assert await stage_in_memory.answer(order) == "fine"
    assert tries == [1, 2]


async def test_a_keyboard_interrupt_in_a_step_writes_nothing_and_stops_the_worker(memory: Stage) -> None:
    gate = Gate()

    @activity
    async def interrupted() -> None:
        if not gate.come.is_set():
            gate.come.set()
            raise KeyboardInterrupt

    @workflow
    def order(ctx: Context) -> Flow[str]:
        yield ctx.step(interrupted)
        return "fine"

    run = await memory.client.start(order)
    worker = memory.worker(order)
    with pytest.raises(KeyboardInterrupt):
        await worker.run()
    assert await run.status() is Status.PENDING
    assert [entry.state for entry in await run.history()] == ["answered", "asked"]
    async with memory.serving(order):
        assert await run.result(timeout=SOON) == "fine"


# --- what a step knows of itself --------------------------------------------------------------------------------------


@pytest.mark.parametrize("threaded", [False, True], ids=["async", "sync"])
async def test_a_step_knows_its_run_its_entry_and_its_deadline(stage_in_memory: Stage, threaded: bool) -> None:
    def facts() -> list[Any]:
        now = current()
        assert now.deadline is not None
        now.heartbeat({"half": True})
        return [now.run_id, now.workflow, now.name, now.entry, now.attempt, now.metadata, now.cancelled]

    async def facts_async() -> list[Any]:
        return facts()

    @workflow
    def order(ctx: Context) -> Flow[list[Any]]:
        return (yield from ctx.options(name="facts").step(facts if threaded else facts_async))

    async with stage_in_memory.serving(order) as client:
        run = await client.options(metadata={"shop": "north"}).start(order)
        answer = await run.result(timeout=SOON)
    assert answer == [run.id, "order", "facts", "1", 1, {"shop": "north"}, False]


async def test_a_step_can_start_runs_with_the_client_it_is_given(stage_in_memory: Stage) -> None:
    @activity
    async def hello() -> str:
        return "hello"

    @activity
    async def begin() -> str:
        run = await current().client.start(hello)
        return str(run.id)

    @workflow
    def order(ctx: Context) -> Flow[str]:
        return (yield from ctx.step(begin))

    async with stage_in_memory.serving(order, hello) as client:
        begun = await (await client.start(order)).result(timeout=SOON)
        assert await client.handle(begun, str).result(timeout=SOON) == "hello"
