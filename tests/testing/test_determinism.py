"""What shows a workflow that is not deterministic on its first run: re-drives, traps, and commands that did nothing."""

from __future__ import annotations

import datetime as dt
import gc
import inspect
import logging
import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runnerq.errors import NondeterminismError, RunBlocked, RunFailed, UsageError
from runnerq.persistence.records import Status
from runnerq.testing import Environment
from runnerq.testing.redrive import MANY
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.testing.flows import mail, ship, stamp

HERE = __file__


def line_of(fn: Callable[..., Any], text: str) -> str:
    """Where this stands in the function's source, as an error names it."""
    lines, first = inspect.getsourcelines(inspect.unwrap(fn))
    return f"{HERE}:{first + next(n for n, line in enumerate(lines) if text in line)}"


# --- re-drives --------------------------------------------------------------------------------------------------------


async def test_a_flow_that_asks_for_something_else_the_second_time_is_told_of_on_its_first_run() -> None:
    calls: list[int] = []

    @workflow
    def order(ctx: Context) -> Flow[str]:
        calls.append(1)
        if len(calls) == 1:
            return (yield from ctx.step(mail, "ann"))
        return (yield from ctx.step(stamp, "ann"))

    async with Environment(workflows=[order]) as env:
        run = await env.start(order)
        with pytest.raises(NondeterminismError, match="recorded step 'mail', the workflow now asks for step") as told:
            await run.result()
    assert (told.value.run_id, told.value.position) == (run.id, "1")
    assert told.value.line is not None
    assert told.value.line.startswith(line_of(order, "stamp"))


async def test_random_flow_is_told_of_even_where_nothing_traps_it() -> None:
    dice: Iterator[float] = iter([0.9, 0.1, 0.9, 0.1, 0.9, 0.1])

    @workflow
    def order(ctx: Context) -> Flow[str]:
        if next(dice) > 0.5:
            yield ctx.sleep(1)
        return (yield from ctx.step(mail, "ann"))

    async with Environment(workflows=[order]) as env:
        with pytest.raises(NondeterminismError, match="recorded sleep, the workflow now asks for step 'mail'"):
            await (await env.start(order)).result()


async def test_a_workflow_that_returns_something_else_each_time_is_told_of() -> None:
    count = iter(range(100))

    @workflow
    def order(ctx: Context) -> Flow[int]:
        yield ctx.sleep(1)
        return next(count)

    async with Environment(workflows=[order]) as env:
        with pytest.raises(NondeterminismError, match=r"returns \d+, and the first run returned \d+"):
            await (await env.start(order)).result()


async def test_a_workflow_that_ends_only_the_first_time_is_told_of() -> None:
    calls: list[int] = []

    @workflow
    def order(ctx: Context) -> Flow[None]:
        calls.append(1)
        if len(calls) > 1:
            yield ctx.sleep(1)

    async with Environment(workflows=[order]) as env:
        with pytest.raises(NondeterminismError, match="nothing is recorded"):
            await (await env.start(order)).result()


async def test_a_child_that_is_not_deterministic_is_told_of_to_who_waits_for_its_parent() -> None:
    count = iter(range(100))

    @workflow
    def child(ctx: Context) -> Flow[int]:
        yield ctx.sleep(1)
        return next(count)

    @workflow
    def parent(ctx: Context) -> Flow[int]:
        return (yield from ctx.child(child))

    async with Environment(workflows=[parent, child]) as env:
        with pytest.raises(NondeterminismError, match="of child"):
            await (await env.start(parent)).result()


async def test_what_nobody_was_told_of_is_raised_at_the_exit() -> None:
    count = iter(range(100))

    @workflow
    def order(ctx: Context) -> Flow[int]:
        yield ctx.sleep(1)
        return next(count)

    async def left(by: BaseException | None) -> None:
        async with Environment(workflows=[order]) as env:
            await env.start(order)
            await env.advance(2)
            if by is not None:
                raise by

    with pytest.raises(NondeterminismError):
        await left(None)
    with pytest.raises(ZeroDivisionError):
        await left(ZeroDivisionError())


async def test_a_long_run_is_driven_again_to_its_end() -> None:
    count = iter(range(10**9))

    @activity
    async def greet() -> str:
        return "hello"

    @workflow
    def order(ctx: Context) -> Flow[int]:
        for _ in range(2 * MANY):
            yield ctx.step(greet)
        return next(count)

    async with Environment(workflows=[order]) as env:
        with pytest.raises(NondeterminismError):
            await (await env.start(order)).result()


# --- commands that did nothing ----------------------------------------------------------------------------------------


async def test_a_command_that_was_made_and_never_yielded_is_an_error_with_its_line() -> None:
    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.sleep(1)
        ctx.step(mail, "ann")

    async with Environment(workflows=[order]) as env:
        with pytest.raises(UsageError, match="never yielded, so it did nothing") as told:
            await (await env.start(order)).result()
    assert line_of(order, "ctx.step(mail") in str(told.value)


async def test_a_command_may_be_made_before_it_is_yielded() -> None:
    @workflow
    def order(ctx: Context) -> Flow[str]:
        sent = ctx.step(mail, "ann")
        yield ctx.sleep(1)
        return (yield from sent)

    async with Environment(workflows=[order]) as env:
        assert await (await env.start(order)).result() == "mail to ann"


# --- blocked runs -----------------------------------------------------------------------------------------------------


async def test_a_blocked_run_is_an_error_with_its_cause() -> None:
    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.sleep(1)
        {}["no such key"]

    async with Environment(workflows=[order]) as env:
        run = await env.start(order)
        with pytest.raises(RunBlocked, match="is blocked: KeyError: 'no such key'") as blocked:
            await run.result()
        assert isinstance(blocked.value.__cause__, KeyError)
        assert blocked.value.run_id == run.id
        assert blocked.value.blocked.line.startswith(line_of(order, "no such key"))
        assert await run.reached(Status.BLOCKED) is Status.BLOCKED


async def test_a_blocked_child_is_an_error_of_who_waits_for_its_parent() -> None:
    @workflow
    def child(ctx: Context) -> Flow[None]:
        yield ctx.sleep(1)
        raise TypeError("not of the right type")

    @workflow
    def parent(ctx: Context) -> Flow[None]:
        yield ctx.child(child)

    async with Environment(workflows=[parent, child]) as env:
        with pytest.raises(RunBlocked, match="of child is blocked: TypeError"):
            await (await env.start(parent)).result()


# --- traps ------------------------------------------------------------------------------------------------------------


# A lambda each, though some could be the function itself: the line that asks is one of this file.
# ruff: noqa: PLW0108
TRAPPED: dict[str, Callable[[], Any]] = {
    "time.time()": lambda: time.time(),
    "time.monotonic()": lambda: time.monotonic(),
    "time.perf_counter_ns()": lambda: time.perf_counter_ns(),
    "time.sleep()": lambda: time.sleep(0),
    "datetime.now()": lambda: dt.datetime.now(dt.UTC),
    "datetime.utcnow()": lambda: dt.datetime.utcnow(),  # noqa: DTZ003 - trapped
    "datetime.today()": lambda: dt.datetime.today(),  # noqa: DTZ002 - trapped
    "date.today()": lambda: dt.date.today(),  # noqa: DTZ011 - trapped
    "random.random()": lambda: random.random(),
    "random.randint()": lambda: random.randint(1, 6),
    "random.choice()": lambda: random.choice("abc"),
    "random.Random() without a seed": lambda: random.Random(),
    "uuid.uuid4()": lambda: uuid.uuid4(),
    "uuid.uuid1()": lambda: uuid.uuid1(),
    "os.urandom()": lambda: os.urandom(1),
    "secrets.token_hex()": lambda: secrets.token_hex(),
    "a socket": lambda: socket.socket(),
    "open()": lambda: open(__file__),  # noqa: PTH123, SIM115 - trapped
    "os.open()": lambda: os.open(__file__, os.O_RDONLY),
    "a process": lambda: subprocess.run([sys.executable, "-V"], check=False),
}


@pytest.mark.parametrize("what", TRAPPED)
async def test_a_workflow_that_asks_the_world_is_told_so_with_the_line(what: str) -> None:
    asks = TRAPPED[what]

    @workflow
    def order(ctx: Context) -> Flow[str]:
        yield ctx.sleep(1)
        return str(asks())

    async with Environment(workflows=[order]) as env:
        with pytest.raises(NondeterminismError) as told:
            await (await env.start(order)).result()
    assert f"the workflow uses {what} at {HERE}:{asks.__code__.co_firstlineno} in" in str(told.value)
    assert told.value.line == f"{HERE}:{asks.__code__.co_firstlineno} in <lambda>"


async def test_a_trap_cannot_be_swallowed() -> None:
    @workflow
    def order(ctx: Context) -> Flow[float]:
        yield ctx.sleep(1)
        try:
            return time.time()
        except Exception:
            return 0.0

    async with Environment(workflows=[order]) as env:
        with pytest.raises(NondeterminismError, match=r"uses time.time\(\).*use ctx.now\(\) instead"):
            await (await env.start(order)).result()


async def test_a_file_that_is_opened_behind_the_library_is_trapped_where_it_is_asked_for() -> None:
    @workflow
    def order(ctx: Context) -> Flow[int]:
        yield ctx.sleep(1)
        return len(Path(HERE).read_text())

    async with Environment(workflows=[order]) as env:
        with pytest.raises(NondeterminismError) as told:
            await (await env.start(order)).result()
    assert told.value.line is not None
    assert told.value.line.startswith(line_of(order, "read_text"))


async def test_branches_and_functions_that_a_workflow_calls_are_trapped_too() -> None:
    def deep() -> float:
        return time.time()

    def branch(ctx: Context) -> Flow[float]:
        yield ctx.sleep(1)
        return deep()

    @workflow
    def order(ctx: Context) -> Flow[Any]:
        return (yield from ctx.all(branch(ctx)))

    async with Environment(workflows=[order]) as env:
        with pytest.raises(NondeterminismError) as told:
            await (await env.start(order)).result()
    assert told.value.line is not None
    assert told.value.line.startswith(line_of(deep, "time.time"))


async def test_steps_other_tasks_and_threads_are_not_trapped() -> None:
    stop = threading.Event()
    other: list[float] = []

    def elsewhere() -> None:
        while not stop.is_set():
            other.append(time.time() + random.random())

    @activity
    async def asks() -> float:
        return time.time() + random.random() + uuid.uuid4().int % 2 + len(Path(HERE).read_text())

    @activity
    def asks_in_a_thread() -> float:
        return time.time() + dt.datetime.now(dt.UTC).timestamp()

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.all(ctx.step(asks), ctx.step(asks_in_a_thread))
        yield ctx.child(asks)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    try:
        async with Environment(workflows=[order], activities=[asks]) as env:
            await (await env.start(order)).result()
    finally:
        stop.set()
        thread.join()
    assert other


async def test_what_is_deterministic_is_not_trapped(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    @workflow
    def order(ctx: Context) -> Flow[list[Any]]:
        yield ctx.sleep(1)
        ctx.log.info("logged by the run")
        logging.getLogger("shop").info("logged by hand")
        import colorsys

        rolled = random.Random(ctx.random.random()).randint(1, 6)
        at = dt.datetime.fromtimestamp(ctx.now().timestamp(), dt.UTC)
        return [str(ctx.uuid()), rolled, at, ctx.random.choice("abc"), colorsys.__name__]

    sys.modules.pop("colorsys", None)
    async with Environment(workflows=[order]) as env:
        await (await env.start(order)).result()
    assert [record.message for record in caplog.records if record.name in ("runnerq.workflow", "shop")]


async def test_nothing_is_trapped_while_somebody_profiles(tmp_path: Path) -> None:
    @workflow
    def order(ctx: Context) -> Flow[int]:
        yield ctx.sleep(1)
        time.time()
        return 1

    before = sys.getprofile()
    sys.setprofile(lambda *_: None)
    try:
        async with Environment(workflows=[order]) as env:
            assert await (await env.start(order)).result() == 1
    finally:
        sys.setprofile(before)


async def test_a_run_that_fails_as_it_should_fails_as_in_production() -> None:
    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.child(ship, "cup")
        raise ValueError("out of cups")

    async with Environment(workflows=[order, ship]) as env:
        with pytest.raises(RunFailed, match="out of cups"):
            await (await env.start(order)).result()


async def test_what_the_garbage_collector_runs_meanwhile_is_none_of_the_workflows() -> None:
    asked: list[float] = []

    def asks_the_time(phase: str, info: dict[str, int]) -> None:
        asked.append(time.perf_counter())

    @workflow
    def makes_garbage(ctx: Context) -> Flow[int]:
        made = [[nth] for nth in range(1000)]
        yield from ctx.step(mail, "ann")
        return len(made)

    threshold = gc.get_threshold()
    gc.callbacks.append(asks_the_time)
    gc.set_threshold(10)
    try:
        async with Environment(workflows=[makes_garbage]) as env:
            assert await (await env.start(makes_garbage)).result() == 1000
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(asks_the_time)
    assert gc.isenabled()
    assert asked
