"""Runs that are to be created, or opened again, as statement parameters; see ``documents``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from runnerq.errors import StorageRefused
from runnerq.persistence.postgres.texts import indexed, plain
from runnerq.persistence.records import NewRun, Reopen

Parameters: TypeAlias = list[Any]


class RowDocument(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A row of a journal without its payloads; ``turn`` is which turn's, or run's, from 1; ``next``: of the generation
    that begins with it."""

    turn: int
    place: int
    at: datetime
    kind: str
    position: str
    next: bool = False


class _Run(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    kind: str
    name: str
    version: int
    served: str
    queue: str
    priority: int
    depth: int
    turn: int = 0
    root_id: str | None = None
    parent_id: str | None = None
    parent_position: str | None = None
    key: str | None = None
    on_duplicate: str = ""
    due_at: datetime | None = None
    due_in: float | None = None
    limit_scope: str | None = None
    limit_key: str | None = None
    detached: bool = False


_encode = msgspec.json.Encoder().encode


def start_parameters(runs: Sequence[NewRun]) -> Parameters:
    """For start_runs_plain."""
    return run_parameters(runs, [0] * len(runs))


def alike_parameters(runs: Sequence[NewRun]) -> Parameters | None:
    """For start_alike.sql; None if these runs differ in more than their inputs, or ask for more than it does."""
    first = runs[0]
    alike = _alike(first)
    if first.key is not None or first.parent_id is not None or first.depth or first.rows:
        return None
    if first.root_id not in (None, first.id) or any(_alike(run) != alike for run in runs[1:]):
        return None
    return [
        [run.id for run in runs],
        [run.input for run in runs],
        first.kind,
        plain(first.name, "the name"),
        first.version,
        first.served,
        plain(first.queue, "the queue"),
        first.priority,
        first.metadata,
        first.options,
        first.due_at,
        first.due_in,
        *_limit(first),
    ]


def _alike(run: NewRun) -> tuple[object, ...]:
    """All that runs have to share, but for their ids and inputs."""
    return (
        run.kind,
        run.name,
        run.version,
        run.queue,
        run.priority,
        run.root_id in (None, run.id),
        run.parent_id,
        run.depth,
        run.key,
        run.due_at,
        run.due_in,
        run.metadata,
        run.options,
        run.rows,
        run.limit,
    )


def whole_start_parameters(runs: Sequence[NewRun]) -> Parameters:
    """For start_runs.sql: runs that begin with a journal, or have a parent."""
    rows = [(place, row) for place, run in enumerate(runs, 1) for row in run.rows]
    return [
        *start_parameters(runs),
        json_document([RowDocument(place, row.place, row.at, row.kind, row.position) for place, row in rows]),
        [row.value for _, row in rows],
        [row.asked for _, row in rows],
    ]


def reopen_parameters(everything: Sequence[Reopen]) -> Parameters:
    """For reopen_runs.sql."""
    rows = [each.row for each in everything]
    return [
        [each.run_id for each in everything],
        [each.generation for each in everything],
        [each.status for each in everything],
        [row and row.place for row in rows],
        [row and row.at for row in rows],
        [row and row.kind for row in rows],
        [row and row.position for row in rows],
        [row and row.value for row in rows],
        [row and row.asked for row in rows],
    ]


def json_document(records: Sequence[Any]) -> str:
    """A JSON document. StorageRefused for a name that is no Unicode text."""
    try:
        return _encode(records).decode()
    except UnicodeEncodeError as error:
        raise StorageRefused(f"a name or position cannot be stored as UTF-8: {error}") from error


def run_parameters(runs: Sequence[NewRun], turns: Sequence[int]) -> Parameters:
    """A document of runs, and their inputs, metadata and options."""
    return [
        json_document([_run(run, turn) for run, turn in zip(runs, turns, strict=True)]),
        [run.input for run in runs],
        [run.metadata for run in runs],
        [run.options for run in runs],
    ]


def _run(run: NewRun, turn: int) -> _Run:
    limit_scope, limit_key = _limit(run)
    return _Run(
        id=run.id,
        kind=run.kind,
        name=plain(run.name, "the name"),
        version=run.version,
        served=run.served,
        queue=plain(run.queue, "the queue"),
        priority=run.priority,
        depth=run.depth,
        turn=turn,
        root_id=run.root_id,
        parent_id=run.parent_id,
        parent_position=run.parent_position,
        key=None if run.key is None else plain(run.key, "the key"),
        on_duplicate="" if run.key is None else run.on_duplicate,
        due_at=run.due_at,
        due_in=run.due_in,
        limit_scope=limit_scope,
        limit_key=limit_key,
        detached=turn > 0 and run.parent_id is None,
    )


def _limit(run: NewRun) -> tuple[str | None, str | None]:
    """Its scope and its key."""
    if run.limit is None:
        return None, None
    scope, key = plain(run.limit.scope, "the scope of the limit"), plain(run.limit.key, "the key of the limit")
    indexed("queue, name, scope and key of a run with a limit", run.queue, run.served, scope, key)
    return scope, key
