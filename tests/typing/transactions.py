"""Only type-checked: what ``ctx.transaction`` infers, and what it must reject."""

from __future__ import annotations

from typing import Any, NamedTuple, assert_type

import runnerq as rq


class Receipt(NamedTuple):
    number: int


class Connection:
    """Stands for asyncpg's, which has no types of its own."""

    async def execute(self, query: str, *args: object) -> str:
        return query


async def pay(connection: Connection, cents: int, *, note: str = "") -> Receipt:
    await connection.execute("insert into payment values ($1, $2)", cents, note)
    return Receipt(cents)


async def anyhow(connection: Any, cents: int) -> None: ...


def sync(connection: Connection, cents: int) -> Receipt:
    return Receipt(cents)


async def without() -> Receipt:
    return Receipt(1)


@rq.workflow
def buying(ctx: rq.Context, cents: int) -> rq.Flow[Receipt]:
    receipt = yield from ctx.transaction(pay, cents, note="book")
    assert_type(receipt, Receipt)
    assert_type((yield from ctx.transaction(anyhow, cents)), None)
    quick = ctx.options(timeout=5, retry=2, name="again").transaction(pay, cents)
    assert_type(quick, rq.Command[Receipt])
    both = yield from ctx.all(quick, ctx.transaction(anyhow, cents=cents))
    assert_type(both, tuple[Receipt, None])
    first = yield from ctx.race(ctx.transaction(pay, 1), ctx.sleep(1))
    assert_type(first.value, Receipt | None)
    return receipt


@rq.workflow
def rejected(ctx: rq.Context) -> rq.Flow[None]:
    yield from ctx.transaction(pay, "nine")  # type: ignore[arg-type]
    yield from ctx.transaction(pay)  # type: ignore[call-arg]
    yield from ctx.transaction(pay, 1, notes="x")  # type: ignore[call-arg]
    yield from ctx.transaction(sync, 1)  # type: ignore[arg-type]
    yield from ctx.transaction(without)  # type: ignore[arg-type]
