"""What a run shows of itself, and how it ends; through a real worker."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from runnerq.errors import (
    Cancelled,
    NonRetryableError,
    RunCancelled,
    RunFailed,
    UsageError,
)
from runnerq.persistence.records import Status
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Stage


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


# --- state, options, info ---------------------------------------------------------------------------------------------


async def test_published_state_is_merged_seen_while_it_runs_and_kept_after_the_end(stage_in_memory: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.publish(done=0, total=2)
        yield ctx.signal("go")
        yield ctx.publish(done=2)

    async with stage_in_memory.serving(order) as client:
        run = await client.start(order)
        assert await run.wait(lambda state: state.get("total") == 2, timeout=SOON) == {"done": 0, "total": 2}
        await run.send("go", None)
        await run.result(timeout=SOON)
        assert await run.state() == {"done": 2, "total": 2}


async def test_an_entry_can_have_a_name_of_its_own(stage_in_memory: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.options(name="first charge").step(charge, 1)

    async with stage_in_memory.serving(order) as client:
        run = await client.start(order)
        await run.result(timeout=SOON)
        assert [entry.name for entry in await run.history()][1:] == ["first charge"]


async def test_info_says_who_the_run_is(stage_in_memory: Stage) -> None:
    @workflow(version=3)
    def order(ctx: Context) -> Flow[list[Any]]:
        yield ctx.sleep(0.001)
        info = ctx.info
        return [info.id, info.workflow, info.version, info.key, info.queue, info.generation, dict(info.metadata)]

    async with stage_in_memory.serving(order) as client:
        run = await client.options(key=f"key-{stage_in_memory.queue}", metadata={"shop": "north"}).start(order)
        answer = await run.result(timeout=SOON)
    assert answer == [run.id, "order", 3, f"key-{stage_in_memory.queue}", stage_in_memory.queue, 1, {"shop": "north"}]


# --- how a run ends ---------------------------------------------------------------------------------------------------


async def test_a_run_that_returns_nothing_completes_with_none(stage_in_memory: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[None]:
        if ctx.info.id == "":
            yield ctx.sleep(1)

    async with stage_in_memory.serving(order) as client:
        run = await client.start(order)
        assert await run.result(timeout=SOON) is None
        assert await run.status() is Status.COMPLETED


async def test_an_exception_of_the_workflow_fails_the_run_at_once(stage_in_memory: Stage) -> None:
    class OutOfStock(Exception):
        pass

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.step(charge, 1)
        raise OutOfStock("no cups")

    async with stage_in_memory.serving(order) as client:
        run = await client.start(order)
        with pytest.raises(RunFailed) as failed:
            await run.result(timeout=SOON)
    assert (failed.value.status, failed.value.reason, failed.value.error.message) == ("failed", None, "no cups")


async def test_a_result_that_cannot_be_stored_fails_the_run_and_says_why(stage_in_memory: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[Any]:
        yield ctx.step(charge, 1)
        return {"when": object()}

    async with stage_in_memory.serving(order) as client:
        with pytest.raises(RunFailed, match=r"order.*when"):
            await (await client.start(order)).result(timeout=SOON)


@pytest.mark.parametrize("leave", [SystemExit(3), GeneratorExit(), StopIteration(1), Cancelled("of my own")])
async def test_whatever_leaves_a_workflow_ends_its_run_and_not_the_worker(memory: Stage, leave: BaseException) -> None:
    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.step(charge, 1)
        raise leave

    async with memory.serving(order, pack) as client:
        run = await client.start(order)
        with pytest.raises((RunFailed, RunCancelled)):
            await run.result(timeout=SOON)
        assert await (await client.start(pack, ["cup"])).result(timeout=SOON) == "cup"


async def test_a_bad_yield_is_thrown_at_the_users_line(stage_in_memory: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        heard = []
        for bad in (None, 7, [ctx.step(charge, 1)], charge):
            try:
                yield bad  # type: ignore[misc]
            except UsageError as error:
                heard.append(str(error).split()[0])
        yield ctx.step(charge, 1)
        return heard

    assert await stage_in_memory.answer(order) == ["None", "int", "a", "charge,"]


async def test_options_that_no_child_could_have_are_thrown_at_the_users_line(stage_in_memory: Stage) -> None:
    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        heard = []
        bad: tuple[dict[str, Any], ...] = (
            {"queue": ""}, {"priority": 9}, {"priority": True},
            {"at": datetime(2030, 1, 1)}, {"at": ctx.now(), "delay": 1},  # noqa: DTZ001 - bad
        )  # fmt: skip
        for options in bad:
            try:
                yield ctx.options(**options).child(charge, 1)
            except UsageError as error:
                heard.append(str(error).partition("asked for: ")[2].split("=")[0])
        yield ctx.step(charge, 1)
        return heard

    assert await stage_in_memory.answer(order) == ["queue", "priority", "priority", "at", "delay"]
