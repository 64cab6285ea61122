"""The order that the demo runs: reserve, charge, pack, a pause, an approval, and a shipment by a child.

Every touch of the world is one line in the file named by $RUNNERQ_DEMO_LOG, outside the database: that file is the
witness to how often the card was charged.
"""

from __future__ import annotations

import os
import time

import msgspec

from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow

LOG_VARIABLE = "RUNNERQ_DEMO_LOG"
PAUSE = 1.0
PACKING = 1.0
"""Seconds that packing takes: long enough to be killed in."""


class Order(msgspec.Struct, frozen=True):
    number: str
    item: str
    cents: int


class Receipt(msgspec.Struct, frozen=True):
    id: str
    cents: int


class Approval(msgspec.Struct, frozen=True):
    by: str


class Delivery(msgspec.Struct, frozen=True):
    receipt: str
    parcel: str
    tracking: str
    approved_by: str


APPROVAL: Signal[Approval] = Signal("approval", Approval)


@activity
def reserve(order: Order) -> str:
    _touch(f"reserve {order.number}: 1 {order.item} put aside")
    return f"shelf-{order.number}"


@activity
def charge(order: Order) -> Receipt:
    _touch(f"charge {order.number}: {order.cents / 100:.2f} EUR taken from the card")
    return Receipt(f"receipt-{order.number}", order.cents)


@activity
def pack(order: Order) -> str:
    _touch(f"pack {order.number}: wrapping the {order.item}")
    time.sleep(PACKING)
    _touch(f"packed {order.number}: the {order.item} is in its box")
    return f"parcel-{order.number}"


@activity
def hand_over(parcel: str) -> str:
    _touch(f"ship {parcel}: handed over to the carrier")
    return f"track-{parcel}"


@workflow
def ship(ctx: Context, parcel: str) -> Flow[str]:
    tracking = yield from ctx.step(hand_over, parcel)
    return tracking


@workflow(name="order")
def order_workflow(ctx: Context, order: Order) -> Flow[Delivery]:
    yield from ctx.step(reserve, order)
    receipt = yield from ctx.step(charge, order)
    yield from ctx.publish(stage="charged", receipt=receipt.id)
    parcel = yield from ctx.step(pack, order)
    yield from ctx.publish(stage="resting")
    yield from ctx.sleep(PAUSE)
    yield from ctx.publish(stage="waiting for approval")
    approval = yield from ctx.signal(APPROVAL)
    tracking = yield from ctx.child(ship, parcel)
    return Delivery(receipt.id, parcel, tracking, approval.by)


def _touch(what: str) -> None:
    """Touch the world: one line for the witness, written through to the disk, and one on the worker's own output."""
    line = f"{what} (process {os.getpid()})\n".encode()
    log = os.open(os.environ[LOG_VARIABLE], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(log, line)
        os.fsync(log)
    finally:
        os.close(log)
    print(what, flush=True)  # noqa: T201 - the demo shows what its workers print
