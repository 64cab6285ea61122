"""The table of operations: everything that the API can be asked."""

from __future__ import annotations

from runnerq.console.api import changing, fleet, runs
from runnerq.console.api.operations import Operation

OPERATIONS: tuple[Operation, ...] = (*runs.OPERATIONS, *changing.OPERATIONS, *fleet.OPERATIONS)
