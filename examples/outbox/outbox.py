"""A transactional outbox: an order and the run that ships it are one commit, or neither is there."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import runnerq as rq
from runnerq.persistence.embedded import EmbeddedPostgres

sessions: async_sessionmaker[AsyncSession] = async_sessionmaker(expire_on_commit=False)


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "example_orders"
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
    async with AsyncExitStack() as stack:
        # The shop's own database: runnerq lives in a schema of it. Without one, the embedded server of this folder.
        dsn = os.environ.get("RUNNERQ_DSN", "") or await stack.enter_async_context(EmbeddedPostgres())
        engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
        stack.push_async_callback(engine.dispose)
        sessions.configure(bind=engine)
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)

        client = await stack.enter_async_context(rq.connect(dsn))
        await stack.enter_async_context(rq.Worker(client, activities=[ship]))
        cup, mug = Order(id=f"o-{uuid4()}", item="cup"), Order(id=f"o-{uuid4()}", item="mug")
        run = await place(client, cup, in_stock=True)
        print("cup:", await run.result(timeout=30))  # the commit has woken the worker
        try:
            await place(client, mug, in_stock=False)
        except LookupError as error:
            print("mug:", error)
        try:
            await client.handle_by_key(ship, mug.id).status()
        except rq.RunNotFound:
            print("mug: there is no run that ships it")


if __name__ == "__main__":
    asyncio.run(main())
