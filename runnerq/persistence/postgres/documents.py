"""Turns, and details of attempts, as statement parameters: one JSON document of what has no payload, and the payloads
beside it, by place. Those of runs are in ``run_documents``.

A payload stays out of the document because Postgres refuses NUL and lone surrogates anywhere in a document that it
takes apart, and keeps them in a ``json`` column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import assert_never

import msgspec

from runnerq.persistence.postgres.run_documents import Parameters, RowDocument, json_document, run_parameters
from runnerq.persistence.postgres.texts import plain, readable
from runnerq.persistence.records import (
    MANY_CHILDREN,
    Back,
    Details,
    End,
    Going,
    Park,
    Renew,
    Stuck,
    Turn,
)


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


class _HeldRow(msgspec.Struct, frozen=True, gc=False):
    run_id: str
    token: int
    generation: int
    place: int
    at: datetime
    kind: str
    position: str


class _Attempt(msgspec.Struct, frozen=True, gc=False):
    turn: int
    position: str
    number: int
    at: datetime
    next_at: datetime | None


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
    return [json_document(rows), values, asks]


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
        json_document([_turn(turn) for turn in turns]),
        [end and end.result for end in ends],
        [end and end.error for end in ends],
        json_document(
            [RowDocument(place, row.place, row.at, row.kind, row.position, begins) for place, row, begins in rows]
        ),
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
        *run_parameters([child for _, child in children], [place for place, _ in children]),
        json_document([_Attempt(place, a.position, a.number, a.at, a.next_at) for place, a in attempts]),
        [attempt.error for _, attempt in attempts],
        [attempt.details for _, attempt in attempts],
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
