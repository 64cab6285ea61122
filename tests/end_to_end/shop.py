"""The workflow that end-to-end tests kill the workers of. Its steps append to a file outside the database.

A line of that file is an idempotency key and an attempt: ``run:generation:position:kind:name attempt``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec

from runnerq.retry import RetryPolicy
from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow

LOG_VARIABLE = "RUNNERQ_TEST_LOG"
QUICK = RetryPolicy(max_attempts=4, base=0.03, jitter=0)

APPROVAL: Signal[str] = Signal("approval", str)
OPEN_FOR_EVER: Signal[str] = Signal("open for ever", str)


class Order(msgspec.Struct, frozen=True):
    item: str
    cents: int


def note() -> None:
    """This attempt has its side effect."""
    now = current()
    line = f"{now.idempotency_key} {now.attempt}\n".encode()
    log = os.open(os.environ[LOG_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(log, line)
    finally:
        os.close(log)


@activity
async def reserve(order: Order) -> Order:
    note()
    return order


@activity(retry=QUICK)
async def charge(cents: int) -> int:
    note()
    if current().attempt == 1:
        raise ConnectionError("the bank does not answer the first time")
    return cents


@activity
def label(to: str) -> str:
    note()
    return f"to {to}"


@activity(retry=QUICK)
async def wrap(item: str) -> str:
    note()
    return f"wrapped {item}"


@workflow
def messenger(ctx: Context, to: str) -> Flow[str]:
    yield ctx.sleep(0.02)
    yield ctx.send(to, APPROVAL, "approved")
    return "delivered"


@workflow
def ship(ctx: Context, order: Order) -> Flow[str]:
    wrapped = yield from ctx.child(wrap, order.item)
    shown = yield from ctx.step(label, "Ada")
    return f"{wrapped} {shown}"


@workflow
def never_ends(ctx: Context) -> Flow[str]:
    return (yield from ctx.signal(OPEN_FOR_EVER))


def pipeline(ctx: Context, name: str) -> Generator[Any, Any, str]:
    first = yield ctx.step(label, name)
    yield ctx.sleep(0.01)
    second = yield ctx.step(label, f"{name} again")
    return f"{first}, {second}"


@workflow
def checkout(ctx: Context, order: Order) -> Flow[list[Any]]:
    """Steps, a retry, sleeps, a signal, children, branches and a race."""
    reserved = yield from ctx.step(reserve, order)
    message = yield from ctx.spawn(messenger, ctx.info.id)
    paid = yield from ctx.step(charge, reserved.cents)
    yield ctx.sleep(0.03)
    approval = yield from ctx.signal(APPROVAL)
    delivered = yield from message.result()
    labels = yield from ctx.all(pipeline(ctx, "left"), pipeline(ctx, "right"))
    shipped = yield from ctx.child(ship, reserved)
    won = yield from ctx.race(ctx.child(never_ends), ctx.step(label, "the winner"), ctx.sleep(600))
    no_more = yield ctx.signal(APPROVAL, timeout=0, default="no more")
    return [reserved, paid, approval, delivered, list(labels), shipped, won.index, won.value, no_more]


CUP = Order("cup", 950)
ANSWER: list[Any] = [
    {"item": "cup", "cents": 950}, 950, "approved", "delivered",
    ["to left, to left again", "to right, to right again"], "wrapped cup to Ada", 1, "to the winner", "no more",
]  # fmt: skip


@workflow
def wait_for_approval(ctx: Context) -> Flow[list[str]]:
    """A step, a park, a step."""
    first = yield from ctx.step(label, "before")
    approval = yield from ctx.signal(APPROVAL)
    return [first, approval, (yield from ctx.step(label, "after"))]


@activity
async def slow(gate: str) -> str:
    """Notes its start, and ends once there is a file of this name."""
    note()
    while not Path(gate).exists():
        await asyncio.sleep(0.01)
    return "done"


@workflow
def slowly(ctx: Context, gate: str) -> Flow[list[str]]:
    first = yield from ctx.step(slow, gate)
    return [first, (yield from ctx.step(label, "after"))]


WORKFLOWS = (checkout, messenger, ship, never_ends, wait_for_approval, slowly)
ACTIVITIES = (wrap,)
