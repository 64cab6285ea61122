"""The storage protocol: Storage = Runs (writes) + Reads + Changes + heart(). Runtime and client know nothing else.

Rules that every backend keeps (``runnerq.testing.conformance`` is the definition)
- A commit is atomic per turn; a batch may be split, a turn may not.
- An open run has one lock; every write of a turn takes it before it compares the token.
- Whoever sends to a run (signal, child's end, cancel) counts its inbox up under that lock, in the transaction that
  stores what it sends, and makes the run ready if it is parked and wants it.
- A park is written only under the token and if the inbox is what the worker has seen.
- A result row exists for every finished run. A wake and what caused it are one commit.
- Database time decides what is due, alive and expired.
- Errors: StorageUnavailable (unknown whether written; send again), StorageRefused (this data is refused, nothing was
  written), SchemaError. No backend's own exception leaves it.
"""

from __future__ import annotations

from typing import Protocol

from runnerq.persistence.protocol.audit import Audits
from runnerq.persistence.protocol.changes import Changes
from runnerq.persistence.protocol.heart import Heart
from runnerq.persistence.protocol.joined import Joined, Joins
from runnerq.persistence.protocol.limits import Limits
from runnerq.persistence.protocol.reads import Reads
from runnerq.persistence.protocol.runs import Runs
from runnerq.persistence.protocol.schedules import Schedules
from runnerq.persistence.protocol.transactions import CommitUnclear, RunHeld, Transactions, Work

__all__ = [
    "Audits",
    "Changes",
    "CommitUnclear",
    "Heart",
    "Joined",
    "Joins",
    "Limits",
    "Reads",
    "RunHeld",
    "Runs",
    "Schedules",
    "Storage",
    "Transactions",
    "Work",
]


class Storage(Runs, Reads, Changes, Audits, Limits, Schedules, Joins, Transactions, Protocol):
    """The place everything is kept."""

    async def open(self) -> None:
        """Connect, and check or migrate the schema. Raises StorageUnavailable or SchemaError."""
        ...

    async def close(self) -> None: ...

    def heart(self) -> Heart: ...
