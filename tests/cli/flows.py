"""What the command line's tests run."""

from __future__ import annotations

import msgspec

from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow

GO: Signal[int] = Signal("go", int)


class Greeting(msgspec.Struct, frozen=True):
    text: str


@activity
def greet(name: str) -> Greeting:
    return Greeting(f"Hello, {name}!")


@activity(retry=1)
def explode() -> None:
    raise ValueError("boom")


@workflow
def greeting(ctx: Context, name: str) -> Flow[Greeting]:
    greeted = yield from ctx.step(greet, name)
    return greeted


@workflow(version=2)
def waiting(ctx: Context) -> Flow[int]:
    yield from ctx.publish(stage="waiting")
    number = yield from ctx.signal(GO)
    return number


@workflow
def failing(ctx: Context) -> Flow[None]:
    yield from ctx.step(explode)
