"""Undos by a real worker: recorded, retried steps in reverse order, before a run ends badly."""

from __future__ import annotations

import asyncio

import pytest

from runnerq.errors import NonRetryableError, RunCancelled, RunFailed, WrongState
from runnerq.persistence.records import Status
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Stage

DONE: list[str] = []
BROKEN: dict[str, int] = {}
REACHED = asyncio.Event()


@pytest.fixture(autouse=True)
def fresh() -> None:
    DONE.clear()
    BROKEN.clear()


@activity(retry=2)
async def book(what: str) -> str:
    DONE.append(f"book {what}")
    return what


@activity(retry=2)
async def undo(what: str) -> None:
    if BROKEN.get(what, 0) > 0:
        BROKEN[what] -= 1
        raise ValueError(f"{what} cannot be undone now")
    DONE.append(f"undo {what}")


@activity(retry=2)
async def refuses() -> None:
    raise NonRetryableError("full")


@activity(retry=1)
async def keeps_failing() -> None:
    raise ValueError("down")


@workflow
def trip(ctx: Context, end: str) -> Flow[None]:
    for what in ("flight", "hotel"):
        yield from ctx.step(book, what)
        ctx.compensate(undo, what)
    if end == "refused":
        yield from ctx.step(refuses)
    if end == "exhausted":
        yield from ctx.step(keeps_failing)
    if end == "bug":
        raise KeyError("a bug")
    if end == "waits":
        yield from ctx.sleep(3600)


async def _failed(stage: Stage, end: str) -> tuple[RunFailed, str]:
    async with stage.serving(trip, book, undo) as client:
        run = await client.start(trip, end)
        with pytest.raises(RunFailed) as caught:
            await run.result(timeout=SOON)
        return caught.value, run.id


async def test_undos_run_in_reverse_order_before_a_run_fails(stage: Stage) -> None:
    failed, run_id = await _failed(stage, "refused")
    assert DONE == ["book flight", "book hotel", "undo hotel", "undo flight"]
    assert (failed.status, failed.error.message) == ("failed", "full")  # type: ignore[union-attr]  # it failed
    entries = {entry.position: entry for entry in await stage.client.history(run_id)}
    assert [entries[at].kind for at in ("u1", "u2")] == ["undo", "undo"]
    assert [entries[at].state for at in ("u1", "u2")] == ["answered", "answered"]


async def test_undos_run_before_a_run_becomes_a_dead_letter(stage: Stage) -> None:
    failed, _ = await _failed(stage, "exhausted")
    assert DONE[2:] == ["undo hotel", "undo flight"]
    assert (failed.status, failed.reason) == ("dead_letter", "attempts")


async def test_undos_run_before_a_run_is_cancelled(stage: Stage) -> None:
    async with stage.serving(trip, book, undo) as client:
        run = await client.start(trip, "waits")
        await run.reached(Status.WAITING, timeout=SOON)
        await run.cancel("changed my mind")
        with pytest.raises(RunCancelled) as caught:
            await run.result(timeout=SOON)
        assert caught.value.reason == "changed my mind"
        assert DONE[2:] == ["undo hotel", "undo flight"]


async def test_nothing_is_undone_when_the_code_has_a_fault(stage: Stage) -> None:
    async with stage.serving(trip, book, undo) as client:
        run = await client.start(trip, "bug")
        await run.reached(Status.BLOCKED, timeout=SOON)
        assert DONE == ["book flight", "book hotel"]


async def test_nothing_is_undone_when_a_run_is_terminated(stage: Stage) -> None:
    async with stage.serving(trip, book, undo) as client:
        run = await client.start(trip, "waits")
        await run.reached(Status.WAITING, timeout=SOON)
        assert await client.terminate(run.id)
        with pytest.raises(RunCancelled) as caught:
            await run.result(timeout=SOON)
        assert caught.value.reason == "terminated"
        assert DONE == ["book flight", "book hotel"]


async def test_an_undo_is_tried_again_as_any_step_is(stage: Stage) -> None:
    BROKEN["hotel"] = 1
    failed, _ = await _failed(stage, "refused")
    assert failed.status == "failed"
    assert DONE[2:] == ["undo hotel", "undo flight"]


async def test_where_an_undo_fails_the_others_still_run_and_a_retry_goes_on_at_it(stage: Stage) -> None:
    BROKEN["hotel"] = 2
    failed, run_id = await _failed(stage, "refused")
    assert (failed.status, failed.reason) == ("dead_letter", "undo_failed")
    assert DONE[2:] == ["undo flight"]
    async with stage.serving(trip, book, undo) as client:
        assert await client.retry(run_id)
        with pytest.raises(RunFailed) as caught:
            await client.handle(run_id).result(timeout=SOON)
        assert (caught.value.status, caught.value.error.message) == ("failed", "full")  # type: ignore[union-attr]
    assert DONE[2:] == ["undo flight", "undo hotel"]


async def test_a_run_whose_undos_have_begun_cannot_be_retried(stage: Stage) -> None:
    _, run_id = await _failed(stage, "refused")
    with pytest.raises(WrongState, match="undos have begun"):
        await stage.client.retry(run_id)


async def test_a_second_cancel_while_undos_run_adds_nothing(stage: Stage) -> None:
    let_go, inside = asyncio.Event(), asyncio.Event()

    @activity
    async def slow_undo() -> None:
        inside.set()
        await let_go.wait()
        DONE.append("slowly undone")

    @workflow
    def undoes_slowly(ctx: Context) -> Flow[None]:
        ctx.compensate(slow_undo)
        yield from ctx.sleep(3600)

    async with stage.serving(undoes_slowly, slow_undo) as client:
        run = await client.start(undoes_slowly)
        await run.reached(Status.WAITING, timeout=SOON)
        await run.cancel("first")
        await inside.wait()
        await run.cancel("second")
        let_go.set()
        with pytest.raises(RunCancelled) as caught:
            await run.result(timeout=SOON)
        assert (caught.value.reason, DONE) == ("first", ["slowly undone"])


async def test_a_run_whose_undos_have_begun_cannot_be_forked(stage: Stage) -> None:
    _, run_id = await _failed(stage, "refused")
    with pytest.raises(WrongState, match="start it anew"):
        await stage.client.fork(run_id, from_entry="2")


async def test_an_undo_that_failed_is_named_where_the_failure_is_shown(memory: Stage) -> None:
    BROKEN["hotel"] = 2
    failed, _ = await _failed(memory, "refused")
    assert any("an undo failed: ValueError: hotel cannot be undone now" in note for note in failed.__notes__)
