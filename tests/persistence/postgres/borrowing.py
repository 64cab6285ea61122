"""The ways in which a caller has a transaction of its own: each driver, as its users use it.

async with WAYS["psycopg"](dsn) as mine: ...     a transaction; committed when it is left, else rolled back
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
from psycopg.rows import namedtuple_row
from sqlalchemy import text
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.pool import NullPool


class RollBack(Exception):
    """Raised in a transaction that is not to be committed."""


@dataclass(frozen=True)
class Mine:
    """A connection in its transaction, how statements of the caller's own are run on it, and a savepoint made."""

    connection: Any
    execute: Callable[[str], Awaitable[Any]]
    savepoint: Callable[[], Any]


def engine_of(dsn: str, driver: str, **options: Any) -> AsyncEngine:
    """An engine that keeps no connection. Without a cache of statements, so that it works behind a pooler as well."""
    arguments: dict[str, Any] = {"prepare_threshold": None}
    if driver == "asyncpg":
        arguments = {
            "statement_cache_size": 0,
            "prepared_statement_cache_size": 0,
            "prepared_statement_name_func": lambda: f"__asyncpg_{uuid4()}__",
        }
    url = dsn.replace("postgresql://", f"postgresql+{driver}://")
    return create_async_engine(url, poolclass=NullPool, connect_args=arguments, **options)


@asynccontextmanager
async def by_asyncpg(dsn: str) -> AsyncIterator[Mine]:
    connection = await asyncpg.connect(dsn, statement_cache_size=0)
    try:
        async with connection.transaction():
            yield Mine(connection, connection.execute, connection.transaction)
    finally:
        await connection.close()


@asynccontextmanager
async def by_asyncpg_pool(dsn: str) -> AsyncIterator[Mine]:
    async with (
        asyncpg.create_pool(dsn, min_size=0, statement_cache_size=0) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield Mine(connection, connection.execute, connection.transaction)


@asynccontextmanager
async def by_psycopg(dsn: str) -> AsyncIterator[Mine]:
    """Its first statement begins the transaction, and the end of the connection ends it."""
    async with await psycopg.AsyncConnection.connect(dsn, row_factory=namedtuple_row, prepare_threshold=None) as mine:
        yield Mine(mine, mine.execute, mine.transaction)  # type: ignore[arg-type]


@asynccontextmanager
async def by_psycopg_autocommit(dsn: str) -> AsyncIterator[Mine]:
    factory = psycopg.AsyncClientCursor
    async with (
        await psycopg.AsyncConnection.connect(
            dsn, autocommit=True, cursor_factory=factory, prepare_threshold=None
        ) as mine,
        mine.transaction(),
    ):
        yield Mine(mine, mine.execute, mine.transaction)  # type: ignore[arg-type]


def by_sqlalchemy(driver: str) -> Callable[[str], AbstractAsyncContextManager[Mine]]:
    @asynccontextmanager
    async def connected(dsn: str) -> AsyncIterator[Mine]:
        engine = engine_of(dsn, driver)
        async with engine.begin() as connection:
            yield Mine(connection, lambda statement: connection.execute(text(statement)), connection.begin_nested)
        await engine.dispose()

    return connected


def by_session(driver: str) -> Callable[[str], AbstractAsyncContextManager[Mine]]:
    @asynccontextmanager
    async def connected(dsn: str) -> AsyncIterator[Mine]:
        engine = engine_of(dsn, driver)
        async with AsyncSession(engine) as session, session.begin():
            yield Mine(session, lambda statement: session.execute(text(statement)), session.begin_nested)
        await engine.dispose()

    return connected


@asynccontextmanager
async def by_scoped_session(dsn: str) -> AsyncIterator[Mine]:
    """A session that nobody has begun: it begins with its first statement, and is committed at the end."""
    engine = engine_of(dsn, "asyncpg")
    session = async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: None)
    try:
        yield Mine(session, lambda statement: session.execute(text(statement)), session.begin_nested)
        await session.commit()
    finally:
        await session.remove()
        await engine.dispose()


DRIVERS = ("asyncpg", "psycopg", "sqlalchemy-asyncpg", "sqlalchemy-psycopg")
"""Of the ways below, those that differ in what runs a statement."""

WAYS: dict[str, Callable[[str], AbstractAsyncContextManager[Mine]]] = {
    "asyncpg": by_asyncpg,
    "asyncpg-pool": by_asyncpg_pool,
    "psycopg": by_psycopg,
    "psycopg-autocommit": by_psycopg_autocommit,
    "sqlalchemy-asyncpg": by_sqlalchemy("asyncpg"),
    "sqlalchemy-psycopg": by_sqlalchemy("psycopg"),
    "session-asyncpg": by_session("asyncpg"),
    "session-psycopg": by_session("psycopg"),
    "session-scoped": by_scoped_session,
}
