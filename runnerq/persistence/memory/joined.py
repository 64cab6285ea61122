"""What stands for a transaction of the caller's where there is no database: its writes come about together, or not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from copy import deepcopy
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from runnerq.errors import StorageUnavailable, UsageError
from runnerq.persistence.memory import sending, starting
from runnerq.persistence.memory.book import Book
from runnerq.persistence.memory.checks import check_run, check_signal
from runnerq.persistence.memory.core import Core
from runnerq.persistence.records import NewRun, NewSignal, Sent, StartReply

T = TypeVar("T")

Write: TypeAlias = Callable[[Book, datetime], T]


class Transaction:
    """Writes that are answered at once and kept until ``commit``; each is made on a copy, after those before it."""

    def __init__(self, reading: Callable[[], AbstractContextManager[tuple[Book, datetime]]]) -> None:
        self._reading = reading
        self._written: list[tuple[Write[Any], Any]] = []
        self._over = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise UsageError(
            f"there is no database here, so that connection.{name} cannot be had: give Environment(connection=) a fake "
            "or a connection of the test's, or have something else called with env.replace(fn, fake)"
        )

    @property
    def is_over(self) -> bool:
        return self._over

    def write(self, write: Write[T]) -> T:
        """What this write answers; UsageError once the transaction is over."""
        if self._over:
            raise UsageError("this transaction is over: start and send inside of the `async with` that stands for it")
        with self._reading() as (book, now):
            scratch = deepcopy(book)
        self._repeat(scratch, now)
        answer = write(scratch, now)
        self._written.append((write, answer))
        return answer

    def commit(self, book: Book, now: datetime) -> None:
        """Write it all. StorageUnavailable, and nothing is written, if an answer that was given is no longer so."""
        self._over = True
        if self._written:
            self._repeat(deepcopy(book), now)
            self._repeat(book, now)

    def roll_back(self) -> None:
        self._over = True

    def _repeat(self, book: Book, now: datetime) -> None:
        for write, answer in self._written:
            if write(book, now) != answer:
                raise StorageUnavailable(
                    "what this transaction was told is no longer so: somebody else has taken its key, or ended its run"
                )


class MemoryJoined:
    """The writes of one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def start(self, runs: Sequence[NewRun]) -> list[StartReply]:
        for run in runs:
            check_run(run)
        return self._transaction.write(lambda book, now: starting.start_all(book, runs, now))

    async def start_or_send(self, run: NewRun, signals: Sequence[NewSignal]) -> tuple[StartReply, list[Sent]]:
        check_run(run)
        for signal in signals:
            check_signal(signal)
        return self._transaction.write(lambda book, now: sending.start_or_send(book, run, signals, now))

    async def send(self, signals: Sequence[NewSignal]) -> list[Sent]:
        for signal in signals:
            check_signal(signal)
        return self._transaction.write(lambda book, now: [sending.send(book, signal, now) for signal in signals])


class Joins(Core):
    """The part of the storage that joins transactions: those that it stands for itself."""

    _transactions: tuple[tuple[object, Transaction], ...] = ()

    @asynccontextmanager
    async def transaction(self, connection: object = None) -> AsyncIterator[Any]:
        """A transaction that is committed when it is left, and rolled back by an exception.

        What it gives is to be given as ``options(connection=)``: ``connection``, if there is one, which it stands for.
        """
        transaction = Transaction(self._reading)
        given = transaction if connection is None else connection
        self._transactions += ((given, transaction),)
        try:
            yield given
        except BaseException:
            transaction.roll_back()
            raise
        else:
            with self.writing() as (book, now):
                transaction.commit(book, now)
        finally:
            self._transactions = tuple(each for each in self._transactions if each[1] is not transaction)

    def joined(self, connection: object) -> MemoryJoined:
        found = next((each for given, each in self._transactions if given is connection), None)
        if found is None and isinstance(connection, Transaction):
            found = connection
        if found is None:
            raise UsageError(
                f"a storage in memory is no part of the transaction on {connection!r}: have one that stands for it, "
                "`async with env.transaction(connection)` in a test, or test against Postgres"
            )
        return MemoryJoined(found)
