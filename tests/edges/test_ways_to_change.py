"""The ways to change code while runs are open, by real workers of several builds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runnerq.client.handle import Handle
from runnerq.errors import ResultTimeout
from runnerq.persistence.records import Status
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Stage

WORDS: Signal[str] = Signal("words", str)
RAN: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


@activity
async def note(what: str) -> str:
    RAN.append(what)
    return what


@activity
async def also_note(what: str) -> str:
    RAN.append(what)
    return what


def flow(body: Callable[[Context], Any], version: int = 1) -> Any:
    """A version of the workflow ``order``, which ends with a word."""

    @workflow(name="order", version=version)
    def order(ctx: Context) -> Flow[str]:
        yield from body(ctx)
        return (yield from ctx.signal(WORDS))

    return order


async def block_of(run: Handle[Any]) -> Any:
    """Why the run is blocked, as whoever waits for its result is told."""
    with pytest.raises(ResultTimeout) as late:
        await run.result(timeout=0)
    return late.value.blocked


def first_code(ctx: Context) -> Any:
    yield ctx.step(note, "old way")
    yield ctx.signal(WORDS)


def patched_code(ctx: Context) -> Any:
    if ctx.patched("greet"):
        yield ctx.step(note, "new way")
    else:
        yield ctx.step(note, "old way")
    yield ctx.signal(WORDS)


def code_without_the_patch(ctx: Context) -> Any:
    yield ctx.step(note, "new way")
    yield ctx.signal(WORDS)


class Builds:
    """Workers of this stage, each of a build that the database has not seen before."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._stage.cache = 0

    def serving(self, build: str, *functions: Any) -> Any:
        return self._stage.serving(*functions, build=f"{build} {self._stage.queue}")

    async def parked(self, build: str, order: Any) -> Handle[str]:
        """A run that this build has begun, and that waits for a word."""
        async with self.serving(build, order) as client:
            run: Handle[str] = await client.start(order)
            await run.reached(Status.WAITING, timeout=SOON)
            return run

    async def goes_on(self, build: str, order: Any, run: Handle[str]) -> None:
        """The run ends with this build."""
        await run.send(WORDS, "one")
        await run.send(WORDS, "two")
        async with self.serving(build, order):
            assert await run.result(timeout=SOON) == "two"
        await self._stage.no_gaps(run.id)

    async def blocked(self, build: str, order: Any, run: Handle[str]) -> Any:
        """The run is blocked by this build; why."""
        await run.send(WORDS, "one")
        async with self.serving(build, order):
            await run.reached(Status.BLOCKED, timeout=SOON)
        return await block_of(run)


# --- patched ----------------------------------------------------------------------------------------------------------


async def test_an_open_run_goes_the_old_way_of_a_patch_and_a_new_one_the_new_way(plain_stage: Stage) -> None:
    builds = Builds(plain_stage)
    patched = flow(patched_code)
    old = await builds.parked("one", flow(first_code))
    new = await builds.parked("two", patched)
    assert RAN == ["old way", "new way"]
    for run in (old, new):
        await builds.goes_on("two", patched, run)
    assert RAN == ["old way", "new way"]


async def test_a_rollback_behind_a_patch_blocks_the_runs_that_went_the_new_way_and_they_wait_for_the_new_build(
    plain_stage: Stage,
) -> None:
    builds = Builds(plain_stage)
    patched = flow(patched_code)
    await builds.parked("one", flow(first_code))
    run = await builds.parked("two", patched)
    block = await builds.blocked("one", flow(first_code), run)
    assert "greet" in block.message
    assert len(block.builds) == 1
    await run.send(WORDS, "two")
    async with builds.serving("two", patched):
        assert await run.result(timeout=SOON) == "two"
    assert RAN == ["old way", "new way"]


async def test_a_patch_is_removed_by_a_later_build_without_ceremony(plain_stage: Stage) -> None:
    builds = Builds(plain_stage)
    run = await builds.parked("two", flow(patched_code))
    await builds.goes_on("three", flow(code_without_the_patch), run)
    assert RAN == ["new way"]


# --- names and arguments ----------------------------------------------------------------------------------------------


async def test_a_renamed_step_says_what_it_was_called_and_open_runs_go_on(plain_stage: Stage) -> None:
    def renamed(ctx: Context) -> Any:
        yield ctx.options(formerly="note").step(also_note, "old way")
        yield ctx.signal(WORDS)

    def renamed_silently(ctx: Context) -> Any:
        yield ctx.step(also_note, "old way")
        yield ctx.signal(WORDS)

    builds = Builds(plain_stage)
    run = await builds.parked("one", flow(first_code))
    block = await builds.blocked("two", flow(renamed_silently), run)
    assert ("note" in block.recorded, "also_note" in block.asked) == (True, True)
    await run.send(WORDS, "two")
    async with builds.serving("three", flow(renamed)):
        assert await run.result(timeout=SOON) == "two"
    assert RAN == ["old way"]


async def test_a_step_whose_arguments_changed_harmlessly_says_so_and_open_runs_go_on(plain_stage: Stage) -> None:
    def reworded(ctx: Context) -> Any:
        yield ctx.options(arguments="any").step(note, "an old way, in other words")
        yield ctx.signal(WORDS)

    builds = Builds(plain_stage)
    run = await builds.parked("one", flow(first_code))
    await builds.goes_on("two", flow(reworded), run)
    assert RAN == ["old way"]


async def test_a_parameter_with_a_default_may_be_added_to_a_workflow(plain_stage: Stage) -> None:
    @workflow(name="order")
    def takes_one(ctx: Context, what: str) -> Flow[str]:
        yield from ctx.step(note, what)
        return (yield from ctx.signal(WORDS))

    @workflow(name="order")
    def takes_two(ctx: Context, what: str, gift: bool = False) -> Flow[str]:
        yield from ctx.step(note, what)
        return f"{yield from ctx.signal(WORDS)} {gift}"

    plain_stage.cache = 0
    async with plain_stage.serving(takes_one, build="one") as client:
        run = await client.start(takes_one, "cup")
        await run.reached(Status.WAITING, timeout=SOON)
    await run.send(WORDS, "done")
    async with plain_stage.serving(takes_two, build="two"):
        assert await run.result(timeout=SOON) == "done False"


# --- versions ---------------------------------------------------------------------------------------------------------


async def test_open_runs_stay_with_their_version_and_wait_for_a_worker_that_has_it(plain_stage: Stage) -> None:
    builds = Builds(plain_stage)
    first, second = flow(first_code), flow(code_without_the_patch, version=2)
    run = await builds.parked("one", first)
    await run.send(WORDS, "one")
    async with builds.serving("two", second) as client:
        other = await client.start(second)
        await other.reached(Status.WAITING, timeout=SOON)
        assert await run.status() is Status.PENDING
    await run.send(WORDS, "two")
    async with builds.serving("three", first, second):
        assert await run.result(timeout=SOON) == "two"
    assert RAN == ["old way", "new way"]


# --- blocked ----------------------------------------------------------------------------------------------------------


async def test_a_blocked_run_takes_what_was_sent_to_it_meanwhile_once_it_goes_on(plain_stage: Stage) -> None:
    builds = Builds(plain_stage)
    run = await builds.parked("one", flow(first_code))
    await builds.blocked("two", flow(code_without_the_patch), run)
    await run.send(WORDS, "sent while it was blocked")
    async with builds.serving("one", flow(first_code)):
        assert await run.result(timeout=SOON) == "sent while it was blocked"
