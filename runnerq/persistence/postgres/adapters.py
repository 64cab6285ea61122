"""Connections of the caller's own behind one method: asyncpg, psycopg 3, and SQLAlchemy over either of them.

Rules
- A connection is known by the names of its classes, so that nothing is imported that its owner has not loaded.
- A driver is given texts and arrays of texts alone, which the statement casts: what its owner has made of json, uuid or
  times (``set_type_codec``, dumpers, loaders) is for the owner's statements, not for ours.
- A statement goes the way that the owner's own go. SQLAlchemy and psycopg begin the transaction with the first one.
- No setting is changed, of the session or of the transaction, and no savepoint is made.
- A connection without an open transaction, on which each statement would be a commit, is refused before the first one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Protocol, TypeAlias, cast

import asyncpg

from runnerq.errors import UsageError
from runnerq.persistence.postgres.lending import Record

Text: TypeAlias = "str | list[str | None] | None"

_COMMENT = re.compile(r"\s*--[^\n]*")
_CAST = re.compile(r"(\$\d+)::(?!text\b)(double precision|\w+)(\[\])?")
_NUMBERED = re.compile(r"\$(\d+)")

_WHOLE = {"stream_results": False, "yield_per": None}
"""Options of SQLAlchemy's, an engine of which may be set up to have rows come in pieces."""

_KNOWN = (
    "connection= takes an asyncpg connection, a psycopg AsyncConnection, or a SQLAlchemy AsyncConnection or "
    "AsyncSession over one of these"
)
_INSTEAD = {
    ("asyncpg", "Pool"): "a pool: give the connection that `async with pool.acquire() as connection` has",
    ("psycopg", "Connection"): "a connection for threads: give an AsyncConnection",
    ("psycopg_pool", "AsyncConnectionPool"): (
        "a pool: give the connection that `async with pool.connection() as connection` has"
    ),
    ("sqlalchemy", "AsyncEngine"): "an engine: give the connection that `async with engine.begin() as connection` has",
    ("sqlalchemy", "Connection"): "a connection for threads: give an AsyncConnection",
    ("sqlalchemy", "Session"): "a session for threads: give an AsyncSession",
    ("sqlalchemy", "async_sessionmaker"): (
        "what makes sessions: give the session that `async with sessions.begin() as session` has"
    ),
}


class Borrowed(Protocol):
    """A connection of the caller's, in the caller's transaction."""

    async def fetch(self, statement: str, parameters: Sequence[Text]) -> Sequence[Record]:
        """Run one statement in the transaction. UsageError if there is none; else what the driver raises."""
        ...


def borrowed(connection: Any) -> Borrowed:
    """The connection behind that method. UsageError for what is none of those above."""
    names = [(kind.__module__.partition(".")[0], kind.__name__) for kind in type(connection).__mro__]
    for name in names:
        if name in _KINDS:
            return _KINDS[name](connection)
    what = next((_INSTEAD[name] for name in names if name in _INSTEAD), f"{type(connection).__qualname__!r}")
    raise UsageError(f"{_KNOWN}, not {what}")


def as_text(value: Any) -> Text:
    """A parameter as the text that the statement casts."""
    match value:
        case None | str():
            return value
        case datetime():
            return value.isoformat()
        case list() | tuple():
            return [None if each is None else str(each) for each in value]
        case _:
            return str(value)


@cache
def of_texts(statement: str) -> str:
    """The statement without its comments, with parameters that are texts or arrays of texts."""
    return _CAST.sub(_cast_from_text, _COMMENT.sub("", statement).strip())


def _cast_from_text(found: re.Match[str]) -> str:
    number, kind, array = found.groups("")
    return f"{number}::text{array}::{kind}{array}"


@cache
def _of_named_texts(statement: str) -> str:
    """The same, with parameters as psycopg's usual cursor has them."""
    return _NUMBERED.sub(r"%(p\1)s", of_texts(statement).replace("%", "%%"))


class _Asyncpg:
    """A connection of asyncpg's, one that a pool has lent included."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, statement: str, parameters: Sequence[Text]) -> Sequence[Record]:
        try:
            closed, within = self._connection.is_closed(), self._connection.is_in_transaction()
        except asyncpg.InterfaceError as error:
            raise UsageError("this asyncpg connection was given back to its pool: there is nothing to join") from error
        if closed:
            raise _closed("asyncpg connection")
        if not within:
            raise _outside("asyncpg connection", "async with connection.transaction():")
        records: Sequence[Record] = await self._connection.fetch(of_texts(statement), *parameters)
        return records


class _Psycopg:
    """An AsyncConnection of psycopg's. Unless it is in autocommit, a first statement begins the transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, statement: str, parameters: Sequence[Text]) -> Sequence[Record]:
        # Loaded already: the connection is one of its classes.
        from psycopg import AsyncRawCursor, ProgrammingError  # noqa: PLC0415
        from psycopg.rows import dict_row  # noqa: PLC0415

        connection = self._connection
        if connection.closed:
            raise _closed("psycopg connection")
        if connection.autocommit and connection.info.transaction_status.name == "IDLE":
            raise _outside("psycopg connection is in autocommit and", "async with connection.transaction():")
        # A cursor of our own: the connection's may be of another kind, and give rows of another.
        async with AsyncRawCursor(connection, row_factory=dict_row) as cursor:
            await cursor.execute(of_texts(statement).encode(), parameters)
            try:
                return cast("list[Record]", await cursor.fetchall())
            except ProgrammingError as error:
                # In a pipeline the answer comes only now. No error of the server's: the statement returns no rows.
                if error.sqlstate is not None:
                    raise
                return []


class _SQLAlchemy:
    """An AsyncConnection of SQLAlchemy's. A first statement begins the transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, statement: str, parameters: Sequence[Text]) -> Sequence[Record]:
        connection = self._connection
        if connection.closed:
            raise _closed("SQLAlchemy connection")
        dialect = connection.dialect
        values: Any
        if dialect.name != "postgresql" or dialect.driver not in ("asyncpg", "psycopg"):
            raise UsageError(f"{_KNOWN}, not over {dialect.name}+{dialect.driver}")
        if (await connection.get_raw_connection()).dbapi_connection.autocommit:
            raise _outside(
                'SQLAlchemy connection has the isolation level "AUTOCOMMIT" and',
                "async with engine.begin() as connection: (of an engine with another isolation level)",
            )
        if dialect.driver == "asyncpg":
            text, values = of_texts(statement), tuple(parameters)
        else:
            text = _of_named_texts(statement)
            values = {f"p{number}": value for number, value in enumerate(parameters, 1)}
        result = await connection.exec_driver_sql(text, values, execution_options=_WHOLE)
        records: Sequence[Record] = result.mappings().all() if result.returns_rows else ()
        return records


class _Session:
    """An AsyncSession of SQLAlchemy's, or a proxy of one: its connection, in its transaction."""

    def __init__(self, session: Any) -> None:
        self._session = session

    async def fetch(self, statement: str, parameters: Sequence[Text]) -> Sequence[Record]:
        return await _SQLAlchemy(await self._session.connection()).fetch(statement, parameters)


_KINDS: dict[tuple[str, str], Callable[[Any], Borrowed]] = {
    ("asyncpg", "Connection"): _Asyncpg,
    ("asyncpg", "PoolConnectionProxy"): _Asyncpg,
    ("psycopg", "AsyncConnection"): _Psycopg,
    ("sqlalchemy", "AsyncConnection"): _SQLAlchemy,
    ("sqlalchemy", "AsyncSession"): _Session,
    ("sqlalchemy", "async_scoped_session"): _Session,
}
"""By the package and the name of a class among the connection's own and those that it is made of."""


def _closed(what: str) -> UsageError:
    return UsageError(f"this {what} is closed: there is no transaction on it to join")


def _outside(what: str, how: str) -> UsageError:
    return UsageError(
        f"this {what} has no open transaction to join, so that each statement would be a commit of its own: start and "
        f"send inside of `{how}`, or leave connection= out"
    )
