"""What every part of the storage stands on."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from runnerq.errors import StorageError
from runnerq.persistence.postgres.changes import Changes
from runnerq.persistence.postgres.connections import Connections
from runnerq.persistence.postgres.floors import DueFloor, Floors
from runnerq.persistence.postgres.starts import Starts
from runnerq.persistence.postgres.statements import Statements

_log = logging.getLogger("runnerq.postgres")


class Core:
    """Connections, statements, whom to tell, and where claims begin."""

    def __init__(self, connections: Connections, statements: Statements, changes: Changes) -> None:
        self._connections = connections
        self._statements = statements
        self._changes = changes
        self._starts = Starts(connections, statements, changes)
        self._floors = Floors()
        self._due_floor = DueFloor()

    async def _end_transactions(self, run_ids: Sequence[str]) -> None:
        """Have nobody who has lost one of these runs keep rows locked that a transaction of it has written.

        Where we may not, the server does it when such a session has been silent for long.
        """
        if run_ids:
            try:
                await self._connections.fetch_upkeep(self._statements["end_transactions"], list(run_ids))
            except StorageError as error:
                _log.warning("transactions of %d runs that were lost may be open still: %r", len(run_ids), error)
