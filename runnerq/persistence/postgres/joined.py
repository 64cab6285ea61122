"""Starts and sends in a transaction of the caller's own.

Rules
- The writes are those of ``Starts``, statement for statement; the caller's connection runs them, as it is set up.
- NOTIFY stands in the transaction here: nobody but Postgres knows when that commits. It comes back to this storage as
  everybody's does, so that its own workers and handles hear of it then, and not before.
- Nothing is tried again: after an error the transaction is aborted. An error of the connection is the caller's, and is
  raised as it is, so that whoever runs a transaction again after a serialization failure knows it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from runnerq.errors import RunnerQError, SchemaError, StorageRefused, StorageUnavailable, UsageError
from runnerq.persistence.postgres.adapters import Borrowed, as_text, borrowed
from runnerq.persistence.postgres.changes import Changes, merged
from runnerq.persistence.postgres.core import Core
from runnerq.persistence.postgres.faults import about_data, about_schema, sqlstate_of
from runnerq.persistence.postgres.lending import Record
from runnerq.persistence.postgres.starts import Fetches, Starts
from runnerq.persistence.postgres.statements import Statements
from runnerq.persistence.records import NewRun, NewSignal, Sent, StartReply, Wake

T = TypeVar("T")


class Joins(Core):
    """Hands out the writes of somebody else's transaction."""

    def joined(self, connection: object) -> PostgresJoined:
        database = self._connections.database
        if database is None:
            raise StorageUnavailable("the storage is not open: call open(), or use it inside of 'async with'")
        return PostgresJoined(borrowed(connection), self._statements, self._changes, database)


class PostgresJoined:
    """The writes of one transaction of the caller's."""

    def __init__(self, connection: Borrowed, statements: Statements, changes: Changes, database: str) -> None:
        self._statements = statements
        self._changes = changes
        self._database = database
        self._within = _Within(connection)
        self._untold = _Untold()
        self._writes = Starts(self._within, statements, self._untold)

    async def start(self, runs: Sequence[NewRun]) -> list[StartReply]:
        replies = await self._writes.start(runs)
        await self._tell()
        return replies

    async def start_or_send(self, run: NewRun, signals: Sequence[NewSignal]) -> tuple[StartReply, list[Sent]]:
        answer = await self._writes.start_or_send(run, signals)
        await self._tell()
        return answer

    async def send(self, signals: Sequence[NewSignal]) -> list[Sent]:
        answers = await self._writes.send(signals)
        await self._tell()
        return answers

    async def _tell(self) -> None:
        """Have everybody told once the transaction has committed."""
        channel, notes = self._changes.notes(self._untold.taken())
        if not notes:
            return
        records = await self._within.fetch(self._statements["notify_joined"], channel, notes)
        there, here = records[0]["database"], self._database
        if there != here:
            raise UsageError(
                f"connection= leads to database {there!r}, and the runs of this client are in {here!r}: nobody would "
                "take up what was started there. Roll the transaction back, and give a connection to the client's own "
                "database"
            )


class _Within:
    """Has statements run in the caller's transaction."""

    def __init__(self, connection: Borrowed) -> None:
        self._connection = connection

    async def fetch(self, statement: str, *args: object) -> Sequence[Record]:
        try:
            return await self._connection.fetch(statement, [as_text(value) for value in args])
        except Exception as error:
            ours = _about_us(error)
            if ours is None:
                raise
            raise ours from error

    async def fetch_patient(self, statement: str, *args: object) -> Sequence[Record]:
        # It waits for as long as the caller's lock_timeout has it wait.
        return await self.fetch(statement, *args)

    async def in_transaction(self, work: Callable[[Fetches], Awaitable[T]]) -> T:
        return await work(self)


class _Untold:
    """Keeps what is to be told until it can be put into the transaction."""

    def __init__(self) -> None:
        self._wake = Wake()

    def tell(self, wake: Wake) -> None:
        self._wake = merged(self._wake, wake)

    def taken(self) -> Wake:
        wake, self._wake = self._wake, Wake()
        return wake


def _about_us(error: Exception) -> RunnerQError | None:
    """The error of ours for what is wrong with our tables or our data there; None for what is the caller's."""
    state = sqlstate_of(error)
    # What SQLAlchemy makes of an error shows the statement and all parameters.
    said = str(getattr(error, "orig", None) or error).partition("\n")[0]
    if about_schema(state):
        return SchemaError(
            f"the tables of runnerq are missing where connection= leads to, or are not open to its role: {said} "
            f"(SQLSTATE {state}). It must lead to the client's own database, by a role that may use the client's schema"
        )
    if about_data(state) or isinstance(error, UnicodeError):
        return StorageRefused(f"Postgres refused this data: {said} (SQLSTATE {state})")
    return None
