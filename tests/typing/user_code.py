"""Only type-checked: what a workflow's commands infer, and what they must reject.

Each `type: ignore` below is an error in both checkers; a superfluous one is reported by both.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar, assert_type
from uuid import UUID

import runnerq as rq

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Order(NamedTuple):
    item: str
    pieces: int = 1


class Receipt(NamedTuple):
    number: int


class Shipment(NamedTuple):
    tracking: str


class Yes(NamedTuple):
    by: str


class No(NamedTuple):
    why: str


APPROVAL = rq.Signal("approval", bool)
ORDERS = rq.Signal("orders", list[Order])
REPLY: rq.Signal[Yes | No] = rq.Signal("reply", Yes | No)
UNTYPED: rq.Signal[Any] = rq.Signal("untyped", Any)


# --- declaring --------------------------------------------------------------------------------------------------------


@rq.activity
def price(item: str, count: int = 1, *, express: bool = False) -> float:
    return len(item) * count * (2.0 if express else 1.0)


@rq.activity(name="charge.v1", retry=rq.RetryPolicy(max_attempts=5, retry_on=[OSError]), timeout=30)
async def charge(order: Order, amount: float) -> Receipt:
    return Receipt(order.pieces)


@rq.activity(retry=2, timeout=timedelta(seconds=5), queue="mail", priority=rq.Priority.LOW)
def mail(to: str) -> None: ...


def plain(x: float) -> list[float]:
    return [x]


async def plain_async(x: int) -> dict[str, int]:
    return {"x": x}


def nothing_asked() -> bytes:
    return b""


def generic(x: T) -> T:
    return x


class Shop:
    @rq.activity
    def stock(self, item: str) -> int:
        return len(item)

    async def reserve(self, item: str) -> bool:
        return bool(item)

    @staticmethod
    def close(name: str) -> str:
        return name

    @classmethod
    def open(cls, name: str) -> complex:
        return complex(len(name))


def part(ctx: rq.Context, count: int) -> rq.Flow[int]:
    """A part of a workflow, without a decorator."""
    total = 0
    for _ in range(count):
        total += len((yield from ctx.step(plain, 1.0)))
    return total


@rq.workflow
def ship(ctx: rq.Context, order: Order, *, fast: bool = False) -> rq.Flow[Shipment]:
    yield ctx.sleep(1)
    return Shipment(order.item)


@rq.workflow(name="checkout", version=2, timeout=timedelta(days=1), queue="shop", metadata={"team": "shop"})
def checkout(ctx: rq.Context, order: Order) -> rq.Flow[Receipt]:
    amount = yield from ctx.step(price, order.item, order.pieces, express=True)
    receipt = yield from ctx.step(charge, order, amount)
    return receipt


def logged(fn: Callable[Concatenate[rq.Context, P], rq.Flow[R]]) -> Callable[Concatenate[rq.Context, P], rq.Flow[R]]:
    def wrapper(ctx: rq.Context, /, *args: P.args, **kwargs: P.kwargs) -> rq.Flow[R]:
        ctx.log.info("begin")
        result = yield from fn(ctx, *args, **kwargs)
        return result

    return wrapper


@rq.workflow
@logged
def logged_ship(ctx: rq.Context, order: Order) -> rq.Flow[Shipment]:
    yield from ctx.sleep(1)
    return Shipment(order.item)


def decorators_are_identity() -> None:
    assert_type(price("hat", 2, express=True), float)
    assert_type(Shop().stock("hat"), int)
    assert_type(checkout(rq.Context(), Order("hat")), rq.Flow[Receipt])
    assert_type(logged_ship(rq.Context(), Order("hat")), rq.Flow[Shipment])
    price(5)  # type: ignore[arg-type]
    checkout(rq.Context(), "hat")  # type: ignore[arg-type]


# --- what is inferred -------------------------------------------------------------------------------------------------


@rq.workflow
def steps(ctx: rq.Context) -> rq.Flow[None]:
    assert_type((yield from ctx.step(price, "hat", count=2)), float)
    assert_type((yield from ctx.step(charge, Order("hat"), 2.0)), Receipt)
    assert_type((yield from ctx.step(plain, 1)), list[float])
    assert_type((yield from ctx.step(plain_async, 1)), dict[str, int])
    assert_type((yield from ctx.step(nothing_asked)), bytes)
    assert_type((yield from ctx.step(generic, 1)), int)
    assert_type((yield from ctx.step(partial(price, "hat"), 2)), float)
    shop = Shop()
    assert_type((yield from ctx.step(shop.stock, "hat")), int)
    assert_type((yield from ctx.step(shop.reserve, "hat")), bool)
    assert_type((yield from ctx.step(Shop.close, "hat")), str)
    assert_type((yield from ctx.step(Shop.open, "hat")), complex)
    assert_type((yield from ctx.options(timeout=5, retry=2, name="again").step(price, "hat")), float)
    assert_type((yield from ctx.options(retry=rq.RetryPolicy(base=timedelta(seconds=1))).step(price, "hat")), float)
    yield from ctx.step(mail, "me")
    # A command is a value: made here, asked for below.
    command = ctx.step(price, "hat")
    assert_type(command, rq.Command[float])
    assert_type((yield from command), float)
    # A plain yield works as well; its answer is Any.
    answer = yield ctx.step(price, "hat")
    assert_type(answer, Any)
    yield ctx.step(mail, "me")


@rq.workflow
def children(ctx: rq.Context) -> rq.Flow[int]:
    assert_type((yield from ctx.child(ship, Order("hat"), fast=True)), Shipment)
    assert_type((yield from ctx.child(logged_ship, Order("hat"))), Shipment)
    assert_type((yield from ctx.child(part, 3)), int)
    assert_type((yield from ctx.child(charge, Order("hat"), 1.0)), Receipt)
    assert_type((yield from ctx.child(price, "hat")), float)
    assert_type((yield from ctx.options(key="k", parent_close="abandon").child(ship, Order("hat"))), Shipment)
    assert_type((yield from ctx.options(key="k", on_duplicate="allow_reuse").child(ship, Order("hat"))), Shipment)
    alone = yield from ctx.options(detached=True).spawn(ship, Order("hat"))
    assert_type(alone.id, str)
    # A part runs in this run.
    assert_type((yield from part(ctx, 3)), int)
    assert_type((yield from ship(ctx, Order("hat"))), Shipment)
    handle = yield from ctx.spawn(ship, Order("hat"))
    assert_type(handle.id, str)
    assert_type((yield from handle.result()), Shipment)
    yield from handle.send(APPROVAL, True)
    assert_type((yield from handle.cancel()), bool)
    assert_type((yield from (yield from ctx.spawn(charge, Order("hat"), 1.0)).result()), Receipt)
    assert_type((yield from (yield from ctx.spawn(price, "hat")).result()), float)
    assert_type(ctx.handle("id"), rq.ChildHandle)
    return 1


@rq.workflow
def waits(ctx: rq.Context) -> rq.Flow[str]:
    yield from ctx.sleep(0.5)
    yield from ctx.sleep(timedelta(hours=1))
    yield ctx.sleep_until(datetime(2030, 1, 1, tzinfo=UTC))
    assert_type((yield from ctx.signal(APPROVAL)), bool)
    assert_type((yield from ctx.signal(APPROVAL, timeout=timedelta(hours=1))), bool)
    assert_type((yield from ctx.signal(APPROVAL, timeout=5, default=None)), bool | None)
    assert_type((yield from ctx.signal(ORDERS, timeout=0, latest=True)), list[Order])
    assert_type((yield from ctx.signal(REPLY)), Yes | No)
    assert_type((yield from ctx.signal(UNTYPED)), Any)
    assert_type((yield from ctx.signal("by name")), Any)
    yield from ctx.send("run id", APPROVAL, True)
    yield from ctx.send("run id", REPLY, No("too late"))
    yield from ctx.send("run id", "by name", object())
    yield from ctx.publish(stage="paid", percent=50)
    return "done"


@rq.workflow
def composites(ctx: rq.Context) -> rq.Flow[int]:
    number, shipment, answer = yield from ctx.all(ctx.step(price, "hat"), ctx.child(ship, Order("hat")), part(ctx, 2))
    assert_type(number, float)
    assert_type(shipment, Shipment)
    assert_type(answer, int)
    assert_type((yield from ctx.all()), tuple[()])
    assert_type((yield from ctx.all(ctx.sleep(1), ctx.signal(APPROVAL))), tuple[None, bool])
    assert_type((yield from ctx.gather(ctx.step(price, item) for item in "abc")), list[float])
    assert_type((yield from ctx.gather([part(ctx, 1), part(ctx, 2)], limit=1)), list[int])
    assert_type(
        (yield from ctx.gather([ctx.step(price, "hat")], return_errors=True)),
        list[float | Exception],
    )
    nested = yield from ctx.all(ctx.gather([ctx.step(price, "hat")]), ctx.all(ctx.step(nothing_asked), part(ctx, 1)))
    assert_type(nested, tuple[list[float], tuple[bytes, int]])
    winner = yield from ctx.race(ctx.signal(APPROVAL), ctx.step(price, "hat"))
    assert_type(winner, rq.Winner[bool | float])
    assert_type(winner.value, bool | float)
    index, value = yield from ctx.race(part(ctx, 1), ctx.step(nothing_asked), ctx.signal(REPLY))
    assert_type(index, int)
    assert_type(value, int | bytes | Yes | No)
    return 1


@rq.workflow
def plain_calls(ctx: rq.Context) -> rq.Flow[datetime]:
    yield ctx.sleep(0)
    assert_type(ctx.now(), datetime)
    assert_type(ctx.uuid(), UUID)
    assert_type(ctx.random, Random)
    assert_type(ctx.info, rq.Info)
    assert_type(ctx.info.metadata["team"], str)
    assert_type(ctx.replaying, bool)
    ctx.log.warning("half %s", "done")
    try:
        yield ctx.child(ship, Order("hat"))
    except rq.ChildFailed as failed:
        assert_type(failed.child_id, str)
    except rq.StepError as failed:
        print(failed)
    return ctx.now()


# --- what is rejected -------------------------------------------------------------------------------------------------


@rq.workflow
def wrong_arguments(ctx: rq.Context) -> rq.Flow[int]:
    yield from ctx.step(price, 5)  # type: ignore[call-overload]
    yield from ctx.step(price)  # type: ignore[call-overload]
    yield from ctx.step(price, "hat", 1, 2)  # type: ignore[call-overload]
    yield from ctx.step(price, "hat", colour="red")  # type: ignore[arg-type, call-arg]
    yield from ctx.step(charge, "hat", 1.0)  # type: ignore[call-overload]
    yield from ctx.step(Shop().stock, 5)  # type: ignore[call-overload]
    yield from ctx.child(ship, "hat")  # type: ignore[call-overload]
    yield from ctx.child(ship)  # type: ignore[call-overload]
    yield from ctx.child(ship, Order("hat"), slow=True)  # type: ignore[call-arg]
    yield from ctx.child(charge, Order("hat"))  # type: ignore[call-overload]
    yield from ctx.spawn(ship, 5)  # type: ignore[call-overload]
    yield from part(ctx, "three")  # type: ignore[arg-type]
    yield from ctx.sleep("soon")  # type: ignore[arg-type]
    yield from ctx.sleep_until(5)  # type: ignore[arg-type]
    ctx.options(retries=5)  # type: ignore[call-arg]
    ctx.options(parent_close="kill")  # type: ignore[arg-type]
    ctx.options(on_duplicate="explode")  # type: ignore[arg-type]
    return 1


@rq.workflow
def wrong_signals(ctx: rq.Context) -> rq.Flow[int]:
    yield from ctx.send("run id", APPROVAL, "yes")  # type: ignore[misc]
    yield from ctx.send("run id", REPLY, Receipt(1))  # type: ignore[misc]
    handle = yield from ctx.spawn(ship, Order("hat"))
    yield from handle.send(APPROVAL, 1.5)  # type: ignore[misc]
    approved: str = yield from ctx.signal(APPROVAL)  # type: ignore[assignment]
    answered: bool = yield from ctx.signal(APPROVAL, timeout=1, default=None)  # type: ignore[assignment]
    print(approved, answered)
    return 1


@rq.workflow
def wrong_results(ctx: rq.Context) -> rq.Flow[int]:
    amount: str = yield from ctx.step(price, "hat")  # type: ignore[assignment]
    receipt: Shipment = yield from ctx.child(checkout, Order("hat"))  # type: ignore[assignment]
    _one, _two = yield from ctx.all(ctx.sleep(1))  # type: ignore[misc]
    numbers: list[str] = yield from ctx.gather([part(ctx, 1)])  # type: ignore[assignment]
    print(amount, receipt, numbers)
    return "one"  # type: ignore[return-value]


@rq.workflow
def wrong_yields(ctx: rq.Context) -> rq.Flow[int]:
    yield 5  # type: ignore[misc]
    yield None  # type: ignore[misc]
    yield [ctx.sleep(1)]  # type: ignore[misc]
    yield part(ctx, 1)  # type: ignore[misc]
    yield charge(Order("hat"), 1.0)  # type: ignore[misc]
    yield from ctx.all(ctx.sleep(1), 5)  # type: ignore[call-overload]
    yield from ctx.gather([1, 2])  # type: ignore[arg-type]
    yield from ctx.race(5, ctx.sleep(1))  # type: ignore[call-overload]
    return 1


@rq.workflow  # type: ignore[type-var]
def no_generator(ctx: rq.Context) -> int:
    return 1


@rq.workflow  # type: ignore[type-var]
async def no_generator_either(ctx: rq.Context) -> int:
    return 1


@rq.workflow  # type: ignore[type-var]
def no_context(order: Order) -> rq.Flow[int]:
    yield from rq.Context().sleep(1)
    return 1


@rq.workflow(retry=3)  # type: ignore[call-overload, untyped-decorator]
def retried(ctx: rq.Context) -> rq.Flow[int]:
    yield from ctx.sleep(1)
    return 1


@rq.activity(retries=3)  # type: ignore[call-overload, untyped-decorator]
def misspelled() -> None: ...


@rq.activity(priority="high")  # type: ignore[call-overload, untyped-decorator]
def in_words() -> None: ...


rq.activity(5)  # type: ignore[call-overload]
rq.RetryPolicy(attempts=3)  # type: ignore[call-arg]
rq.Signal(5, bool)  # type: ignore[call-overload]
