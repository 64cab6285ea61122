"""Transactions without a database: on a fake, on nothing, and with a worker that dies at every seam of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from runnerq.client.client import Client
from runnerq.errors import RunFailed
from runnerq.runtime.current import current
from runnerq.serialization.encryption import Encryption
from runnerq.testing import Environment, explore_crashes
from runnerq.workflow.commands import Flow, Signal
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from tests.testing.flows import mail, ship

GO: Signal[int] = Signal("go", int)


class Ledger:
    """A fake of a connection: rows that are kept if its transaction is left in peace."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        before = list(self.rows)
        try:
            yield
        except BaseException:
            self.rows = before
            raise

    async def execute(self, _statement: str, *values: Any) -> None:
        self.rows += values


async def pay(connection: Any, cents: int) -> int:
    await connection.execute("insert into payment values ($1)", cents)
    return cents


async def overdraw(connection: Any, cents: int) -> int:
    await pay(connection, cents)
    if current().attempt < 3:
        raise LookupError("no such account")
    return cents


@workflow
def buying(ctx: Context, cents: int) -> Flow[list[Any]]:
    paid = yield from ctx.transaction(pay, cents)
    sent = yield from ctx.step(mail, "ann")
    both = yield from ctx.all(ctx.transaction(overdraw, 2), ctx.transaction(pay, 3), ctx.child(ship, "cup"))
    lost = yield from ctx.race(ctx.sleep(0), ctx.signal(GO))
    return [paid, sent, *both, lost.index, (yield from ctx.options(name="last").transaction(pay, 4))]


@workflow
def in_short(ctx: Context) -> Flow[list[int]]:
    paid = yield from ctx.transaction(pay, 1)
    both = yield from ctx.all(ctx.transaction(overdraw, 2), ctx.step(len, "abc"), ctx.transaction(pay, 3))
    return [paid, *both, (yield from ctx.options(name="last").transaction(pay, 4))]


ANSWER = [1, "mail to ann", 2, 3, "CUP", 0, 4]


async def test_functions_get_the_connection_that_the_environment_was_given() -> None:
    ledger = Ledger()
    async with Environment(workflows=[buying, ship], connection=ledger) as env:
        run = await env.start(buying, 1)
        assert await run.result() == ANSWER
    assert sorted(ledger.rows) == [1, 2, 3, 4]


async def test_a_fake_of_the_function_is_called_in_its_place() -> None:
    seen: list[int] = []

    def fake(_connection: Any, cents: int) -> int:
        seen.append(cents)
        return cents * 10

    async with Environment(workflows=[buying, ship]) as env:
        env.replace(pay, fake)
        env.replace(overdraw, fake)
        assert await (await env.start(buying, 1)).result() == [10, "mail to ann", 20, 30, "CUP", 0, 40]
    assert seen == [1, 2, 3, 4]


async def test_one_that_uses_a_connection_where_there_is_none_is_told_what_to_do() -> None:
    async with Environment(workflows=[buying, ship]) as env:
        with pytest.raises(RunFailed, match=r"there is no database here.*Environment\(connection=\)"):
            await (await env.start(buying, 1)).result()


async def test_what_it_starts_on_its_connection_is_there_if_its_entry_is() -> None:
    async def order(connection: Any, env: str, fail: bool) -> str:
        client: Client = clients[env]
        run = await client.options(connection=connection).start(ship, "cup")
        if fail:
            raise LookupError(run.id)
        return run.id

    @workflow
    def orders(ctx: Context) -> Flow[list[str]]:
        try:
            yield from ctx.options(retry=1).transaction(order, "env", True)
        except LookupError as error:
            gone = str(error.args[0])
        return [gone, (yield from ctx.transaction(order, "env", False))]

    clients: dict[str, Client] = {}
    for connection in (None, Ledger()):
        async with Environment(workflows=[orders, ship], connection=connection) as env:
            clients["env"] = env
            gone, there = await (await env.start(orders)).result()
            assert await env.handle(there, str).result() == "CUP"
            assert await env.stage.storage.run(gone) is None


async def test_its_answer_is_sealed_as_any_other() -> None:
    codec = Encryption(keys={"2026": bytes(32)}, current="2026")
    async with Environment(workflows=[buying, ship], connection=Ledger(), codec=codec) as env:
        run = await env.start(buying, 1)
        assert await run.result() == ANSWER
        journal = await env.stage.storage.journal(run.id)
        assert journal is not None
        stored = [row.value for row in journal.rows if row.position == "1" and row.kind == "answered"]
        assert [value is not None and value.startswith('"\\u007erq1:') for value in stored] == [True]


async def test_whichever_seam_a_worker_dies_at_it_is_paid_once() -> None:
    ledger = Ledger()
    played: list[list[Any]] = []

    def reset() -> None:
        played.append(sorted(ledger.rows))
        ledger.rows = []

    report = await explore_crashes(in_short, connection=ledger, reset=reset)
    played.append(sorted(ledger.rows))
    assert report.result == [1, 2, 3, 3, 4]
    assert played == [[]] + [[1, 2, 3, 4]] * (len(played) - 1)
    # Before and after each commit, those of transactions among them.
    assert report.crashes > 30
    assert set(report.ran_twice) == {"len"}
