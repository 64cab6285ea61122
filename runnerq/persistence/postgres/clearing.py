"""The connection as a transaction's function gets it, and what is done away with behind it.

Rules
- What was given is of no use when the function has returned; nor, when its transaction is over, is what the function
  made of it: prepared statements, cursors, savepoints.
- What a function has left in the session is undone by one statement: settings, role, temporary tables, sequences,
  locks, cursors, LISTEN, prepared statements.
- What only the driver knows of, and what cannot be undone there (codecs of types, listeners, loggers), is noted, and
  the connection is closed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import asyncpg

if TYPE_CHECKING:
    from types import TracebackType

    from runnerq.persistence.postgres.lending import Connection

ROLLBACK_PATIENCE = 5.0
"""Seconds for the server to undo something."""

_LASTING = (
    "set_type_codec",
    "set_builtin_type_codec",
    "reset_type_codec",
    "add_listener",
    "add_log_listener",
    "add_query_logger",
    "add_termination_listener",
)
"""What a function may call on a connection that lasts longer than the function."""

_CLEAR = """
    close all;
    set session authorization default;
    reset role;
    reset all;
    unlisten *;
    select pg_advisory_unlock_all();
    discard temp;
    discard sequences;
    do $$
    declare left_over text;
    begin
        for left_over in select name from pg_catalog.pg_prepared_statements where from_sql loop
            execute pg_catalog.format('deallocate %I', left_over);
        end loop;
    end $$
"""
"""Not DISCARD ALL: that would do away with the statements that the driver has prepared, and keeps."""


class Given:
    """The connection for one function: ``proxy`` is of no use when this is left."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Any = connection
        self.proxy = _NOTING(None, connection)

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.proxy._detach()  # noqa: SLF001 - what asyncpg's own pool does when a connection comes back

    def release(self) -> None:
        """Its transaction is over: so is all that was made of the connection. Where something lasts, it is closed."""
        if self._connection.is_closed():
            return
        if self.proxy.lasts or self._connection.is_in_transaction():
            self._connection.terminate()
        else:
            self._connection._on_release()  # noqa: SLF001 - as above


async def clear(connection: Connection) -> None:
    """Undo what was left in the session. A connection on which that fails is closed."""
    if connection.is_closed():
        return
    try:
        async with asyncio.timeout(ROLLBACK_PATIENCE):
            await connection.execute(_CLEAR)
    except BaseException as error:
        connection.terminate()
        if not isinstance(error, Exception):
            raise


def _noting_proxy() -> Any:
    """asyncpg's proxy, which notes whether something was called that lasts."""
    pool: Any = asyncpg.pool

    def noted(name: str) -> Any:
        plain = getattr(pool.PoolConnectionProxy, name)

        def note(self: Any, *args: Any, **kwargs: Any) -> Any:
            self.lasts = True
            return plain(self, *args, **kwargs)

        return note

    return type(
        "TransactionConnection",
        (pool.PoolConnectionProxy,),
        {"__module__": __name__, "lasts": False, **{name: noted(name) for name in _LASTING}},
    )


_NOTING = _noting_proxy()
