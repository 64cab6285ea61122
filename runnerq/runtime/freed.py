"""Limits of the runs that a worker holds, and of those that it has let go of since its last claim.

They go with the next claim as hints: what waits for a place is let in at once. What is lost of them, with a claim that
failed or with the process, the upkeep finds.
"""

from __future__ import annotations

from runnerq.persistence.records import Claimed, Limit


class Freed:
    """Of one worker."""

    def __init__(self) -> None:
        self._held: dict[str, Limit] = {}
        self._freed: set[Limit] = set()

    def hold(self, claimed: Claimed) -> None:
        """This run takes a place of its limit, if it has one."""
        if claimed.limit is not None:
            self._held[claimed.id] = claimed.limit

    def let_go(self, run_id: str) -> bool:
        """This run is held no more; whether that has freed a place of a limit."""
        limit = self._held.pop(run_id, None) if self._held else None
        if limit is None:
            return False
        self._freed.add(limit)
        return True

    def take(self) -> tuple[Limit, ...]:
        """What was freed since this was asked last, in an order that is everybody's."""
        if not self._freed:
            return ()
        freed, self._freed = self._freed, set()
        return tuple(sorted(freed))

    def clear(self) -> None:
        self._held.clear()
        self._freed.clear()
