"""What runs while faults happen. Every attempt notes its side effect in the ledger before it does anything else.

The result of every run follows from its kind and number, so that a wrong one shows: ``expected``.
"""

from __future__ import annotations

import asyncio
from functools import cache

from runnerq.retry import RetryPolicy
from runnerq.runtime.current import current
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.faults.ledger import Ledger

QUICK = RetryPolicy(max_attempts=4, base=0.05, jitter=0)
APPROVAL: Signal[int] = Signal("approval", int)
TAKES = 0.01
"""Seconds that a step takes, so that there is always one under way."""


@cache
def _ledger() -> Ledger:
    return Ledger.of_environment()


def note() -> int:
    """This attempt has its side effect; its number."""
    now = current()
    _ledger().write("ran", now.idempotency_key, now.attempt)
    return now.attempt


@activity
async def double(number: int) -> int:
    note()
    await asyncio.sleep(TAKES)
    return number * 2


@activity
def plus_one(number: int) -> int:
    """In a thread."""
    note()
    return number + 1


@activity(retry=QUICK)
async def shaky(number: int) -> int:
    """Fails the first time."""
    attempt = note()
    await asyncio.sleep(TAKES)
    if attempt == 1:
        raise ConnectionError("there is no answer the first time")
    return number


@workflow
def box(ctx: Context, number: int) -> Flow[int]:
    doubled = yield from ctx.step(double, number)
    yield ctx.sleep(0.05)
    return (yield from ctx.step(plus_one, doubled))


@workflow
def order(ctx: Context, number: int) -> Flow[int]:
    """Steps, a retried one, a timer, a signal, a child and steps side by side."""
    doubled = yield from ctx.step(double, number)
    yield ctx.sleep(0.1)
    approved = yield from ctx.signal(APPROVAL)
    child = yield from (ctx.child(box, doubled) if number % 2 else ctx.child(plus_one, doubled))
    pair = yield from ctx.all(ctx.step(shaky, approved), ctx.step(double, child))
    return sum(pair)


WORKFLOWS = (order, box)
ACTIVITIES = (double, plus_one, shaky)

STARTED = ("order", "plus_one", "shaky")
"""The kinds of runs that the load starts: half of them orders."""
FAILS_FIRST = frozenset({"shaky"})


def expected(kind: str, number: int) -> int:
    """The result of the run that was started with this number."""
    if kind == "order":
        child = 4 * number + 1 if number % 2 else 2 * number + 1
        return number + 2 * child
    return number + 1 if kind == "plus_one" else number
