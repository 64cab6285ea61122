"""A table of payments beside the runs, and what tests of transactions ask of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import asyncpg
import pytest_asyncio

from runnerq.client.handle import Handle
from runnerq.persistence.postgres import PostgresStorage
from runnerq.persistence.protocol import Storage, Work
from runnerq.persistence.records import Turn, Verdict
from runnerq.runtime.current import current
from tests.runtime.stage import SOON, Stage, Tapped

SCHEMA = """
    create table payment (id bigserial primary key, run text not null, note text not null);
    create table account (name text primary key, cents integer not null);
    create table receipt (
        payment bigint references payment (id) deferrable initially deferred
    );
    create function wait_for_the_test() returns trigger language plpgsql as $$
    begin
        perform pg_advisory_xact_lock(4711);
        return null;
    end $$;
    create table slow (run text);
    create constraint trigger slow_commit after insert on slow
        deferrable initially deferred for each row execute function wait_for_the_test();
"""


class Bank:
    """Looks at the tables on a connection of its own."""

    def __init__(self, connection: Any, dsn: str) -> None:
        self.connection = connection
        self.dsn = dsn

    async def paid(self, run: Handle[Any]) -> list[str]:
        """The notes of a run's payments."""
        rows = await self.connection.fetch("select note from payment where run = $1 order by note", run.id)
        return [row["note"] for row in rows]

    async def open_account(self, name: str, cents: int = 100) -> str:
        await self.connection.execute("insert into account values ($1, $2)", name, cents)
        return name

    async def cents(self, name: str) -> int:
        return int(await self.connection.fetchval("select cents from account where name = $1", name))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bank(module_database: str) -> AsyncIterator[Bank]:
    connection = await asyncpg.connect(module_database)
    await connection.execute(SCHEMA)
    yield Bank(connection, module_database)
    await connection.close(timeout=5)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(module_database: str) -> AsyncIterator[Stage]:
    stage = Stage(PostgresStorage(module_database))
    async with stage.base:
        yield stage


@pytest_asyncio.fixture(loop_scope="module")
async def postgres(opened: Stage) -> Stage:
    """A queue of the test's own, on the storage of the module."""
    return opened.beside(cache=0)


async def pay(connection: Any, note: str) -> str:
    """One payment of the run that this is called in."""
    await connection.execute("insert into payment (run, note) values ($1, $2)", current().run_id, note)
    return note


async def commit_waits(bank: Bank) -> None:
    """Until a COMMIT is under way that waits for the test's lock 4711."""
    async with asyncio.timeout(SOON):
        while not await bank.connection.fetchval(
            "select count(*) from pg_stat_activity where wait_event = 'advisory' and query = 'COMMIT;'"
            " and datname = current_database()"
        ):
            await asyncio.sleep(0.01)


async def backend_of(connection: Any) -> int:
    return int(await connection.fetchval("select pg_backend_pid()"))


class Seams(Tapped):
    """A storage that a test meets at the seams of its transactions.

    ``entering`` is awaited before each, ``carried_out`` behind its function, ``committing`` is called with the
    connection itself right before its COMMIT, ``looking_up`` is awaited before each look at what became of one.
    """

    entering: Callable[[], Awaitable[None]] | None = None
    carried_out: Callable[[Any], Awaitable[None]] | None = None
    committing: Callable[[Any], None] | None = None
    looking_up: Callable[[], Awaitable[None]] | None = None

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.entries: list[Turn] = []

    async def transact(self, work: Work) -> Verdict:
        if self.entering is not None:
            await self.entering()
        return await self._storage.transact(cast("Work", _Met(work, self)))

    async def look_up(self, turn: Turn) -> Verdict:
        if self.looking_up is not None:
            await self.looking_up()
        return await self._storage.look_up(turn)


class _Met:
    def __init__(self, work: Work, seams: Seams) -> None:
        self._work = work
        self._seams = seams
        self._connection: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)

    async def carry_out(self, connection: Any) -> Turn:
        self._connection = connection._con
        turn = await self._work.carry_out(connection)
        self._seams.entries.append(turn)
        if self._seams.carried_out is not None:
            await self._seams.carried_out(connection)
        return turn

    def committing(self) -> None:
        self._work.committing()
        if self._seams.committing is not None:
            self._seams.committing(self._connection)


def once(act: Callable[..., Any]) -> Callable[..., Any]:
    """Does it the first time."""
    done = False

    def only_once(*args: Any) -> Any:
        nonlocal done
        if done:
            return _nothing()
        done = True
        return act(*args)

    return only_once


class _Nothing:
    def __await__(self) -> Any:
        return iter(())


def _nothing() -> _Nothing:
    return _Nothing()
