"""Transactions that do a user's work, where there is no database: on what stands for a connection, if anything does."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from runnerq.errors import StorageUnavailable, TransactionConflict
from runnerq.persistence.memory.book import Book
from runnerq.persistence.memory.checks import check_turn
from runnerq.persistence.memory.joined import Joins, Transaction
from runnerq.persistence.memory.turns import write
from runnerq.persistence.protocol.transactions import Work
from runnerq.persistence.records import Turn, Verdict


class Transactions(Joins):
    """The part of the storage that does a user's work.

    ``connection`` is what it is done with, None if there is nothing. One that has transactions of its own
    (``async with connection.transaction():``) is in one meanwhile, so that what the work raises rolls it back.
    """

    connection: Any = None

    async def transact(self, work: Work) -> Verdict:
        transaction = Transaction(self._reading)
        given = transaction if self.connection is None else self.connection
        self._transactions += ((given, transaction),)
        try:
            async with _its_own(given):
                turn = await work.carry_out(given)
                check_turn(turn)
                self._check_held(turn)
                work.committing()
            with self.writing() as (book, now):
                transaction.commit(book, now)
                return write(book, turn, now)
        except _Lost:
            return Verdict.LOST
        except StorageUnavailable as error:
            if transaction.is_over:
                raise TransactionConflict(str(error)) from error
            raise
        finally:
            transaction.roll_back()
            self._transactions = tuple(each for each in self._transactions if each[1] is not transaction)

    def _check_held(self, turn: Turn) -> None:
        with self._reading() as (book, _):
            if not _is_held(book, turn):
                raise _Lost

    async def look_up(self, turn: Turn) -> Verdict:
        with self._reading() as (book, _):
            if turn.rows[0].place in book.journals.get((turn.run_id, turn.generation), {}):
                return Verdict.DONE
            return Verdict.AGAIN if _is_held(book, turn) else Verdict.LOST


class _Lost(Exception):
    """The run is somebody else's: nothing is to be written."""


def _is_held(book: Book, turn: Turn) -> bool:
    row = book.open.get(turn.run_id)
    return (
        row is not None
        and (row.token, row.state) == (turn.token, "running")
        and book.runs[turn.run_id].generation == turn.generation
    )


def _its_own(connection: Any) -> AbstractAsyncContextManager[Any]:
    begin = None if isinstance(connection, Transaction) else getattr(connection, "transaction", None)
    return nullcontext() if begin is None else begin()
