"""Records of what is read: runs as they stand, journals, blocks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from runnerq.persistence.records.base import Kind, Status, Struct
from runnerq.persistence.records.claims import Attempt
from runnerq.workflow.journal import Row


class RunFilter(Struct, frozen=True, kw_only=True):
    """Which runs: all given conditions hold. ``metadata`` pairs must all be there; times bound ``created_at``."""

    status: tuple[Status, ...] | Status | str | None = None
    workflow: str | None = None
    queue: str | None = None
    key_prefix: str | None = None
    metadata: Mapping[str, str] | None = None
    parent: str | None = None
    root: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class RunRecord(Struct, frozen=True, kw_only=True):
    """A run as it stands, in one row. Texts are JSON; ``status`` may be ``scheduled`` or ``retrying``; ``stack`` says
    where the code of a waiting run stands."""

    id: str
    kind: Kind
    name: str
    version: int
    queue: str
    priority: int
    status: Status
    created_at: datetime
    root_id: str
    parent_id: str | None = None
    depth: int = 0
    key: str | None = None
    generation: int = 1
    due_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    parked_at: datetime | None = None
    started: str | None = None
    waiting_signals: tuple[str, ...] = ()
    waiting_children: tuple[str, ...] = ()
    stack: tuple[str, ...] = ()
    input: str | None = None
    metadata: str | None = None
    options: str | None = None
    result: str | None = None
    error: str | None = None
    reason: str | None = None
    cancel_requested: bool = False


class BlockRecord(Struct, frozen=True, kw_only=True):
    """Why a run is blocked; ``builds`` could not follow it."""

    run_id: str
    at: datetime
    message: str
    builds: tuple[str, ...] = ()
    position: str | None = None
    recorded: str | None = None
    asked: str | None = None
    line: str | None = None
    traceback: str | None = None
    retry_at: datetime | None = None


class Journal(Struct, frozen=True, kw_only=True):
    """One generation of a run's journal, with the attempts of what is still open."""

    run_id: str
    generation: int
    rows: tuple[Row, ...]
    attempts: tuple[Attempt, ...] = ()
