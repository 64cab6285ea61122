"""What leaves user code and is no ordinary error has an answer each: no run is lost, no worker stopped by a mere step.

In a step it is an attempt that failed; in a workflow it ends or blocks the run. Only Ctrl-C, which means the process,
writes nothing: the run goes to the next worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from runnerq.errors import RunFailed
from runnerq.persistence.records import Status
from runnerq.retry import RetryPolicy
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Stage

QUICK = RetryPolicy(max_attempts=3, base=0.001, jitter=0)
UNDONE: list[str] = []
CALLS: list[str] = []
RAISES: list[BaseException] = []
"""What the next attempts of a step raise; nothing once it is empty."""
FAULTS: list[BaseException] = []
"""What the workflow raises, once."""


@pytest.fixture(autouse=True)
def _nothing_happened() -> None:
    UNDONE.clear()
    CALLS.clear()
    RAISES.clear()
    FAULTS.clear()


def raise_what_is_due() -> None:
    CALLS.append("called")
    if RAISES:
        raise RAISES.pop(0)


@activity
async def refund() -> None:
    UNDONE.append("refunded")


@activity(retry=QUICK)
async def charge_async() -> str:
    raise_what_is_due()
    return "charged"


@activity(retry=QUICK)
def charge_sync() -> str:
    raise_what_is_due()
    return "charged"


@workflow
def pays(ctx: Context, threaded: bool) -> Flow[str]:
    ctx.compensate(refund)
    if threaded:
        return (yield from ctx.step(charge_sync))
    return (yield from ctx.step(charge_async))


@workflow
def computes(ctx: Context) -> Flow[str]:
    ctx.compensate(refund)
    charged = yield from ctx.step(charge_async)
    if FAULTS:
        raise FAULTS.pop()
    yield from ctx.sleep(0)
    return charged


@workflow
def others(ctx: Context) -> Flow[str]:
    return (yield from ctx.step(charge_async))


both_kinds = pytest.mark.parametrize("threaded", [False, True], ids=["async", "sync"])


def too_deep() -> RecursionError:
    def dig() -> None:
        dig()

    try:
        dig()
    except RecursionError as error:
        return error
    raise AssertionError


# --- in a step --------------------------------------------------------------------------------------------------------


@both_kinds
@pytest.mark.parametrize(
    "make", [MemoryError, too_deep, asyncio.CancelledError, ValueError], ids=lambda make: make.__name__
)
async def test_in_a_step_it_is_a_failed_attempt_and_the_next_one_answers(
    memory: Stage, make: Callable[[], BaseException], threaded: bool
) -> None:
    RAISES.append(make())
    async with memory.serving(pays, refund) as client:
        run = await client.start(pays, threaded)
        assert await run.result(timeout=SOON) == "charged"
    assert (CALLS, UNDONE) == (["called"] * 2, [])


@both_kinds
@pytest.mark.parametrize("make", [MemoryError, too_deep, asyncio.CancelledError], ids=lambda make: make.__name__)
async def test_in_every_attempt_of_a_step_it_makes_the_run_a_dead_letter(
    memory: Stage, make: Callable[[], BaseException], threaded: bool
) -> None:
    RAISES.extend(make() for _ in range(3))
    async with memory.serving(pays, refund) as client:
        run = await client.start(pays, threaded)
        with pytest.raises(RunFailed) as failed:
            await run.result(timeout=SOON)
    assert (failed.value.status, failed.value.reason) == ("dead_letter", "attempts")
    assert CALLS == ["called"] * 3


@both_kinds
async def test_a_system_exit_in_a_step_fails_the_run_after_one_attempt_and_stops_nobody(
    memory: Stage, threaded: bool
) -> None:
    RAISES.append(SystemExit(3))
    async with memory.serving(pays, others, refund) as client:
        run = await client.start(pays, threaded)
        with pytest.raises(RunFailed) as failed:
            await run.result(timeout=SOON)
        assert failed.value.status == "failed"
        assert CALLS == ["called"]
        assert await (await client.start(others)).result(timeout=SOON) == "charged"


@both_kinds
async def test_a_ctrl_c_in_a_step_stops_the_worker_writes_nothing_and_undoes_nothing(
    memory: Stage, threaded: bool
) -> None:
    RAISES.append(KeyboardInterrupt())
    run = await memory.client.start(pays, threaded)
    with pytest.raises(KeyboardInterrupt):
        await memory.worker(pays, refund).run()
    assert await run.status() is Status.PENDING
    assert [entry.state for entry in await run.history()] == ["answered", "asked"]
    async with memory.serving(pays, refund):
        assert await run.result(timeout=SOON) == "charged"
    assert UNDONE == []


# --- in a workflow ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [MemoryError, too_deep], ids=lambda make: make.__name__)
async def test_in_a_workflow_what_may_be_a_fault_blocks_it_undoes_nothing_and_it_goes_on(
    memory: Stage, make: Callable[[], BaseException]
) -> None:
    FAULTS.append(make())
    async with memory.serving(computes, others, refund) as client:
        run = await client.start(computes)
        await run.reached(Status.BLOCKED, timeout=SOON)
        assert await (await client.start(others)).result(timeout=SOON) == "charged"
        assert UNDONE == []
        assert await client.retry(run.id)
        assert await run.result(timeout=SOON) == "charged"
    assert (UNDONE, CALLS) == ([], ["called"] * 2)


@pytest.mark.parametrize("make", [SystemExit, GeneratorExit, asyncio.CancelledError], ids=lambda make: make.__name__)
async def test_in_a_workflow_what_means_to_leave_fails_its_run_and_stops_nobody(
    memory: Stage, make: Callable[[], BaseException]
) -> None:
    FAULTS.append(make())
    async with memory.serving(computes, others, refund) as client:
        run = await client.start(computes)
        with pytest.raises(RunFailed) as failed:
            await run.result(timeout=SOON)
        assert failed.value.status == "failed"
        assert await (await client.start(others)).result(timeout=SOON) == "charged"


async def test_a_ctrl_c_in_a_workflow_stops_the_worker_writes_nothing_and_undoes_nothing(memory: Stage) -> None:
    FAULTS.append(KeyboardInterrupt())
    run = await memory.client.start(computes)
    with pytest.raises(KeyboardInterrupt):
        await memory.worker(computes, refund).run()
    assert await run.status() is Status.PENDING
    async with memory.serving(computes, refund):
        assert await run.result(timeout=SOON) == "charged"
    assert UNDONE == []
