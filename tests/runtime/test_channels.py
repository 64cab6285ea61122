"""Which signals a worker tells of a workflow that it registers: those that its code names, with their types."""

from __future__ import annotations

from typing import Any

import msgspec
import pydantic

from runnerq.runtime.registry import Registry
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow

APPROVAL = Signal("approval", bool)
OTHER = Signal("approval", int)
UNTYPED: Signal[Any] = Signal("note")


class Model(pydantic.BaseModel):
    text: str


class Channels:
    COMMENT = Signal("comment", str)
    MODEL = Signal("model", Model)


@workflow
def asks(ctx: Context) -> Flow[bool]:
    yield from comments(ctx)
    return (yield from ctx.signal(APPROVAL))


def comments(ctx: Context) -> Flow[str]:
    yield ctx.signal(Channels.MODEL)
    return (yield from ctx.signal(Channels.COMMENT))


@workflow
def asks_two_ways(ctx: Context) -> Flow[None]:
    yield ctx.race(ctx.signal(APPROVAL), ctx.signal(OTHER), ctx.signal(UNTYPED))


@workflow
def has_a_child(ctx: Context) -> Flow[bool]:
    return (yield from ctx.child(asks))


def signals_of(fn: Any) -> Any:
    [definition] = Registry([fn], []).definitions("b")
    assert definition.schema is not None
    return msgspec.json.decode(definition.schema)["x-runnerq"]["signals"]


def test_the_signals_that_a_workflows_code_names_are_told_with_what_they_take() -> None:
    assert signals_of(asks) == {"approval": {"type": "boolean"}, "comment": {"type": "string"}}


def test_a_channel_that_has_two_types_is_left_out_and_one_without_takes_anything() -> None:
    assert signals_of(asks_two_ways) == {"note": {}}


def test_the_signals_of_a_child_are_its_own() -> None:
    assert signals_of(has_a_child) == {}


def test_a_signal_that_encloses_a_workflow_is_found() -> None:
    inner = Signal("inner", int)

    @workflow
    def enclosed(ctx: Context) -> Flow[int]:
        return (yield from ctx.signal(inner))

    assert signals_of(enclosed) == {"inner": {"type": "integer"}}
