"""Trees that go: marked in one transaction, deleted in as many as it takes.

Rules
- A tree is marked as a whole or not at all: under the lock of its root's outcome, and seen by a statement that began
  after that lock was taken. From then on nothing of it opens again, and its root's key is free.
- What is marked is deleted by whoever comes: a tree's highest ids first, its root last. Only a root that is there has a
  mark, so that what was broken off is found again.
- A person waits for whoever holds the root; the fleet's look for old trees passes over what somebody holds.
"""

from __future__ import annotations

import asyncio

from runnerq.persistence.postgres.lending import Lent
from runnerq.persistence.postgres.verbs import Verbs
from runnerq.persistence.records import Changed, Retained

_REACH = 10
"""A look for old trees goes over this many times as many ended runs as it may mark roots."""

_ROWS = 100
"""Rows of journals, and signals, that are deleted in one transaction: so many times as many as runs."""

_BATCH = 100
_TRIES = 20
_PAUSE = 0.05
_LONGEST_AGE = 1e11
"""Seconds; more than there is time to count back from now."""


class Deletion(Verbs):
    """What deletes runs that have ended."""

    async def delete(self, run_id: str) -> Changed:
        changed = await self._doom(run_id)
        if changed in (Changed.CHANGED, Changed.UNCHANGED):
            await self._clear_away(run_id)
        return changed

    async def retain(self, completed: float | None, failed: float | None, limit: int) -> Retained:
        if completed is None and failed is None:
            return Retained(trees=0, more=False)

        async def mark(connection: Lent) -> Retained:
            [found] = await connection.fetch(
                self._statements["look_for_old"], _bounded(completed), _bounded(failed), limit, limit * _REACH
            )
            trees = 0
            if found["run_ids"]:
                marked = await connection.fetch(self._statements["doom_trees"], found["run_ids"])
                trees = sum(record["changed"] == Changed.CHANGED for record in marked)
            return Retained(trees=trees, more=found["more"])

        return await self._connections.in_transaction(mark)

    async def purge(self, limit: int) -> int:
        return await self._purge(limit, None)

    async def _doom(self, run_id: str) -> Changed:
        async def mark(connection: Lent) -> Changed:
            await connection.fetch(self._statements["hold_tree"], run_id)
            [record] = await connection.fetch(self._statements["doom_trees"], [run_id])
            return Changed(record["changed"])

        return await self._connections.in_transaction(mark)

    async def _clear_away(self, root_id: str) -> None:
        """Delete a tree that is marked; or leave it to ``purge``, if somebody holds something of it for long."""
        tries = 0
        while tries < _TRIES:
            if await self._purge(_BATCH, root_id):
                continue
            if not await self._connections.fetch_prompt(self._statements["read_doomed"], root_id):
                return
            tries += 1
            await asyncio.sleep(_PAUSE)

    async def _purge(self, limit: int, root_id: str | None) -> int:
        """Delete up to so many runs; one with a long journal may take several transactions."""
        while True:
            [gone] = await self._connections.fetch_upkeep(self._statements["purge_runs"], limit, root_id, limit * _ROWS)
            if gone["runs"] or not gone["rows"]:
                return int(gone["runs"])


def _bounded(seconds: float | None) -> float | None:
    return None if seconds is None else min(seconds, _LONGEST_AGE)
