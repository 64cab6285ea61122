"""A transactional outbox: an order and the run that ships it are one commit, or neither is there."""

from __future__ import annotations

import asyncio
import os

from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import runnerq as rq

DSN = os.environ["RUNNERQ_DSN"]  # the shop's own database: runnerq lives in a schema of it
engine = create_async_engine(DSN.replace("postgresql://", "postgresql+asyncpg://"))
sessions = async_sessionmaker(engine, expire_on_commit=False)


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(primary_key=True)
    item: Mapped[str]


@rq.activity
async def ship(order_id: str) -> str:
    async with sessions() as session:
        order = await session.get_one(Order, order_id)  # it is there: the run could not be seen before it
        return f"a {order.item} is on its way"


async def place(client: rq.Client, order: Order, *, in_stock: bool) -> rq.Handle[str]:
    async with sessions.begin() as session:
        session.add(order)
        # A row in this very transaction: no broker to tell after the commit, and nothing to clean up without one.
        run = await client.options(connection=session, key=order.id).start(ship, order.id)
        if not in_stock:
            raise LookupError(f"no {order.item} is left")
    return run


async def main() -> None:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    async with rq.connect(DSN) as client, rq.Worker(client, activities=[ship]):
        run = await place(client, Order(id="o-1", item="cup"), in_stock=True)
        print("o-1:", await run.result(timeout=30))  # the commit has woken the worker
        try:
            await place(client, Order(id="o-2", item="mug"), in_stock=False)
        except LookupError as error:
            print("o-2:", error)
        try:
            await client.handle_by_key(ship, "o-2").status()
        except rq.RunNotFound as error:
            print("o-2:", error)
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main())
