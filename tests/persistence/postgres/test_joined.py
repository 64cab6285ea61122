"""Starts and sends in the caller's own transaction, by each driver, with a worker that lives meanwhile.

The worker polls once a minute: what is taken up in time was woken by the commit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import asyncpg
import pytest
import pytest_asyncio

from runnerq.client.client import Client
from runnerq.client.connect import connect
from runnerq.client.handle import Handle
from runnerq.errors import KeyTaken, RunFinished, RunNotFound
from runnerq.ids import new_run_id
from runnerq.persistence.records import RunFilter, Status
from runnerq.runtime.current import current
from runnerq.runtime.worker import Worker
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow
from tests.persistence.postgres.borrowing import DRIVERS, WAYS, RollBack
from tests.pgbouncer import pgbouncer
from tests.postgres import execute, fetch_value

pytestmark = pytest.mark.asyncio(loop_scope="module")

SOON = 20.0
"""Seconds after which a run that nobody has woken is taken for lost."""

APPROVAL: Signal[str] = Signal("approval", str)

each_way = pytest.mark.parametrize("way", sorted(WAYS))
each_way_in = pytest.mark.parametrize(
    ("way", "way_in"), [(way, "module_database") for way in sorted(WAYS)] + [(way, "pooler") for way in DRIVERS]
)
"""Each driver, on its way to Postgres itself, or through a pooler: the fixture of its DSN."""


@activity
async def ship(order: str) -> str:
    return f"{order} shipped"


@workflow
def approve(ctx: Context, order: str) -> Flow[str]:
    yield from ctx.publish(waits=True)
    name = yield from ctx.signal(APPROVAL)
    return f"{order} approved by {name}"


@activity(retry=1)
async def place(connection: asyncpg.Connection, order: str, fails: bool) -> list[str]:
    await connection.execute("insert into orders values ($1)", order)
    client = current().client.options(connection=connection)
    runs = [await client.start(ship, f"{order}-{number}") for number in range(2)]
    if fails:
        raise LookupError("out of stock")
    return [run.id for run in runs]


@workflow
def buy(ctx: Context, order: str, fails: bool) -> Flow[list[str]]:
    try:
        ids = yield from ctx.transaction(place, order, fails)
    except LookupError:
        return []
    return ids


class Shop:
    """A client with a living worker, and a table of the caller's own."""

    def __init__(self, client: Client, dsn: str) -> None:
        self.client = client
        self.dsn = dsn

    async def orders(self) -> list[str]:
        return await fetch_value(self.dsn, "select array_agg(id) from orders") or []

    async def waiting(self) -> Handle[str]:
        """A run that waits for its approval."""
        run = await self.client.start(approve, "cup")
        await run.reached(Status.WAITING, timeout=SOON)
        return run


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(module_database: str) -> AsyncIterator[Shop]:
    await execute(module_database, "create table orders (id text primary key)")
    async with (
        connect(module_database) as client,
        Worker(client, workflows=[approve, buy], activities=[ship], poll_interval=60, build="tests"),
    ):
        yield Shop(client, module_database)


@pytest.fixture(scope="module")
def pooler(module_database: str) -> Iterator[str]:
    with pgbouncer(module_database, pool_size=2) as dsn:
        yield dsn


@pytest.fixture
def order() -> str:
    return f"order-{new_run_id()}"


@each_way_in
async def test_a_commit_makes_the_run_with_the_order_and_wakes_a_worker(
    shop: Shop, way: str, way_in: str, order: str, request: pytest.FixtureRequest
) -> None:
    waiting = await shop.waiting()
    async with WAYS[way](request.getfixturevalue(way_in)) as mine:
        joined = shop.client.options(connection=mine.connection)
        await mine.execute(f"insert into orders values ('{order}')")
        run = await joined.start(ship, order)
        assert run.created
        assert await joined.send(waiting.id, APPROVAL, "Ann")
        with pytest.raises(RunNotFound):
            await run.status()
        assert await waiting.status() is Status.WAITING
    assert await run.result(timeout=SOON) == f"{order} shipped"
    assert await waiting.result(timeout=SOON) == "cup approved by Ann"
    assert order in await shop.orders()


@each_way_in
async def test_a_rollback_leaves_neither_the_order_nor_the_run_nor_the_signal(
    shop: Shop, way: str, way_in: str, order: str, request: pytest.FixtureRequest
) -> None:
    waiting = await shop.waiting()
    with suppress(RollBack):
        async with WAYS[way](request.getfixturevalue(way_in)) as mine:
            joined = shop.client.options(connection=mine.connection)
            await mine.execute(f"insert into orders values ('{order}')")
            run = await joined.options(key=order).start(ship, order)
            await joined.send(waiting.id, APPROVAL, "Ann")
            raise RollBack
    with pytest.raises(RunNotFound):
        await run.result()
    with pytest.raises(RunNotFound):
        await shop.client.handle_by_key(ship, order).status()
    assert order not in await shop.orders()
    assert await shop.client.storage.mailbox(waiting.id) == []


@each_way
async def test_what_follows_a_savepoint_goes_with_it_and_the_rest_stays(shop: Shop, way: str, order: str) -> None:
    async with WAYS[way](shop.dsn) as mine:
        joined = shop.client.options(connection=mine.connection)
        kept = await joined.options(key=order).start(ship, order)
        with suppress(RollBack):
            async with mine.savepoint():
                gone = await joined.start(ship, "gone")
                raise RollBack
        last = await joined.start(ship, "last")
    assert [await run.result(timeout=SOON) for run in (kept, last)] == [f"{order} shipped", "last shipped"]
    with pytest.raises(RunNotFound):
        await gone.status()


@each_way
async def test_keys_and_signals_answer_as_ever_and_a_refusal_leaves_the_transaction_as_it_was(
    shop: Shop, way: str, order: str
) -> None:
    ended = await shop.client.options(key=f"{order}-ended").start(ship, "ended")
    await ended.result(timeout=SOON)
    async with WAYS[way](shop.dsn) as mine:
        joined = shop.client.options(connection=mine.connection)
        made = await joined.options(key=order, signals=[(APPROVAL, "Ann")]).start(approve, order)
        found = await joined.options(key=order).start(approve, order)
        with pytest.raises(KeyTaken) as taken:
            await joined.options(key=order, on_duplicate="no_reuse").start(approve, order)
        with pytest.raises(RunFinished):
            await joined.options(key=f"{order}-ended", signals=[(APPROVAL, "Ann")]).start(ship, "ended")
        with pytest.raises(RunFinished):
            await joined.send(ended.id, APPROVAL, "Ann")
        with pytest.raises(RunNotFound):
            await joined.send(new_run_id(), APPROVAL, "Ann")
        many = await joined.start_many(ship, [("a",), ("b",)], keys=[f"{order}-a", f"{order}-a"])
        assert await joined.options(key=order).options(signals=[]).start(approve, order)
    assert (found.id, found.created, taken.value.run_id) == (made.id, False, made.id)
    assert [run.created for run in many] == [True, False]
    assert await made.result(timeout=SOON) == f"{order} approved by Ann"
    assert [await run.result(timeout=SOON) for run in many] == ["a shipped"] * 2


async def test_thousands_of_starts_are_one_commit(shop: Shop) -> None:
    async with WAYS["asyncpg"](shop.dsn) as mine:
        joined = shop.client.options(delay=3600, connection=mine.connection)
        runs = await joined.start_many(ship, [(f"{number}",) for number in range(1100)])
        assert await shop.client.storage.run(runs[0].id) is None
    assert [await run.status() for run in (runs[0], runs[-1])] == [Status.SCHEDULED] * 2


async def test_a_name_is_enough_and_a_delay_counts_from_the_beginning_of_the_transaction(shop: Shop) -> None:
    async with WAYS["session-psycopg"](shop.dsn) as mine:
        began = (await mine.execute("select now()")).scalar_one()
        joined = shop.client.options(connection=mine.connection)
        run = await joined.options(delay=3600, metadata={"by": "ann"}).start("ship", "cup")
    info = await run.info()
    assert (info.status, info.metadata) == (Status.SCHEDULED, {"by": "ann"})
    assert info.due_at is not None
    assert (info.due_at - began).total_seconds() == 3600


@pytest.mark.parametrize("fails", [False, True], ids=["kept", "undone"])
async def test_a_transaction_of_a_workflow_starts_its_children_with_what_it_writes(
    shop: Shop, order: str, fails: bool
) -> None:
    run = await shop.client.start(buy, order, fails)
    ids = await run.result(timeout=SOON)
    children = [shop.client.handle(child) for child in ids]
    assert [await child.result(timeout=SOON) for child in children] == (
        [] if fails else [f"{order}-{n} shipped" for n in (0, 1)]
    )
    assert {child.id for child in (await shop.client.list(RunFilter(parent=run.id))).items} == set(ids)
    assert (order in await shop.orders()) is not fails
