"""Transactions that are cut off, and functions that make nothing of it: what was cut off is never on record."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Literal
from uuid import UUID

import asyncpg
import pytest

from runnerq.errors import RunCancelled, StepTimeout
from runnerq.retry import RetryPolicy
from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.bank import Bank, bank, opened, pay, postgres
from tests.runtime.stage import SOON, Gate, Stage
from tests.runtime.test_transactions import entry

__all__ = ["bank", "opened", "postgres"]

pytestmark = pytest.mark.asyncio(loop_scope="module")

GO: Signal[int] = Signal("go", int)


async def insist(connection: Any, gate: Gate) -> str:
    """Pays, and ends well whoever cancels it."""
    await pay(connection, "insisted")
    with contextlib.suppress(asyncio.CancelledError):
        await gate.pass_through()
    return "insisted"


@pytest.mark.parametrize("attempts", [1, 2])
async def test_one_that_ignores_its_timeout_and_ends_is_not_on_record(
    postgres: Stage, bank: Bank, attempts: int
) -> None:
    gate = Gate()

    async def slow(connection: Any) -> str:
        if current().attempt > 1:
            return await pay(connection, "second")
        return await insist(connection, gate)

    @workflow
    def buy(ctx: Context) -> Flow[str]:
        # The second attempt has no more time than the first: where that is not enough, another one has to do.
        policy = RetryPolicy(max_attempts=1 if attempts == 1 else 0, base=0.01)
        try:
            return (yield from ctx.options(timeout=0.3, retry=policy).transaction(slow))
        except StepTimeout:
            return (yield from ctx.transaction(pay, "refund"))

    async with postgres.serving(buy) as client:
        run = await client.start(buy)
        said = "refund" if attempts == 1 else "second"
        assert await run.result(timeout=SOON) == said
    assert await bank.paid(run) == [said]
    assert (await entry(run)).state == ("failed" if attempts == 1 else "answered")
    await postgres.no_gaps(run.id)


@pytest.mark.parametrize("how", ["cancel", "race", "stop"])
async def test_one_that_ignores_being_cut_off_and_ends_is_not_on_record(
    postgres: Stage, bank: Bank, how: Literal["cancel", "race", "stop"]
) -> None:
    gate = Gate()

    async def stall(connection: Any) -> str:
        return await insist(connection, gate)

    @workflow
    def buy(ctx: Context) -> Flow[int]:
        first = yield from ctx.race(ctx.transaction(stall), ctx.signal(GO))
        return first.index

    worker = postgres.worker(buy, shutdown_grace=0)
    async with worker:
        run = await postgres.client.start(buy)
        await gate.somebody()
        if how == "stop":
            await worker.stop()
            assert await bank.paid(run) == []
            gate.open()
        elif how == "cancel":
            await run.cancel("changed my mind")
            with pytest.raises(RunCancelled, match="changed my mind"):
                await run.result(timeout=SOON)
            assert (await entry(run, "1.0")).state == "interrupted"
        else:
            await run.send(GO, 1)
            assert await run.result(timeout=SOON) == 1
    if how == "stop":
        async with postgres.serving(buy):
            assert await run.result(timeout=SOON) == 0
    assert await bank.paid(run) == (["insisted"] if how == "stop" else [])
    await postgres.no_gaps(run.id)


async def test_one_that_is_cut_off_behind_its_function_is_rolled_back_and_burdens_nobody(
    postgres: Stage, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It waits for its run's row, which somebody holds, when its time is over.
    monkeypatch.setattr("runnerq.runtime.attempts.GRACE", 0.1)
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    gate = Gate()

    async def late(connection: Any) -> str:
        await gate.pass_through()
        return await pay(connection, "late")

    @workflow
    def buy(ctx: Context) -> Flow[str]:
        return (yield from ctx.options(timeout=0.5, retry=1).transaction(late))

    async with postgres.serving(buy) as client:
        run = await client.start(buy)
        await gate.somebody()
        holder = await asyncpg.connect(bank.dsn)
        async with holder.transaction():
            await holder.execute("select 1 from runnerq.live where run_id = $1 for update", UUID(run.id))
            gate.open()
            await asyncio.sleep(1)
        await holder.close()
        with pytest.raises(Exception, match=r"took longer than its timeout of 0.5 s"):
            await run.result(timeout=SOON)
    assert faults == []
    assert await bank.paid(run) == []


# --- a function beside which its run cannot go on ---------------------------------------------------------------------


@pytest.mark.parametrize("how", ["cancel", "race", "deadline", "step"])
async def test_one_that_holds_its_own_runs_row_keeps_nothing_waiting_for_good(
    postgres: Stage, bank: Bank, monkeypatch: pytest.MonkeyPatch, how: Literal["cancel", "race", "deadline", "step"]
) -> None:
    monkeypatch.setattr("runnerq.runtime.next_place.CROSSED", 0.1)
    calls = 0
    sibling, told = Gate(), Gate()

    async def ship() -> None: ...

    async def hold(connection: Any) -> str:
        nonlocal calls
        calls += 1
        await pay(connection, "shipped")
        joined = current().client.options(connection=connection, queue="nobody serves it")
        child = await joined.start(activity(ship))
        sibling.open()
        if how != "step" or calls == 1:
            # Until it has to make room.
            await asyncio.get_running_loop().create_future()
        return str(child.id)

    async def beside() -> None:
        await sibling.pass_through()

    async def say() -> None:
        told.open()

    def others(ctx: Context) -> Flow[None]:
        yield from ctx.step(beside)
        yield from ctx.step(say)

    @workflow(timeout=1.5 if how == "deadline" else None)
    def buy(ctx: Context) -> Flow[int]:
        both = ctx.all(ctx.transaction(hold), others(ctx))
        return (yield from ctx.race(both, ctx.sleep(1.5 if how == "race" else 1000))).index

    async with postgres.serving(buy) as client:
        run = await client.start(buy)
        if how == "cancel":
            async with asyncio.timeout(SOON):
                await told.pass_through()
                await run.cancel("changed my mind")
        if how in ("cancel", "deadline"):
            with pytest.raises(RunCancelled):
                await run.result(timeout=SOON)
        else:
            assert await run.result(timeout=SOON) == (1 if how == "race" else 0)
    if how == "step":
        assert calls > 1
    assert await bank.paid(run) == (["shipped"] if how == "step" else [])
    await postgres.no_gaps(run.id)
