"""``client.limits``: how many runs of a scope are held at once, and admitted in a span of time, across all workers."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from runnerq.client.core import Core
from runnerq.errors import ConfigurationError
from runnerq.persistence.records import LimitRecord, LimitRule
from runnerq.retry import seconds
from runnerq.workflow.given import checked_scope

MOST = 2**31 - 1
SHORTEST_SPAN, LONGEST_SPAN = 0.001, 365 * 86_400.0
"""Seconds: what was admitted within a rule's span is remembered so long. A database's times go to the microsecond."""


class LimitInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A limit as it stands. ``rate`` is how many are admitted in how many seconds; ``per_key``: each key by itself.

    ``running`` is how many runs of the scope hold a place now, ``waiting`` how many of its keys have ready runs that
    were not admitted (no more than 10,000 are counted).
    """

    scope: str
    concurrency: int | None
    rate: tuple[int, float] | None
    per_key: bool
    changed_at: datetime
    running: int
    waiting: int


class Limits:
    """The limits of one database. They hold for every worker, from when they are set."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    async def set(
        self,
        scope: str,
        *,
        concurrency: int | None = None,
        rate: tuple[int, float | timedelta] | None = None,
        per_key: bool = False,
    ) -> None:
        """Have at most ``concurrency`` runs of this scope held at once, and, with ``rate=(n, per)``, at most ``n``
        admitted in any ``per`` seconds; with ``per_key=True`` so many of each of its keys.

        It takes the place of the scope's rule, if there is one. What is held already is let finish, and counts;
        ``concurrency=0`` admits nothing until it is set again. Raises ConfigurationError for what can be no limit.
        """
        await self._core.storage.set_limit(_rule(scope, concurrency, rate, per_key))

    async def list(self) -> list[LimitInfo]:
        """The limits, by scope."""
        return [_info(record) for record in await self._core.storage.limits()]

    async def get(self, scope: str) -> LimitInfo | None:
        """The limit of this scope; None if there is none."""
        name = checked_scope(scope)
        return next((each for each in await self.list() if each.scope == name), None)

    async def delete(self, scope: str) -> bool:
        """End the limit of this scope: its runs wait for a worker alone. False if there was none."""
        return await self._core.storage.delete_limit(checked_scope(scope))


def _rule(scope: object, concurrency: object, rate: object, per_key: object) -> LimitRule:
    name = checked_scope(scope)
    if concurrency is None and rate is None:
        raise ConfigurationError(
            f"a limit of {name!r} without concurrency= and rate= limits nothing: give one of them, or delete it"
        )
    if not isinstance(per_key, bool):
        raise ConfigurationError(f"per_key={per_key!r}: expected True, for each key by itself, or False")
    admitted, per = (None, None) if rate is None else _rate(rate)
    held = None if concurrency is None else _number(concurrency, "concurrency=", least=0)
    return LimitRule(scope=name, concurrency=held, rate=admitted, per=per, per_key=per_key)


def _rate(rate: object) -> tuple[int, float]:
    if not isinstance(rate, tuple | list) or len(rate) != len(("n", "per")):
        raise ConfigurationError(f"rate={rate!r}: expected how many, and in how many seconds, such as (100, 60)")
    per = seconds(rate[1], "the span of rate=")
    if not SHORTEST_SPAN <= per <= LONGEST_SPAN:
        raise ConfigurationError(f"rate={rate!r}: expected a span of a millisecond at least, and at most a year")
    return _number(rate[0], "the number of rate=", least=1), per


def _number(value: object, what: str, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
        raise ConfigurationError(f"{what} is {value!r}: expected a whole number from {least} to {MOST:,}")
    return value


def _info(record: LimitRecord) -> LimitInfo:
    rule = record.rule
    return LimitInfo(
        scope=rule.scope,
        concurrency=rule.concurrency,
        rate=None if rule.rate is None or rule.per is None else (rule.rate, rule.per),
        per_key=rule.per_key,
        changed_at=record.changed_at,
        running=record.running,
        waiting=record.waiting,
    )
