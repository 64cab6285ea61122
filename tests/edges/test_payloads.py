"""Odd values and odd error texts, all the way: from a client through Postgres into runs and steps, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runnerq.errors import ChildFailed, EncodingError, PayloadTooLarge, RunFailed, StepError
from runnerq.persistence.records import RunFilter, Status
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.runtime.stage import SOON, Stage
from tests.serialization.models import EXAMPLES
from tests.serialization.others_models import OTHERS

LARGE = "ü" * 450_000
"""900 kB as UTF-8, under the limit of 1 MiB."""
TOO_LARGE = "x" * (1 << 20)

REFUSED = {
    "nan": float("nan"),
    "infinity": float("-inf"),
    "lone surrogate": "a lone \ud800",
    "no JSON form": object(),
    "a million characters": TOO_LARGE,
}


ALL = [*EXAMPLES, *OTHERS, (LARGE, str)]


def flows_of(number: int, type_: Any) -> tuple[Callable[..., Any], Callable[..., Any], Signal[Any]]:
    """A workflow that hands a value of this type round, the activity it does it with, and a channel."""
    values: Signal[Any] = Signal("values", type_)

    async def echo(value):  # type: ignore[no-untyped-def]
        return value

    def carry(ctx, value, again=True):  # type: ignore[no-untyped-def]
        if again:
            ctx.continue_as_new(value, again=False)
        yield ctx.publish(value=value)
        stepped = yield ctx.step(echo, value)
        returned = yield ctx.child(echo, stepped)
        heard = yield ctx.signal(values)
        same = all(each == value and type(each) is type(value) for each in (value, stepped, returned, heard))
        return (heard, same)

    echo.__annotations__ = {"value": type_, "return": type_}
    carry.__annotations__ = {"value": type_, "again": bool, "return": Flow[tuple[type_, bool]]}
    return workflow(name=f"carry-{number}")(carry), activity(name=f"echo-{number}")(echo), values


async def test_odd_values_come_through_everything_as_equal_values_of_their_type(on_postgres: Stage) -> None:
    on_postgres.cache = 0
    flows = [flows_of(number, type_) for number, (_, type_) in enumerate(ALL)]
    functions = [fn for carry, echo, _ in flows for fn in (carry, echo)]
    async with on_postgres.serving(*functions, max_workers=20) as client:
        runs = []
        for (value, _), (carry, _, values) in zip(ALL, flows, strict=True):
            runs.append(await client.start(carry, value))
            await runs[-1].send(values, value)
        for run, (value, _) in zip(runs, ALL, strict=True):
            back, same = await run.result(timeout=SOON)
            assert (back, type(back), same) == (value, type(value), True)


@pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED.keys())
async def test_a_value_that_cannot_be_kept_is_refused_at_every_call_and_nothing_is_made(
    on_postgres: Stage, value: Any
) -> None:
    @workflow
    def order(ctx: Context, given: Any) -> Flow[Any]:
        return (yield from ctx.signal("values"))

    client = on_postgres.client
    for call in (
        lambda: client.start(order, value),
        lambda: client.start(order, {"deep": [value]}),
        lambda: client.start_many(order, [(1,), (value,)]),
        lambda: client.start("order", value),
    ):
        with pytest.raises((EncodingError, PayloadTooLarge)):
            await call()
    assert (await client.list(RunFilter(queue=on_postgres.queue))).items == []
    run = await client.start(order, 1)
    with pytest.raises((EncodingError, PayloadTooLarge)):
        await run.send("values", value)
    async with on_postgres.serving(order):
        await run.send("values", "the only one")
        assert await run.result(timeout=SOON) == "the only one"


@pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED.keys())
async def test_a_value_that_a_step_or_a_child_cannot_return_is_a_failure_that_names_it(
    on_postgres: Stage, value: Any
) -> None:
    ran: list[str] = []

    @activity
    async def returns() -> Any:
        ran.append("ran")
        return value

    @workflow
    def order(ctx: Context) -> Flow[list[str]]:
        said = []
        try:
            yield ctx.step(returns)
        except Exception as error:
            said.append(str(error))
        try:
            yield ctx.child(returns)
        except ChildFailed as error:
            said.append(str(error.__cause__))
        return said

    async with on_postgres.serving(order, returns) as client:
        run = await client.start(order)
        step, child = await run.result(timeout=SOON)
    assert "returns" in step
    assert "returns" in child
    # Trying again would end the same.
    assert ran == ["ran", "ran"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("nul \0 in it", "nul \0 in it"),
        ("a lone \ud800 surrogate", None),
        ("x" * 3_000_000, None),
        ("🔑" * 10, "🔑" * 10),
    ],
    ids=["nul", "lone surrogate", "3 MB", "unicode"],
)
async def test_an_error_with_an_odd_text_fails_its_run_and_can_be_read(
    on_postgres: Stage, text: str, kept: str | None
) -> None:
    @activity(retry=1)
    async def fails() -> None:
        raise RuntimeError(text)

    @workflow
    def order(ctx: Context) -> Flow[None]:
        yield ctx.step(fails)

    @workflow
    def raises(ctx: Context) -> Flow[None]:
        raise ValueError(text)
        yield

    async with on_postgres.serving(order, raises, fails) as client:
        for target, kind in ((order, "RuntimeError"), (raises, "ValueError"), (fails, "RuntimeError")):
            run = await client.start(target)
            with pytest.raises(RunFailed) as failed:
                await run.result(timeout=SOON)
            assert failed.value.error is not None
            assert failed.value.error.type == kind
            assert kept is None or failed.value.error.message == kept
            assert (await run.info()).status in (Status.FAILED, Status.DEAD_LETTER)
            assert len(failed.value.error.message) <= 100_000


async def test_a_step_error_with_odd_arguments_can_be_caught_in_a_replay(on_postgres: Stage) -> None:
    on_postgres.cache = 0

    class Odd(Exception):
        """Its class cannot be found again, and its arguments are odd."""

    @activity(retry=1)
    async def fails() -> None:
        raise Odd("nul \0", float("nan"), 2**70, b"\xff", object(), "lone \udfff")

    @workflow
    def order(ctx: Context) -> Flow[str]:
        try:
            yield ctx.step(fails)
        except (Odd, StepError) as error:
            yield ctx.sleep(0.001)
            return type(error).__name__
        return "no error"

    async with on_postgres.serving(order) as client:
        assert await (await client.start(order)).result(timeout=SOON) in ("Odd", "StepError")
