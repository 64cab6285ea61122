"""Limits as they are shown."""

from __future__ import annotations

from datetime import datetime

import msgspec

from runnerq.console.models.context import Context, bounded
from runnerq.console.models.fleet import fleet, limit_words


class LimitView(msgspec.Struct, frozen=True, kw_only=True):
    """A limit: at most ``concurrency`` runs at once, and ``rate`` in ``per`` seconds. ``words`` says the same.
    ``running`` hold a place now, ``waiting`` of its keys have runs that wait for one."""

    scope: str
    concurrency: int | None
    rate: int | None
    per: float | None
    per_key: bool
    words: str
    changed_at: datetime
    running: int
    waiting: int


@bounded
async def limits(context: Context) -> tuple[LimitView, ...]:
    """All, by scope."""
    return tuple(
        LimitView(
            scope=each.rule.scope,
            concurrency=each.rule.concurrency,
            rate=each.rule.rate,
            per=each.rule.per,
            per_key=each.rule.per_key,
            words=limit_words(each),
            changed_at=each.changed_at,
            running=each.running,
            waiting=each.waiting,
        )
        for each in (await fleet(context)).limits
    )
