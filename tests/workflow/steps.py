"""What the workflows under test ask for, and parts of them; no step here is ever run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runnerq.errors import Cancelled
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow


@dataclass
class Order:
    item: str
    count: int = 1


class Declined(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


GO: Signal[Order] = Signal("go", Order)


def price(item: object) -> int:
    raise AssertionError(item)


def charge(item: object) -> int:
    raise AssertionError(item)


def find(item: str) -> Order:
    raise AssertionError(item)


def anything(*args: object, **kwargs: object):
    raise AssertionError(args, kwargs)


async def stored(connection: object, item: str) -> int:
    raise AssertionError(connection, item)


@activity(name="pack-it")
async def pack(order: Order) -> list[Order]:
    raise AssertionError(order)


@workflow
def ship(ctx: Context, order: Order) -> Flow[Order]:
    yield ctx.sleep(1)
    return order


def paying(ctx: Context, item: str) -> Flow[int]:
    """A branch of two steps."""
    cost = yield from ctx.step(price, item)
    yield from ctx.step(charge, item)
    return cost


def tidy(ctx: Context, name: str) -> Any:
    """A branch that cleans up when it is cancelled."""
    try:
        yield ctx.signal(name)
    except Cancelled as cancelled:
        yield ctx.step(anything, "clean", name)
        return str(cancelled)
    return name
