"""Records as statement parameters: one JSON document of what has no payload, and the payloads beside it, by place.

A payload stays out of the document because Postgres refuses NUL and lone surrogates anywhere in a document that it
takes apart, and keeps them in a ``json`` column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, TypeAlias, assert_never

import msgspec

from runnerq.errors import StorageRefused
from runnerq.persistence.postgres.texts import indexed, plain, readable
from runnerq.persistence.records import (
    MANY_CHILDREN,
    Back,
    Details,
    End,
    Going,
    NewRun,
    Park,
    Renew,
    Reopen,
    Stuck,
    Turn,
)

Parameters: TypeAlias = list[Any]


class _Stuck(msgspec.Struct, frozen=True, omit_defaults=True):
    message: str
    build: str | None
    retry_at: datetime | None
    position: str | None
    recorded: str | None
    asked: str | None
    line: str | None
    traceback: str | None


class _Turn(msgspec.Struct, omit_defaults=True):
    run_id: str
    token: int
    seen: int
    generation: int
    move: str
    place: int = -1
    recovered: bool = False
    status: str | None = None
    reason: str | None = None
    cancel_requested: bool = False
    due_at: datetime | None = None
    needs: int = 0
    signals: Sequence[str] = ()
    children: Sequence[str] | None = None
    stack: Sequence[str] = ()
    stuck: _Stuck | None = None
    consumed: Sequence[int] = ()
    settled: Sequence[str] = ()


class _Row(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    turn: int
    place: int
    at: datetime
    kind: str
    position: str
    next: bool = False


class _HeldRow(msgspec.Struct, frozen=True, gc=False):
    run_id: str
    token: int
    generation: int
    place: int
    at: datetime
    kind: str
    position: str


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


class _Attempt(msgspec.Struct, frozen=True, gc=False):
    turn: int
    position: str
    number: int
    at: datetime
    next_at: datetime | None


_encode = msgspec.json.Encoder().encode


def only_rows(turn: Turn) -> bool:
    """Whether the turn goes on and writes journal rows and nothing else, so that the cheap statement does."""
    return (
        type(turn.move) is Going
        and bool(turn.rows)
        and not turn.children
        and not turn.consumed
        and not turn.attempts
        and not turn.settled
        and turn.published is None
        and not turn.recovered
    )


def only_ends(turn: Turn) -> bool:
    """Whether the turn completes the run and writes its last rows, its result, and nothing else."""
    end = turn.move
    return (
        type(end) is End
        and end.status == "completed"
        and not end.cancel_requested
        and end.reason is None
        and end.error is None
        and not turn.children
        and not turn.consumed
        and not turn.attempts
        and not turn.has_parent
        and turn.published is None
    )


def end_parameters(turns: Sequence[Turn]) -> Parameters:
    """For end_runs.sql; the turns are in the order of their runs."""
    return [
        [turn.run_id for turn in turns],
        [turn.token for turn in turns],
        [turn.generation for turn in turns],
        [turn.move.result for turn in turns if isinstance(turn.move, End)],
        *append_parameters(turns),
    ]


def append_parameters(turns: Iterable[Turn]) -> Parameters:
    """For append.sql; the turns are in the order of their runs."""
    rows: list[_HeldRow] = []
    values: list[str | None] = []
    asks: list[str | None] = []
    for turn in turns:
        for row in turn.rows:
            rows.append(_HeldRow(turn.run_id, turn.token, turn.generation, row.place, row.at, row.kind, row.position))
            values.append(row.value)
            asks.append(row.asked)
    return [_json(rows), values, asks]


def only_moves(turn: Turn) -> bool:
    """Whether the turn has nothing of what only the whole commit.sql writes."""
    settles = bool(turn.settled) and not isinstance(turn.move, End | Renew)
    rest = turn.children or turn.attempts or settles or turn.published is not None
    return not rest and not isinstance(turn.move, Stuck)


def plain_parameters(turns: Sequence[Turn]) -> Parameters:
    """For commit_plain; the turns are in the order of their runs."""
    rows = [(place, row, False) for place, turn in enumerate(turns, 1) for row in turn.rows]
    rows += [(place, turn.move.started, True) for place, turn in enumerate(turns, 1) if isinstance(turn.move, Renew)]
    ends = [turn.move if isinstance(turn.move, End) else None for turn in turns]
    return [
        _json([_turn(turn) for turn in turns]),
        [end and end.result for end in ends],
        [end and end.error for end in ends],
        _json([_Row(place, row.place, row.at, row.kind, row.position, begins) for place, row, begins in rows]),
        [row.value for _, row, _ in rows],
        [row.asked for _, row, _ in rows],
    ]


def commit_parameters(turns: Sequence[Turn]) -> Parameters:
    """For commit.sql; the turns are in the order of their runs."""
    children = [(place, child) for place, turn in enumerate(turns, 1) for child in turn.children]
    attempts = [(place, attempt) for place, turn in enumerate(turns, 1) for attempt in turn.attempts]
    return [
        *plain_parameters(turns),
        [turn.published for turn in turns],
        *_runs([child for _, child in children], [place for place, _ in children]),
        _json([_Attempt(place, a.position, a.number, a.at, a.next_at) for place, a in attempts]),
        [attempt.error for _, attempt in attempts],
        [attempt.details for _, attempt in attempts],
    ]


def start_parameters(runs: Sequence[NewRun]) -> Parameters:
    """For start_runs_plain."""
    return _runs(runs, [0] * len(runs))


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
        _json([_Row(place, row.place, row.at, row.kind, row.position) for place, row in rows]),
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


def details_parameters(details: Iterable[Details]) -> Parameters:
    """For keep_details.sql. Of two at one position the last one counts."""
    last = {(each.run_id, each.position): each for each in details}.values()
    return [
        [each.run_id for each in last],
        [each.token for each in last],
        [each.generation for each in last],
        [each.position for each in last],
        [each.failures for each in last],
        [each.text for each in last],
    ]


def _json(records: Sequence[Any]) -> str:
    try:
        return _encode(records).decode()
    except UnicodeEncodeError as error:
        raise StorageRefused(f"a name or position cannot be stored as UTF-8: {error}") from error


def _turn(turn: Turn) -> _Turn:
    document = _Turn(turn.run_id, turn.token, turn.seen, turn.generation, "going")
    document.recovered = turn.recovered
    document.consumed = turn.consumed
    document.settled = turn.settled
    if turn.rows:
        document.place = turn.rows[-1].place
    match turn.move:
        case Going():
            pass
        case Park() as park:
            document.move = "park"
            document.due_at = park.due_at
            document.needs = park.needs
            document.signals = [plain(channel, "the channel") for channel in park.signals]
            many = park.children is None or len(park.children) > MANY_CHILDREN
            document.children = None if many else park.children
            document.stack = [readable(line) or "" for line in park.stack] or ()
        case Back() as back:
            document.move = "back"
            document.due_at = back.due_at
        case Stuck() as stuck:
            document.move = "stuck"
            document.stuck = _stuck(stuck)
        case End() as end:
            document.move = "end"
            document.status = end.status
            document.reason = readable(end.reason)
            document.cancel_requested = end.cancel_requested
        case Renew():
            document.move = "renew"
        case _ as never:
            assert_never(never)
    return document


def _stuck(stuck: Stuck) -> _Stuck:
    return _Stuck(
        message=readable(stuck.message) or "",
        build=stuck.build,
        retry_at=stuck.retry_at,
        position=stuck.position,
        recorded=readable(stuck.recorded),
        asked=readable(stuck.asked),
        line=readable(stuck.line),
        traceback=readable(stuck.traceback),
    )


def _runs(runs: Sequence[NewRun], turns: Sequence[int]) -> Parameters:
    """A document of runs, and their inputs, metadata and options."""
    return [
        _json([_run(run, turn) for run, turn in zip(runs, turns, strict=True)]),
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
