"""What asyncpg raises, told in our own errors; nothing of asyncpg leaves this package.

Rules
- The connection, the server's state, a timeout, a lock or a deadlock: StorageUnavailable. The write may have happened
  or not, and may be sent again.
- The data (SQLSTATE classes 22, 23 and 54, or a value that cannot be encoded): StorageRefused. Nothing was written.
- Tables that are not there or not allowed: SchemaError.
"""

from __future__ import annotations

from types import TracebackType

import asyncpg

from runnerq.errors import RunnerQError, SchemaError, StorageError, StorageRefused, StorageUnavailable

_AWAY = (
    "08",  # connection
    "25",  # transaction state: also read-only after a failover
    "40",  # serialization, deadlock
    "53",  # resources
    "55",  # lock not available
    "57",  # operator intervention: shutdown, cancel, starting up
    "58",  # system
)
_DATA = ("22", "23", "54")
_SCHEMA = ("3F000", "42P01", "42703", "42501")


def translated(error: BaseException) -> RunnerQError | None:
    """The error of ours that says the same, or None where it is not the database's."""
    match error:
        case RunnerQError():
            return None
        case asyncpg.PostgresError():
            return _from_state(error)
        case asyncpg.InterfaceError() | asyncpg.InternalClientError():
            return StorageUnavailable(f"the connection to Postgres cannot be used: {error}")
        case UnicodeError():
            return StorageRefused(f"this text cannot be stored as UTF-8: {error}")
        case OSError() | TimeoutError():
            return StorageUnavailable(f"Postgres did not answer: {str(error) or type(error).__name__}")
        case _:
            return None


def sqlstate_of(error: BaseException) -> str:
    """What Postgres called the error, whichever driver raised it, or SQLAlchemy for one; else empty."""
    said = (getattr(each, "sqlstate", None) for each in (error, getattr(error, "orig", None)))
    return next((str(state) for state in said if state), "")


def about_schema(state: str) -> bool:
    """Whether tables are not there, are others, or are not allowed."""
    return state in _SCHEMA


def about_data(state: str) -> bool:
    """Whether it is the data that was refused."""
    return state.startswith(_DATA)


def _from_state(error: asyncpg.PostgresError) -> RunnerQError:
    state = sqlstate_of(error)
    if about_schema(state):
        return SchemaError(f"the tables of runnerq are missing or not open to this role: {error} (SQLSTATE {state})")
    if about_data(state):
        return StorageRefused(f"Postgres refused this data: {error} (SQLSTATE {state})")
    if state.startswith(_AWAY):
        return StorageUnavailable(f"Postgres could not do this now: {error} (SQLSTATE {state})")
    return StorageError(f"Postgres answered with an error: {error} (SQLSTATE {state})")


class _Translating:
    """A class and not a generator: it stands around every statement, and costs a tenth of one."""

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            ours = translated(error)
            if ours is not None:
                raise ours from error


_TRANSLATING = _Translating()


def translating() -> _Translating:
    """``with translating():`` raises what happens inside as an error of ours, with the original as its cause."""
    return _TRANSLATING
