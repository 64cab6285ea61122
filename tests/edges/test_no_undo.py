"""When undos run and when not, at ends that are neither a plain failure nor a plain cancel."""

from __future__ import annotations

import pytest

from runnerq.clock import ManualClock
from runnerq.errors import NonRetryableError, RunCancelled, RunFailed
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import Status
from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Stage
from tests.runtime.test_leases import haunt

WORDS: Signal[str] = Signal("words", str)
KEYS: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    KEYS.clear()


@activity(retry=3)
async def give_back(fails: bool = False) -> None:
    KEYS.append(current().idempotency_key)
    if fails and len(KEYS) == 1:
        raise ValueError("not now")


@activity(retry=1)
async def refuse() -> None:
    raise NonRetryableError("no")


@workflow
def waits(ctx: Context) -> Flow[str]:
    ctx.compensate(give_back)
    return (yield from ctx.signal(WORDS))


@workflow
def fails(ctx: Context) -> Flow[None]:
    ctx.compensate(give_back, fails=True)
    yield from ctx.step(refuse)


async def test_a_run_that_ends_in_a_crash_loop_undoes_nothing() -> None:
    clock = ManualClock()
    stage = Stage(MemoryStorage(clock))
    async with stage.base, stage.worker(give_back, reaper_interval=0.01, beat=0.02):
        run = await stage.client.start(waits)
        for _ in range(4):
            assert (await haunt(stage, "waits@1", lease=1)).runs
            clock.advance(2)
            await run.reached(Status.PENDING, Status.RETRYING, timeout=SOON)
            clock.advance(8)
            await stage.storage.wake_due(1)
        assert (await haunt(stage, "waits@1", lease=1)).runs
        clock.advance(2)
        await run.reached(Status.DEAD_LETTER, timeout=SOON)
        assert (await run.info()).reason == "crash_loop"
    assert KEYS == []


async def test_a_run_that_completes_undoes_nothing(memory: Stage) -> None:
    async with memory.serving(waits, give_back) as client:
        run = await client.start(waits)
        await run.send(WORDS, "fine")
        assert await run.result(timeout=SOON) == "fine"
    assert KEYS == []


async def test_every_attempt_of_an_undo_has_one_key_that_is_no_steps(memory: Stage) -> None:
    async with memory.serving(fails, give_back) as client:
        run = await client.start(fails)
        with pytest.raises(RunFailed):
            await run.result(timeout=SOON)
    assert [f"{run.id}:1:u1:undo:give_back"] * 2 == KEYS


async def test_a_run_past_its_timeout_is_undone(memory: Stage) -> None:
    async with memory.serving(waits, give_back) as client:
        run = await client.options(timeout=0.05).start(waits)
        with pytest.raises(RunCancelled) as cancelled:
            await run.result(timeout=SOON)
    assert cancelled.value.reason == "timeout"
    assert len(KEYS) == 1


async def test_a_run_that_is_terminated_cleans_nothing_up(stage: Stage) -> None:
    @workflow
    def tidies(ctx: Context) -> Flow[str]:
        try:
            return (yield from ctx.signal(WORDS))
        finally:
            yield from ctx.step(give_back)

    async with stage.serving(tidies, waits) as client:
        run = await client.start(tidies)
        await run.reached(Status.WAITING, timeout=SOON)
        assert await client.terminate(run.id)
        await run.reached(Status.CANCELLED, timeout=SOON)
        # The worker goes on, and has done all that came of it.
        other = await client.start(waits)
        await other.send(WORDS, "fine")
        await other.result(timeout=SOON)
    assert KEYS == []
