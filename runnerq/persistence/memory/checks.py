"""What a database would refuse: text it cannot keep. A fault of an encoder shows in memory as it would on Postgres."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NoReturn

from runnerq.errors import StorageRefused
from runnerq.persistence.records import Attempt, End, NewRun, NewSignal, Park, Renew, ScheduleRow, Stuck, Turn
from runnerq.workflow.journal import Row


def check_run(run: NewRun) -> None:
    check_names(run.name, run.queue, run.key)
    if run.limit is not None:
        check_names(run.limit.scope, run.limit.key)
    _check_payloads(run.input, run.metadata, run.options)
    for row in run.rows:
        check_row(row)


def check_schedule(row: ScheduleRow) -> None:
    check_names(row.name, row.workflow, row.queue)
    _check_payloads(row.input, row.metadata, row.options)


def check_row(row: Row) -> None:
    _check_payloads(row.value, row.asked)


def check_signal(signal: NewSignal) -> None:
    check_names(signal.channel, signal.dedup)
    _check_payloads(signal.value)


def check_turn(turn: Turn) -> None:
    """Refuse the turn before any of it is written."""
    for row in turn.rows:
        check_row(row)
    for child in turn.children:
        check_run(child)
    _check_attempts(turn.attempts)
    _check_payloads(turn.published)
    match turn.move:
        case End(result=result, error=error, reason=reason):
            _check_payloads(result, error)
            check_names(reason)
        case Park(signals=signals):
            check_names(*signals)
        case Renew(started=started):
            check_row(started)
        case Stuck() as stuck:
            check_names(stuck.message, stuck.build, stuck.recorded, stuck.asked, stuck.line, stuck.traceback)
        case _:
            pass


def _check_attempts(attempts: Iterable[Attempt]) -> None:
    for attempt in attempts:
        _check_payloads(attempt.error, attempt.details)


def check_names(*names: str | None) -> None:
    for name in names:
        if name is not None:
            _encoded(name)
            if "\0" in name:
                raise StorageRefused(f"{name!r} holds a NUL character, which a text column cannot keep")


def _check_payloads(*payloads: str | None) -> None:
    for payload in payloads:
        if payload is not None:
            _encoded(payload)
            try:
                # Not msgspec: it refuses an escaped lone surrogate, which a json column keeps.
                json.loads(payload, parse_constant=_no_constant)
            except (ValueError, RecursionError) as error:
                raise StorageRefused(f"{payload[:80]!r} is not JSON: {error}") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise StorageRefused(f"{text[:80]!r} holds a lone surrogate, which UTF-8 cannot carry") from error
