"""The writes of a transaction's function and the entry that keeps its answer: one commit."""

from __future__ import annotations

from typing import Any, Protocol

from runnerq.errors import StorageUnavailable, TransactionConflict
from runnerq.persistence.records import Turn, Verdict


class CommitUnclear(StorageUnavailable):
    """A transaction's COMMIT was sent and has no answer; whether it came through is to be looked up."""


class RunHeld(TransactionConflict):
    """It was the run's own row that could not be had, which says nothing about what the transaction does."""


class Work(Protocol):
    """What is done in a transaction."""

    @property
    def run_id(self) -> str: ...

    @property
    def position(self) -> str:
        """Of its entry."""
        ...

    @property
    def is_again(self) -> bool:
        """Whether somebody has begun it before, who may not know that it is no longer his: what he has open for it MAY
        be ended, so that it keeps nothing locked that this one needs."""
        ...

    @property
    def patience(self) -> float | None:
        """Seconds for which it may leave its transaction open without a word; None: for ever."""
        ...

    async def carry_out(self, connection: Any) -> Turn:
        """Do it, and answer with the turn that is to be on record with it: one that goes on, with one row, and whatever
        attempts it settles. Called once in each transaction; what it raises rolls the transaction back."""
        ...

    def committing(self) -> None:
        """Its transaction is about to be committed, and what this raises rolls it back. From here until ``transact`` is
        over it must not be cancelled."""
        ...


class Transactions(Protocol):
    """Transactions of the storage's own that do a user's work."""

    async def transact(self, work: Work) -> Verdict:
        """Open a transaction, have the work carried out with its connection, and commit both it and its turn.

        The run's lock is taken last, behind all that the work did, and waited for; the token is compared under it, in
        the transaction. DONE: all of it is written. LOST: the token is not the run's, and none of it is. What the work
        raises is raised as it is, and none of it is written, but for what others did to its transaction: that is a
        conflict. The connection is of no more use once the work is done. These transactions never wait for the
        storage's own statements, nor those for these.

        Raises:
            StorageUnavailable: there was no connection, and the work was not begun.
            TransactionConflict: a serialization failure, a deadlock, a lock of the run that could not be had (RunHeld),
                a connection that was lost: none of it is written, and it may be done again.
            CommitUnclear: the commit has no answer; ``look_up`` says what became of it.
            NonRetryableError: the work ended the transaction itself, so that what it wrote is not one with its entry;
                that is not written.
            UsageError: the transaction had failed, and the work did not say so, or its entry cannot be written in it;
                none of it is written.
        """
        ...

    async def look_up(self, turn: Turn) -> Verdict:
        """What became of a turn whose commit was unclear: takes the run's lock, and then looks.

        DONE: it is written. AGAIN: it is not, and never will be; the token is still the run's. LOST: it is not, and the
        token is no longer the run's.
        """
        ...
