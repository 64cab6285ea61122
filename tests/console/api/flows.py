"""What the API's tests start: a bit of everything that a run may have on record."""

from __future__ import annotations

from typing import Any

from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow

APPROVAL: Signal[Any] = Signal("approval", Any)
LARGE = 2**60


@activity
async def charge(order: dict[str, Any]) -> dict[str, Any]:
    return {"receipt": LARGE, "token": order.get("password")}


@activity(retry=1)
async def refuse(why: str) -> None:
    raise ValueError(why)


@workflow
def checkout(ctx: Context, order: dict[str, Any]) -> Flow[dict[str, Any]]:
    """Charges, publishes, and waits for an approval, which it answers with."""
    receipt = yield from ctx.step(charge, order)
    yield ctx.publish(api_key=order.get("password"), item=order.get("item"))
    decision = yield from ctx.signal(APPROVAL)
    return {"receipt": receipt, "decision": decision}


@workflow
def refused(ctx: Context, why: str) -> Flow[None]:
    """Ends in the dead letter."""
    yield from ctx.step(refuse, why)


@workflow
def echo(ctx: Context, value: Any) -> Flow[Any]:
    """Answers with what it is given."""
    del ctx
    return value
    yield


WORKFLOWS = [checkout, refused, echo]
ACTIVITIES = [charge, refuse]
