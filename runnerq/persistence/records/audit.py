"""What people have done through a console, an API or a command line, as it is kept."""

from __future__ import annotations

from datetime import datetime

from runnerq.persistence.records.base import Struct


class NewAudit(Struct, frozen=True, kw_only=True):
    """Something that somebody did, or was refused.

    ``id`` is a UUIDv7 of its own, by which it is written once. ``target`` names what it was done to where that is no
    run: a queue, a schedule, a filter. ``request`` is a JSON text of what was asked for; ``outcome`` says what came of
    it, in words.
    """

    id: str
    principal: str
    action: str
    outcome: str
    target: str | None = None
    run_id: str | None = None
    reason: str | None = None
    request: str | None = None


class AuditRecord(Struct, frozen=True, kw_only=True):
    """One of them as it is kept, and when it was written, by the database's clock."""

    entry: NewAudit
    at: datetime


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Which of them: all given conditions hold."""

    run_id: str | None = None
    principal: str | None = None
    action: str | None = None
