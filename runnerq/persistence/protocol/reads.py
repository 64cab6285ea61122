"""The queries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from runnerq.persistence.records import (
    LOOK,
    Activity,
    Aggregate,
    BlockRecord,
    Counted,
    Definition,
    Failures,
    Found,
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

    async def list_runs(
        self, where: RunFilter, limit: int, cursor: str | None = None, *, oldest: bool = False, look: int = LOOK
    ) -> Found:
        """Newest first by id, those with an id below ``cursor``; with ``oldest`` the other way: oldest first, those
        above. At most ``look`` runs are looked at; a backend MAY look at fewer, where each takes long. The runs come
        without their input and result."""
        ...

    async def open_runs(self, names: Sequence[str], limit: int, after: str | None) -> list[RunRecord]:
        """Workflow runs of these names that have not ended, of any version, oldest first by id, those with an id above
        ``after``. It costs what is open, not what has ended."""
        ...

    async def definitions(self, name: str | None = None) -> list[Definition]:
        """What is known under this name, highest version first; of all names, by name, if none is given."""
        ...

    async def count_runs(self, where: RunFilter, cap: int, look: int | None = None) -> Counted:
        """How many runs fit; it stops at ``cap``, and when ``look`` were looked at, the newest."""
        ...

    async def aggregate(self, where: RunFilter, by: GroupBy, cap: int, look: int | None = None) -> Aggregate:
        """The runs that fit, counted by a value; of the newest ``cap`` runs that fit, and the newest ``look``, only."""
        ...

    async def failures(self, where: RunFilter, cap: int) -> Failures:
        """The runs that fit and failed or are dead letters, the newest ``cap`` of them, grouped by name, status and
        what they failed with. Failures that are sealed are alike."""
        ...

    async def activity(
        self, since: datetime, until: datetime, span: int, names: Sequence[str] | None = None
    ) -> list[Activity]:
        """What happened from a minute to another, in spans of so many minutes, oldest first: of all runs together, or
        of each of these names by itself (of none in particular: of every name). Spans in which nothing happened are
        left out. The last seconds may not be counted yet; eight days are kept."""
        ...

    async def stats(self) -> Stats:
        """What is open, and who works. All that is running or blocked is counted; of the rest, a backend MAY count
        some, if there are more than 250,000, and says that it is ``capped``."""
        ...

    async def queues(self) -> list[QueueRecord]:
        """The queues, by name. A backend MAY count as ``stats`` does, and leave out queues to whose runs it has not
        come; it says so then of all others: they are ``capped``."""
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
