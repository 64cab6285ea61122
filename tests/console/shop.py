"""What the tests of models and actions start: a bit of everything that a run may have on record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runnerq.retry import RetryPolicy
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow

SECRET = "hunter2-4711"  # noqa: S105 - what must not be shown
LARGE = 2**60


@activity
async def charge(order: dict[str, Any]) -> dict[str, Any]:
    return {"amount": LARGE, "access_token": SECRET, "order": order}


@activity(retry=1)
async def refuse(number: int) -> None:
    raise ValueError(f"card {number} was declined, password={SECRET}")


@activity(retry=RetryPolicy(max_attempts=5, base=3600.0, jitter=0.0))
async def flaky(number: int) -> None:
    raise ConnectionError(f"no answer {number}")


@workflow
def checkout(ctx: Context, order: dict[str, Any]) -> Flow[dict[str, Any]]:
    """Charges, publishes, waits for an approval, has a child."""
    receipt = yield from ctx.step(charge, order)
    yield ctx.publish(stage="paid", api_key=SECRET)
    decision: Any = yield ctx.signal("approval", timeout=3600)
    shipped = yield from ctx.child(charge, order)
    return {"receipt": receipt, "decision": decision, "shipped": shipped}


@workflow
def refused(ctx: Context, number: int) -> Flow[None]:
    """Ends in the dead letter."""
    yield from ctx.step(refuse, number)


@workflow
def fanned(ctx: Context, width: int, depth: int) -> Flow[int]:
    """Has so many children, which have as many, so deep."""
    if depth:
        yield ctx.gather([ctx.child(fanned, width, depth - 1) for _ in range(width)])
    return depth


@workflow
def mistaken(ctx: Context) -> Flow[None]:
    """Is blocked: what leaves it looks like a fault of the code."""
    yield ctx.publish(begun=True)
    raise LookupError(f"token: {SECRET}")


@workflow
def resting(ctx: Context) -> Flow[None]:
    yield ctx.sleep(3600)


WORKFLOWS: list[Callable[..., Any]] = [checkout, refused, fanned, mistaken, resting]
ACTIVITIES: list[Callable[..., Any]] = [charge, refuse, flaky]
