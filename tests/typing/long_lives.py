"""Only type-checked: what ends, undoes and changes a run that is open, and what it must reject.

Each `type: ignore` below is an error in both checkers; a superfluous one is reported by both.
"""

from __future__ import annotations

from typing import Any, assert_type

import runnerq as rq


@rq.activity
async def book(seat: int, *, window: bool = False) -> str:
    return str(seat)


def unbook(seat: int, reason: str = "") -> None: ...


class Desk:
    def refund(self, amount: float) -> bool:
        return amount > 0


@rq.workflow
def counts(ctx: rq.Context, done: int = 0) -> rq.Flow[int]:
    yield from ctx.sleep(1)
    if done < 10:
        return ctx.continue_as_new(done + 1)
    return done


@rq.workflow
def goes_on_for_ever(ctx: rq.Context, done: int = 0, *, fast: bool = False) -> rq.Flow[None]:
    yield from ctx.sleep(1)
    ctx.continue_as_new(done + 1, fast=fast)


@rq.workflow
def undoes(ctx: rq.Context) -> rq.Flow[str]:
    ctx.compensate(unbook, 3, reason="no flight")
    ctx.compensate(book, 3, window=True)
    ctx.compensate(Desk().refund, 1.0)
    ctx.options(retry=5, timeout=3, name="give back").compensate(unbook, 3)
    assert_type((yield from ctx.step(book, 3)), str)
    return "booked"


@rq.workflow
def changed(ctx: rq.Context) -> rq.Flow[int]:
    assert_type(ctx.patched("mail"), bool)
    if ctx.patched("mail"):
        yield from ctx.step(unbook, 3)
    assert_type((yield from ctx.options(formerly="reserve").step(book, 3)), str)
    assert_type((yield from ctx.options(formerly=["reserve", "take"], arguments="any").step(book, 3)), str)
    return 1


@rq.workflow
def wrong(ctx: rq.Context) -> rq.Flow[int]:
    ctx.compensate(unbook, "three")  # type: ignore[arg-type]
    ctx.compensate(unbook)  # type: ignore[call-arg]
    ctx.compensate(book, 3, aisle=True)  # type: ignore[call-arg]
    ctx.compensate("unbook", 3)  # type: ignore[arg-type]
    yield ctx.compensate(unbook, 3)  # type: ignore[func-returns-value, misc]
    ctx.patched(5)  # type: ignore[arg-type]
    ctx.options(formerly=5)  # type: ignore[arg-type]
    ctx.options(arguments="some")  # type: ignore[arg-type]
    number: str = ctx.patched("mail")  # type: ignore[assignment]
    print(number)
    return 1


def by_hand() -> None:
    run: Any = undoes(rq.Context())
    next(run)
