"""The watchdog: a stalled event loop is told with the line that stalls it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from runnerq.runtime.watchdog import FIRST, Watchdog
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from tests.runtime.stage import Stage

INSIDE, LET_GO = threading.Event(), threading.Event()


@workflow
def never_yields(ctx: Context) -> Flow[None]:
    INSIDE.set()
    LET_GO.wait(30)
    yield from ctx.sleep(0)


def beside(act: Callable[[], None]) -> threading.Thread:
    """Do this in another thread once the workflow is inside, and let it go on."""
    INSIDE.clear()
    LET_GO.clear()

    def work() -> None:
        INSIDE.wait(30)
        act()
        LET_GO.set()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


async def test_a_workflow_that_never_yields_is_named_with_its_run_and_its_line(
    memory: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    dog = Watchdog(7)
    async with memory.worker(never_yields):
        thread = beside(lambda: dog.look(FIRST))
        run = await memory.client.start(never_yields)
        await run.result(timeout=30)
    thread.join()
    line = never_yields.__code__.co_firstlineno + 3
    assert f"{__file__}:{line} in never_yields, in the workflow of run {run.id}" in caplog.text
    assert "worker 7: its event loop has not turned for 5 s" in caplog.text


def test_a_step_that_blocks_the_loop_is_named_with_its_line(caplog: pytest.LogCaptureFixture) -> None:
    dog = Watchdog(7)
    thread = beside(lambda: dog.look(FIRST))

    def blocks() -> None:
        INSIDE.set()
        LET_GO.wait(30)

    blocks()
    thread.join()
    assert f"{__file__}:{blocks.__code__.co_firstlineno + 2} in blocks" in caplog.text


def test_a_stall_is_told_again_only_when_it_has_doubled_and_a_new_one_from_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    dog = Watchdog(7)
    told = []
    for seconds in (1, 5, 6, 9.9, 10, 11, 20, 0.5, 4.9, 5):
        caplog.clear()
        dog.look(seconds)
        if caplog.records:
            told.append(seconds)
    assert told == [5, 10, 20, 5]
