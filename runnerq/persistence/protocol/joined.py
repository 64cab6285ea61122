"""The writes that are part of a transaction of the caller's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from runnerq.persistence.records import NewRun, NewSignal, Sent, StartReply


class Joined(Protocol):
    """The writes of one transaction that the caller began, and will end; a ``Storage`` has them in commits of its own.

    They are called one at a time, as the connection's own methods are.
    """

    async def start(self, runs: Sequence[NewRun]) -> list[StartReply]: ...

    async def start_or_send(self, run: NewRun, signals: Sequence[NewSignal]) -> tuple[StartReply, list[Sent]]: ...

    async def send(self, signals: Sequence[NewSignal]) -> list[Sent]: ...


class Joins(Protocol):
    """A storage that can write as part of somebody else's transaction."""

    def joined(self, connection: object) -> Joined:
        """The writes, as part of the transaction that is open on this connection of the caller's.

        Nobody MUST see anything of them before that transaction commits; then whoever waits is told, as after a commit
        of our own. Nothing MUST be left of them if it does not commit, and nobody is told. Until it ends, it may hold
        the keys that it asked for and the runs that it sent to or started children of.

        UsageError for what is no connection that can be joined; the writes raise it for one that is closed, has no open
        transaction, or leads elsewhere than this storage. StorageRefused and SchemaError are as for any write. What
        else goes wrong on the connection (it is lost, a statement before has failed, a serialization failure, a
        deadlock) is raised as the connection raises it: the transaction is the caller's, and so is what becomes of it.
        """
        ...
