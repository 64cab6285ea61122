"""The queries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from runnerq.persistence.records import (
    Aggregate,
    BlockRecord,
    Definition,
    GroupBy,
    Journal,
    Mail,
    Outcome,
    QueueRecord,
    RunFilter,
    RunRecord,
    Stats,
    Tail,
    WorkerRecord,
)


class Reads(Protocol):
    """The queries."""

    async def outcomes(self, run_ids: Sequence[str]) -> list[Outcome]:
        """How these runs ended; open and unknown ones are left out."""
        ...

    async def run(self, run_id: str) -> RunRecord | None: ...

    async def by_key(self, name: str, key: str) -> str | None:
        """The id of the run that holds this key."""
        ...

    async def journal(self, run_id: str, generation: int | None = None) -> Journal | None:
        """One generation (the present one, if None); None for an unknown run."""
        ...

    async def block(self, run_id: str) -> BlockRecord | None: ...

    async def state(self, run_id: str) -> str | None:
        """The published state, JSON text."""
        ...

    async def mailbox(self, run_id: str) -> list[Mail]:
        """The signals that no wait has taken, in the order in which they came; also those of a run that has ended."""
        ...

    async def list_runs(self, where: RunFilter, limit: int, before: str | None) -> list[RunRecord]:
        """Newest first by id, those with an id below ``before``."""
        ...

    async def open_runs(self, names: Sequence[str], limit: int, after: str | None) -> list[RunRecord]:
        """Workflow runs of these names that have not ended, of any version, oldest first by id, those with an id above
        ``after``. It costs what is open, not what has ended."""
        ...

    async def definitions(self, name: str | None = None) -> list[Definition]:
        """What is known under this name, highest version first; of all names, by name, if none is given."""
        ...

    async def count_runs(self, where: RunFilter, cap: int) -> int:
        """How many runs fit; it stops at ``cap``."""
        ...

    async def aggregate(self, where: RunFilter, by: GroupBy, cap: int) -> Aggregate:
        """The runs that fit, counted by a value; of the newest ``cap`` runs only."""
        ...

    async def stats(self) -> Stats:
        """What is open, counted exactly, and who works."""
        ...

    async def queues(self) -> list[QueueRecord]:
        """The queues, by name."""
        ...

    async def workers(self) -> list[WorkerRecord]:
        """The workers that are on record (a day after their end they are not), those that live first."""
        ...

    async def events(self, after: str | None, limit: int) -> Tail:
        """What happened behind the cursor, oldest first, never missing what commits late; None: from now on.
        ValueError for a cursor that is none."""
        ...

    async def now(self) -> datetime:
        """Database time."""
        ...
