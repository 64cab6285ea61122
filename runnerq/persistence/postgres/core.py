"""What every part of the storage stands on."""

from __future__ import annotations

from runnerq.persistence.postgres.changes import Changes
from runnerq.persistence.postgres.connections import Connections
from runnerq.persistence.postgres.floors import DueFloor, Floors
from runnerq.persistence.postgres.statements import Statements


class Core:
    """Connections, statements, whom to tell, and where claims begin."""

    def __init__(self, connections: Connections, statements: Statements, changes: Changes) -> None:
        self._connections = connections
        self._statements = statements
        self._changes = changes
        self._floors = Floors()
        self._due_floor = DueFloor()
