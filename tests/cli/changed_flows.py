"""The workflows of flows.py, changed: one of them no longer does what its open runs have on record."""

from __future__ import annotations

from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from tests.cli.flows import GO, Greeting, greet


@workflow(version=2)
def waiting(ctx: Context) -> Flow[int]:
    yield from ctx.publish(stage="waiting")
    yield from ctx.sleep(1)
    number = yield from ctx.signal(GO)
    return number


@workflow
def greeting(ctx: Context, name: str) -> Flow[Greeting]:
    greeted = yield from ctx.step(greet, name)
    return greeted
