"""Records of limits: how many runs of a scope may be held at once, and how many may be admitted in a span of time."""

from __future__ import annotations

from datetime import datetime

from runnerq.persistence.records.base import Struct
from runnerq.workflow.options import Limit

__all__ = ["MANY_KEYS", "Limit", "LimitRecord", "LimitRule", "Relieved"]

MANY_KEYS = 10_000
"""How many waiting keys of a scope are counted: there may be many more, and nobody waits for the exact number."""


class LimitRule(Struct, frozen=True, kw_only=True):
    """The rule of a scope: at most ``concurrency`` runs are held at once (0: none is admitted), and at most ``rate``
    are admitted in any ``per`` seconds; None: any number. ``per_key``: each key of the scope by itself, else all
    together.
    """

    scope: str
    concurrency: int | None = None
    rate: int | None = None
    per: float | None = None
    per_key: bool = False


class LimitRecord(Struct, frozen=True, kw_only=True):
    """A rule as it stands. ``running`` is how many runs of the scope hold places now, ``waiting`` how many of its keys
    have ready runs that were not admitted (at most ``MANY_KEYS`` are counted)."""

    rule: LimitRule
    changed_at: datetime
    running: int
    waiting: int


class Relieved(Struct, frozen=True, kw_only=True):
    """What a look over the limits has mended, and where the next look goes on: None, at the beginning."""

    mended: int
    next: str | None
