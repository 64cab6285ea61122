"""The limits."""

from __future__ import annotations

from typing import Protocol

from runnerq.persistence.records import LimitRecord, LimitRule, Relieved


class Limits(Protocol):
    """How many runs of a scope may be held at once, and admitted in a span of time, across all workers.

    A run that has a limit (``NewRun.limit``) counts while it is held: one that parks, ends, is given back or is taken
    from a worker that is gone leaves its place, and asks again when it is ready. A claim MUST never hold more than the
    rule says, whoever claims at the same time; a rule that is made tighter takes no place back. Of the keys that wait,
    the one that was admitted least recently goes first. A scope without a rule limits nothing.
    """

    async def set_limit(self, rule: LimitRule) -> None:
        """Make or change the rule of a scope. It holds for what is admitted from now on; what was admitted already, or
        is held, counts. Whoever may be admitted by it is told."""
        ...

    async def limits(self) -> list[LimitRecord]:
        """All rules, by scope."""
        ...

    async def delete_limit(self, scope: str) -> bool:
        """End the rule of a scope; whether there was one. All that waits for it may be claimed."""
        ...

    async def relieve(self, after: str | None, limit: int) -> Relieved:
        """Look over up to ``limit`` keys that are shut, from ``after`` on (as the last look's ``next`` said), for what
        hints have missed: those that have places again are opened, and their queues told; a waiting run that nothing
        would admit is mended; what is idle is forgotten. Many may do so at once."""
        ...
