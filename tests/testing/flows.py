"""What the tests of the testing kit run."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow

APPROVAL: Signal[bool] = Signal("approval", bool)


@activity(retry=5)
async def charge(cents: int) -> str:
    """Fails twice."""
    if current().attempt < 3:
        raise ConnectionError("the bank is not there")
    return f"receipt for {cents}"


@activity
async def mail(to: str) -> str:
    await asyncio.sleep(0)
    return f"mail to {to}"


@activity
def stamp(text: str) -> str:
    """Runs in a thread."""
    return text.upper()


@workflow
def ship(ctx: Context, item: str) -> Flow[str]:
    yield ctx.sleep(timedelta(days=2))
    return (yield from ctx.step(stamp, item))


def reminded(ctx: Context, after: float) -> Flow[str]:
    """A branch."""
    yield ctx.sleep(after)
    return (yield from ctx.step(mail, f"after {after:g}"))


@workflow
def checkout(ctx: Context, cents: int) -> Flow[list[Any]]:
    """Retries, sleeps, children, branches, a race and signals."""
    receipt = yield from ctx.step(charge, cents)
    yield ctx.publish(paid=True)
    yield ctx.sleep(timedelta(days=30))
    approved = yield from ctx.signal(APPROVAL, timeout=60, default=False)
    both = yield from ctx.all(reminded(ctx, 1), reminded(ctx, 2))
    sent = yield from ctx.child(ship, "cup")
    first = yield from ctx.race(ctx.child(ship, "plate"), ctx.sleep(10))
    return [receipt, approved, *both, sent, first.index]
