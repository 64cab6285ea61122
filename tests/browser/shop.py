"""What the console's tests and pictures look at: a shop with orders, imports, payouts and things that go wrong."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec

from runnerq.errors import NonRetryableError
from runnerq.retry import RetryPolicy
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow


class Line(msgspec.Struct, frozen=True):
    sku: str
    quantity: int
    cents: int


class Order(msgspec.Struct, frozen=True):
    number: str
    customer: str
    lines: tuple[Line, ...]
    card_number: str = "4929 1234 5678 9012"
    note: str = ""


class Decision(msgspec.Struct, frozen=True):
    ok: bool
    by: str = ""


class Receipt(msgspec.Struct, frozen=True):
    payment: str
    cents: int


class Shipment(msgspec.Struct, frozen=True):
    tracking: str
    carrier: str
    payment: str


class CourierError(Exception):
    """The courier's system said no."""


class PaymentProviderError(Exception):
    """The bank's system said no."""


APPROVAL: Signal[Decision] = Signal("approval", Decision)
GO_ON: Signal[Any] = Signal("go-on", Any)

QUICK = RetryPolicy(max_attempts=2, base=0.01, jitter=0.0)
PATIENT = RetryPolicy(max_attempts=10, base=3600.0, jitter=0.0)


# --- steps ------------------------------------------------------------------------------------------------------------


@activity
async def reserve_stock(order: Order) -> list[str]:
    return [f"RSV-{line.sku}-{line.quantity}" for line in order.lines]


@activity
async def charge_card(order: Order) -> Receipt:
    return Receipt(f"pay_{order.number.lower()}", sum(line.cents * line.quantity for line in order.lines))


@activity
async def send_receipt(order: Order, receipt: Receipt) -> None:
    """Nobody reads it."""


@activity
async def book_courier(order: Order) -> str:
    return f"JD0146{len(order.lines):06d}{len(order.number):04d}"


@activity
async def resize_image(name: str) -> str:
    if name.endswith("-0042.jpg"):
        raise NonRetryableError(f"{name} is not an image: its header is 'GIF89a' and the rest is missing")
    return name.replace(".jpg", "@2x.webp")


@activity
async def read_page(number: int) -> int:
    return number


@activity(retry=PATIENT)
async def fetch_exchange_rates(day: str) -> dict[str, float]:
    raise ConnectionError(f"rates.example: 503 Service Unavailable for {day}")


@activity(retry=QUICK)
async def notify_warehouse(order: str, attempt_no: int) -> None:
    raise CourierError(f"order {order}: warehouse answered 502 after {attempt_no} ms (request 8f3e{attempt_no:04x})")


@activity(retry=QUICK)
async def lose_parcel(order: str) -> None:
    raise CourierError(f"the parcel of {order} is not to be found")


@activity
async def pay_out(account: str, cents: int) -> None:
    try:
        _call_the_bank(account, cents)
    except PaymentProviderError as error:
        raise NonRetryableError(f"payout of {cents / 100:.2f} EUR to {account} was refused for good") from error


def _call_the_bank(account: str, cents: int) -> None:
    try:
        raise TimeoutError("bank.example:443 did not answer within 30 s")
    except TimeoutError as error:
        raise PaymentProviderError(f"transfer {cents} to {account}: no such account") from error


@activity(timeout=86_400)
async def transcode_video(name: str) -> str:
    """Until somebody cancels it."""
    await asyncio.Event().wait()
    return name


@activity
async def greet(name: str) -> str:
    return f"hello {name}"


@activity
async def echo(value: Any) -> Any:
    return value


@activity
async def fail_with(text: str) -> None:
    raise NonRetryableError(text)


# --- workflows --------------------------------------------------------------------------------------------------------


@workflow
def checkout(ctx: Context, order: Order) -> Flow[Shipment]:
    yield ctx.publish(stage="reserving", customer=order.customer)
    yield ctx.step(reserve_stock, order)
    receipt = yield from ctx.step(charge_card, order)
    yield ctx.publish(stage="waiting for approval")
    decision = yield from ctx.signal(APPROVAL, timeout=timedelta(hours=48))
    if not decision.ok:
        raise NonRetryableError(f"order {order.number} was refused by {decision.by}")
    yield ctx.publish(stage="shipping")
    tracking = yield from ctx.child(ship, order)
    yield ctx.all(ctx.step(send_receipt, order, receipt), ctx.sleep(0.01))
    return Shipment(tracking, "DHL", receipt.payment)


@workflow
def ship(ctx: Context, order: Order) -> Flow[str]:
    return (yield from ctx.child(book_courier, order))


@workflow
def import_catalogue(ctx: Context, supplier: str, count: int) -> Flow[int]:
    images = [f"{supplier}/product-{number:04d}.jpg" for number in range(count)]
    answers = yield from ctx.gather((ctx.child(resize_image, image) for image in images), return_errors=True)
    return sum(isinstance(answer, str) for answer in answers)


@workflow
def onboard_customer(ctx: Context, email: str, password: str) -> Flow[str]:
    yield ctx.step(greet, email)
    first = yield from ctx.race(ctx.signal("email-confirmed"), ctx.sleep(timedelta(days=7)))
    return "confirmed" if first.index == 0 else "forgotten"


@workflow
def pay_supplier(ctx: Context, account: str, cents: int) -> Flow[None]:
    yield ctx.step(pay_out, account, cents)


@workflow
def nightly_report(ctx: Context, region: str = "EU") -> Flow[str]:
    total = 0
    for page in range(6):
        total += yield from ctx.step(read_page, page)
    return f"{region}: {total}"


@workflow
def refresh_prices(ctx: Context, day: str) -> Flow[int]:
    rates = yield from ctx.step(fetch_exchange_rates, day)
    return len(rates)


@workflow
def ask(ctx: Context, question: str, metadata: Any = None) -> Flow[Any]:
    """Waits for the signal ``go-on``, and answers with it."""
    yield ctx.publish(question=question)
    return (yield from ctx.signal(GO_ON))


@workflow
def parse(ctx: Context, text: str) -> Flow[Any]:
    yield ctx.publish(text=text)
    yield ctx.step(echo, text)
    yield ctx.step(fail_with, text)


@workflow
def count_up(ctx: Context, upto: int) -> Flow[int]:
    for number in range(upto):
        yield ctx.step(read_page, number)
    return upto


@workflow(name="move_account")
def move_account_before(ctx: Context, account: str) -> Flow[None]:
    """As it was when the run began."""
    yield ctx.step(greet, account)
    yield ctx.signal(GO_ON)


@workflow(name="move_account")
def move_account_after(ctx: Context, account: str) -> Flow[None]:
    """As somebody changed it while the run was open: it asks for another step first."""
    yield ctx.step(echo, account)
    yield ctx.signal(GO_ON)


FLOWS = (
    checkout, ship, import_catalogue, onboard_customer, pay_supplier, nightly_report, refresh_prices, ask, parse,
    count_up,
)  # fmt: skip
STEPS = (
    reserve_stock, charge_card, send_receipt, book_courier, resize_image, read_page, fetch_exchange_rates,
    notify_warehouse, lose_parcel, pay_out, transcode_video, greet, echo, fail_with,
)  # fmt: skip
BEFORE = (*FLOWS, move_account_before)
AFTER = (*FLOWS, move_account_after)


def order(number: str, customer: str = "Ada Lovelace", lines: int = 2) -> Order:
    """An order of so many lines."""
    return Order(number, customer, tuple(Line(f"CUP-{n:03d}", n + 1, 950 + 100 * n) for n in range(lines)))
