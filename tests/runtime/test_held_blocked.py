"""Runs that cannot go on with the code a worker has: they block, lose nothing, and go on with other code."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec
import pytest

from runnerq.client.client import Client
from runnerq.client.handle import Handle
from runnerq.errors import DepthExceeded, ResultTimeout, RunCancelled, StorageRefused
from runnerq.persistence.records import BlockRecord, Status
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from runnerq.workflow.journal import RULES
from tests.runtime.stage import SOON, Stage, Tapped

WORDS: Signal[str] = Signal("words", str)
ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@activity
async def note(what: str) -> str:
    ran.append(what)
    return what


@activity
async def add(number: int) -> int:
    return number + 1


async def blocked(run: Handle[Any]) -> BlockRecord:
    """Why the run is blocked, as a caller who waits for its result is told."""
    await run.reached(Status.BLOCKED, timeout=SOON)
    with pytest.raises(ResultTimeout) as late:
        await run.result(timeout=0)
    found = late.value.blocked
    assert isinstance(found, BlockRecord)
    return found


# --- divergence -------------------------------------------------------------------------------------------------------


def first_code() -> Any:
    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        first = yield from ctx.step(note, "one")
        second = yield from ctx.signal(WORDS)
        return [first, second, (yield from ctx.step(note, "two"))]

    return order


def second_code() -> Any:
    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        yield ctx.step(add, 1)
        return [(yield from ctx.signal(WORDS))]

    return order


async def test_code_that_asks_for_something_else_blocks_and_the_old_build_goes_on(stage: Stage) -> None:
    old, new = first_code(), second_code()
    run = await stage.client.start(old)
    async with stage.serving(old, build="one", cache=0):
        await run.reached(Status.WAITING, timeout=SOON)
    await run.send(WORDS, "go")
    async with stage.serving(new, build="two"):
        why = await blocked(run)
    assert (why.position, why.builds) == ("1", (f"two/{RULES}",))
    assert "note" in str(why.recorded)
    assert "add" in str(why.asked)
    assert __file__ in str(why.line)
    assert "position 1" in why.message
    assert ran == ["one"]
    async with stage.serving(old, build="one"):
        assert await run.result(timeout=SOON) == ["one", "go", "two"]
    assert ran == ["one", "two"]
    await stage.no_gaps(run.id)


async def test_a_build_that_could_not_follow_a_run_does_not_try_it_again(memory: Stage) -> None:
    old, new = first_code(), second_code()
    run = await memory.client.start(old)
    async with memory.serving(old, build="one", cache=0):
        await run.reached(Status.WAITING, timeout=SOON)
    await run.send(WORDS, "go")
    tapped = Tapped(memory.storage)
    async with memory.on(tapped).serving(new, build="two", poll_interval=0.01) as client:
        await run.reached(Status.BLOCKED, timeout=SOON)
        before = tapped.claimed(run.id)
        # Other runs pass meanwhile, so that the worker has had its looks.
        for _ in range(5):
            other = await client.start(new)
            await other.send(WORDS, "x")
            await other.result(timeout=SOON)
    assert before == tapped.claimed(run.id) == 1


async def test_rows_left_over_when_the_code_returns_are_divergence(stage: Stage) -> None:
    @workflow(name="order")
    def short(ctx: Context) -> Flow[list[str]]:
        yield from ctx.step(note, "one")
        return []

    old = first_code()
    run = await stage.client.start(old)
    async with stage.serving(old, build="one", cache=0):
        await run.reached(Status.WAITING, timeout=SOON)
    await run.send(WORDS, "go")
    async with stage.serving(short, build="two"):
        assert (await blocked(run)).position == "2"


async def test_a_journal_of_newer_rules_waits_for_a_newer_worker(memory: Stage) -> None:
    old = first_code()
    tapped = Tapped(memory.storage)
    run = await memory.client.start(old)
    newer = memory.storage.writing()  # type: ignore[attr-defined]
    async with memory.on(tapped).serving(old, cache=0):
        await run.reached(Status.WAITING, timeout=SOON)
        with newer as (book, _):
            rows = book.journals[run.id, 1]
            started = msgspec.json.decode(rows[0].value)
            rows[0] = msgspec.structs.replace(rows[0], value=msgspec.json.encode(started | {"rules": 99}).decode())
        await run.send(WORDS, "go")
        assert "rules 99" in (await blocked(run)).message


async def test_a_cancel_of_a_blocked_run_is_kept_until_it_is_taken_up(stage: Stage) -> None:
    old, new = first_code(), second_code()
    run = await stage.client.start(old)
    async with stage.serving(old, build="one", cache=0):
        await run.reached(Status.WAITING, timeout=SOON)
    await run.send(WORDS, "go")
    async with stage.serving(new, build="two"):
        await blocked(run)
        assert await run.cancel("enough")
        assert await run.status() is Status.BLOCKED
    async with stage.serving(old, build="one"):
        with pytest.raises(RunCancelled, match="enough"):
            await run.result(timeout=SOON)


# --- faults of the code -----------------------------------------------------------------------------------------------


def faulty(fault: Any) -> Any:
    @workflow
    def order(ctx: Context) -> Flow[list[Any]]:
        yield ctx.step(note, "one")
        fault()
        return [(yield from ctx.step(note, "two"))]

    return order


def repaired() -> Any:
    @workflow
    def order(ctx: Context) -> Flow[list[Any]]:
        yield ctx.step(note, "one")
        return [(yield from ctx.step(note, "two"))]

    return order


async def test_a_fault_of_the_code_blocks_with_its_traceback_and_repaired_code_goes_on(stage: Stage) -> None:
    bad = faulty(lambda: {}["missing"])
    run = await stage.client.start(bad)
    async with stage.serving(bad, build="one"):
        why = await blocked(run)
    assert "KeyError" in why.message
    assert "missing" in str(why.traceback)
    assert __file__ in str(why.line)
    good = repaired()
    async with stage.serving(good, build="two"):
        assert await run.result(timeout=SOON) == ["two"]
    assert ran == ["one", "two"]
    await stage.no_gaps(run.id)


async def test_a_fault_of_the_worker_is_tried_again_by_any_build(stage: Stage) -> None:
    def no_module() -> None:
        raise ImportError("no such module here")

    bad = faulty(no_module)
    run = await stage.client.start(bad)
    async with stage.serving(bad, build="one"):
        why = await blocked(run)
    assert why.builds == ()
    assert why.retry_at is not None


async def test_a_fault_in_a_branch_blocks_there_and_writes_nothing_that_the_advance_asked(stage: Stage) -> None:
    def branch(ctx: Context, fault: bool) -> Generator[Any, Any, str]:
        yield ctx.step(note, "in a branch")
        if fault:
            raise AssertionError("a bad deploy")
        return "fine"

    def code(fault: bool) -> Any:
        @workflow
        def order(ctx: Context) -> Flow[list[str]]:
            return list((yield from ctx.all(branch(ctx, fault), ctx.signal(WORDS))))

        return order

    bad, good = code(True), code(False)
    run = await stage.client.start(bad)
    async with stage.serving(bad, build="one"):
        why = await blocked(run)
    assert str(why.position).startswith("1.0")
    await run.send(WORDS, "go")
    async with stage.serving(good, build="two"):
        assert await run.result(timeout=SOON) == ["fine", "go"]
    assert ran == ["in a branch"]
    await stage.no_gaps(run.id)


async def test_a_recorded_answer_that_no_longer_decodes_blocks(stage: Stage) -> None:
    @activity(name="note")
    async def counted(what: str) -> int:
        raise AssertionError("never called")

    @workflow(name="order")
    def changed(ctx: Context) -> Flow[list[Any]]:
        return [(yield from ctx.step(counted, "one"))]

    old = first_code()
    run = await stage.client.start(old)
    async with stage.serving(old, build="one", cache=0):
        await run.reached(Status.WAITING, timeout=SOON)
    await run.send(WORDS, "go")
    async with stage.serving(changed, build="two"):
        why = await blocked(run)
    assert why.position == "1"
    assert "no longer fits" in why.message


async def test_an_input_that_does_not_fit_blocks_and_code_that_takes_it_goes_on(stage: Stage) -> None:
    @workflow(name="order")
    def takes_int(ctx: Context, number: int) -> Flow[int]:
        return (yield from ctx.step(add, number))

    @workflow(name="order")
    def takes_str(ctx: Context, number: str) -> Flow[int]:
        return (yield from ctx.step(add, int(number)))

    run = await stage.client.start(takes_str, "7")
    async with stage.serving(takes_int, build="one"):
        assert "number" in (await blocked(run)).message
    async with stage.serving(takes_str, build="two"):
        assert await run.result(timeout=SOON) == 8


# --- what must hit one run alone --------------------------------------------------------------------------------------


class _Missing:
    """An annotation's name that is taken away again."""


def unresolvable(number: NoSuchType) -> int:  # type: ignore[name-defined]  # noqa: F821 - that is the point
    return 1


async def served(client: Client, order: Any) -> None:
    """The worker still works."""
    run = await client.start(order)
    assert await run.result(timeout=SOON) == ["two"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda ctx: ctx.sleep(1e300),
        lambda ctx: ctx.signal(WORDS, timeout=1e300),
        lambda ctx: ctx.step(unresolvable, 1),
        lambda ctx: ctx.child(unresolvable, 1),
        lambda ctx: ctx.spawn(print, 1),
        lambda ctx: ctx.publish(big="x" * (1 << 21)),
        lambda ctx: ctx.publish(odd=object()),
        lambda ctx: ctx.child(note, "x" * (1 << 21)),
        lambda ctx: ctx.send(ctx.info.id, WORDS, "x" * (1 << 21)),
        lambda ctx: ctx.options(metadata={"a": "\ud800"}).child(note, "x"),
    ],
    ids=[
        "an endless sleep", "an endless wait", "a step that cannot be typed", "a child that cannot be typed",
        "a built-in child", "a state over the limit", "a state that is no JSON", "an input over the limit",
        "a signal over the limit", "metadata that is no text",
    ],
)  # fmt: skip
async def test_a_command_that_can_never_work_stops_its_run_and_nothing_else(memory: Stage, ask: Any) -> None:
    @workflow
    def bad(ctx: Context) -> Flow[None]:
        yield ctx.step(note, "one")
        yield ask(ctx)
        yield ctx.step(note, "not reached")

    good = repaired()
    async with memory.serving(bad, good, note, build="one") as client:
        run = await client.start(bad)
        await served(client, good)
        status = await run.reached(Status.BLOCKED, Status.FAILED, timeout=SOON)
        info = await run.info()
        why = (await blocked(run)).message if status is Status.BLOCKED else info.error and info.error.message
        assert why, "it must be said why"
    assert "not reached" not in ran
    # What was answered before is on record, so that the next build need not do it again.
    assert [entry.state for entry in await run.history() if entry.kind == "step"] == ["answered"]
    await memory.no_gaps(run.id)


async def test_a_child_too_deep_is_a_recorded_failure(stage: Stage) -> None:
    @workflow
    def nested(ctx: Context, depth: int) -> Flow[str]:
        try:
            return (yield from ctx.child(nested, depth + 1))
        except DepthExceeded:
            yield ctx.sleep(0.001)
            return f"stopped at {depth}"

    async with stage.serving(nested, max_depth=4) as client:
        run = await client.start(nested, 0)
        assert await run.result(timeout=SOON) == "stopped at 4"


async def test_a_turn_that_the_storage_refuses_blocks_its_run_and_nothing_else(memory: Stage) -> None:
    class Refusing(Tapped):
        async def commit(self, turns: Any) -> Any:
            if any("bad" in (row.value or "") for turn in turns for row in turn.rows):
                raise StorageRefused("a constraint says no")
            return await super().commit(turns)

    @workflow
    def order(ctx: Context, what: str) -> Flow[str]:
        return (yield from ctx.step(note, what))

    async with memory.on(Refusing(memory.storage)).serving(order) as client:
        bad = await client.start(order, "bad")
        good = await client.start(order, "good")
        assert await good.result(timeout=SOON) == "good"
        assert "a constraint says no" in (await blocked(bad)).message


async def test_a_fault_of_the_interpreter_itself_blocks_its_run_and_nothing_else(
    memory: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    from runnerq.workflow.interpreter import Interpreter

    answer = Interpreter.answer

    def broken(self: Interpreter, position: str, text: str | None, *rest: Any) -> bool:
        if text == '"bad"':
            raise ZeroDivisionError("a fault of our own")
        return answer(self, position, text, *rest)

    monkeypatch.setattr(Interpreter, "answer", broken)

    @workflow
    def order(ctx: Context, what: str) -> Flow[str]:
        return (yield from ctx.step(note, what))

    async with memory.serving(order) as client:
        bad = await client.start(order, "bad")
        assert await (await client.start(order, "good")).result(timeout=SOON) == "good"
        assert "a fault of our own" in (await blocked(bad)).message
