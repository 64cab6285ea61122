"""The part of the in-memory storage that keeps limits."""

from __future__ import annotations

from runnerq.persistence.memory import limits
from runnerq.persistence.memory.checks import check_names
from runnerq.persistence.memory.core import Core
from runnerq.persistence.records import LimitRecord, LimitRule, Relieved


class Limits(Core):
    """Rules. All else a claim finds out by itself."""

    async def set_limit(self, rule: LimitRule) -> None:
        check_names(rule.scope)
        with self.writing() as (book, now):
            limits.set_rule(book, rule, now)

    async def limits(self) -> list[LimitRecord]:
        with self._reading() as (book, _):
            return limits.records(book)

    async def delete_limit(self, scope: str) -> bool:
        with self.writing() as (book, _):
            return limits.delete_rule(book, scope)

    async def relieve(self, after: str | None, limit: int) -> Relieved:
        """Nothing is missed here that would have to be mended."""
        del after, limit
        return Relieved(mended=0, next=None)
