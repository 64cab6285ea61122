"""What the limits' load runs. Each says in a log outside the database when it is inside its limit, and when it leaves.

A line of the book ``inside`` is ``in`` or ``out``, scope, key, run id, the claim's token, the entry, the attempt and
the process id.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from runnerq.retry import RetryPolicy
from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from runnerq.workflow.options import Limit
from tests.faults.ledger import Ledger

QUICK = RetryPolicy(max_attempts=10, base=0.02, jitter=0)
SHORTEST_NAP = 0.02


@contextmanager
def inside(scope: str, key: str) -> Iterator[None]:
    """Between the first and the last line of a function: as late and as early as can be."""
    ledger = Ledger.of_environment()
    now = current()
    claimed = now.claimed
    assert claimed is not None
    words = (scope, key, now.run_id, claimed.token, now.entry or "-", now.attempt, os.getpid())
    ledger.write("inside", "in", *words)
    try:
        yield
    finally:
        ledger.write("inside", "out", *words)


@activity(retry=QUICK)
async def hold(scope: str, key: str, seconds: float) -> str:
    with inside(scope, key):
        await asyncio.sleep(seconds)
    return key


@activity(retry=QUICK)
async def fail_once(scope: str, key: str, seconds: float) -> str:
    """It is given back between its attempts, and asks again."""
    with inside(scope, key):
        await asyncio.sleep(seconds)
        if current().attempt == 1:
            raise ConnectionError("the first attempt does not work")
    return key


@activity(retry=QUICK)
async def within(scope: str, key: str, seconds: float) -> None:
    """A step of a workflow that holds the place."""
    with inside(scope, key):
        await asyncio.sleep(seconds)


@workflow
def nap(ctx: Context, scope: str, key: str, seconds: float) -> Flow[str]:
    """It parks between its steps, and gives its place back meanwhile."""
    yield ctx.step(within, scope, key, seconds)
    yield ctx.sleep(SHORTEST_NAP + seconds)
    yield ctx.step(within, scope, key, seconds)
    return key


@workflow
def family(ctx: Context, scope: str, key: str, seconds: float) -> Flow[str]:
    """Its children count against the limit that it counts against itself: parked, it is in nobody's way."""
    yield ctx.step(within, scope, key, seconds)
    limited = ctx.options(limit=Limit(scope, key)) if scope else ctx
    yield ctx.all(limited.child(hold, scope, key, seconds), limited.child(nap, scope, key, seconds))
    return key


WORKFLOWS = (nap, family)
ACTIVITIES = (hold, fail_once)
KINDS: dict[str, Callable[..., Any]] = {"hold": hold, "fail_once": fail_once, "nap": nap, "family": family}
