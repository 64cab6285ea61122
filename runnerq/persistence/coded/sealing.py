"""Records on their way into a storage: their payloads sealed, all else as it is."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TypeVar, assert_never, overload

import msgspec

from runnerq.errors import StorageRefused
from runnerq.persistence.coded import places
from runnerq.persistence.records import (
    Attempt,
    Back,
    Details,
    End,
    Firing,
    Going,
    Move,
    NewAudit,
    NewRun,
    NewSignal,
    Park,
    Renew,
    Reopen,
    ScheduleRow,
    Stuck,
    Turn,
)
from runnerq.serialization.sealing import Chain, sealed_by
from runnerq.workflow.journal import Row

_log = logging.getLogger("runnerq.codec")

S = TypeVar("S", bound=msgspec.Struct)
_with = msgspec.structs.replace
_text = msgspec.json.encode


def would_seal(chain: Chain | None, row: ScheduleRow) -> str:
    """The codecs by which the input of this schedule would be sealed, if it were put now."""
    return "" if chain is None else sealed_by(Sealing(chain).schedule(row).input)


class Sealing:
    """Seals records. StorageRefused where a codec fails on one."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    def runs(self, runs: Iterable[NewRun]) -> list[NewRun]:
        return [self.run(run) for run in runs]

    def run(self, run: NewRun) -> NewRun:
        return _with(
            run,
            input=self._chain.seal(run.input, places.input_of(run.id)),
            # A run begins in its first generation.
            rows=self._rows(run.rows, run.id, 1),
        )

    def signals(self, signals: Iterable[NewSignal]) -> list[NewSignal]:
        return [
            _with(signal, value=self._chain.seal(signal.value, places.signal_of(signal.channel))) for signal in signals
        ]

    def reopen(self, reopen: Reopen) -> Reopen:
        row = reopen.row
        return _with(
            reopen,
            row=None if row is None else self._row(row, reopen.run_id, reopen.generation),
            children=tuple(self.reopen(child) for child in reopen.children),
        )

    def turns(self, turns: Iterable[Turn]) -> list[Turn]:
        return [self.turn(turn) for turn in turns]

    def turn(self, turn: Turn) -> Turn:
        run_id = turn.run_id
        return _with(
            turn,
            move=self._move(turn.move, run_id, turn.generation),
            rows=self._rows(turn.rows, run_id, turn.generation),
            children=tuple(self.runs(turn.children)),
            attempts=tuple(self._attempt(attempt, run_id) for attempt in turn.attempts),
            published=self._sealed(turn.published, places.state_of(run_id)),
        )

    def firing(self, firing: Firing) -> Firing:
        return _with(firing, runs=tuple(self.runs(firing.runs)))

    def schedule(self, row: ScheduleRow) -> ScheduleRow:
        return _with(row, input=self._chain.seal(row.input, places.schedule_of(row.name)))

    def audit(self, entry: NewAudit) -> NewAudit:
        return _with(entry, request=self._sealed(entry.request, places.audit_of(entry.id)))

    def details(self, details: Iterable[Details]) -> list[Details]:
        """Those that can be sealed: one that cannot is left out, and must not cost the worker its lease."""
        sealed = []
        for each in details:
            try:
                text = self._chain.seal(each.text, places.details_of(each.run_id, each.position))
            except StorageRefused as refused:
                _log.warning("run %s: the details of %r are not kept: %s", each.run_id, each.position, refused)
            else:
                sealed.append(_with(each, text=text))
        return sealed

    def _move(self, move: Move, run_id: str, generation: int) -> Move:
        match move:
            case Going() | Park() | Back():
                return move
            case Stuck(quotes=False):
                # Plain: who lacks the key, or has another one, is told so by whoever looks.
                return move
            case End():
                result = self._sealed(move.result, places.result_of(run_id))
                return _with(move, result=result, error=self._sealed(move.error, places.error_of(run_id)))
            case Renew():
                return Renew(started=self._row(move.started, run_id, generation + 1))
            case Stuck():
                # Texts that quote values: what the code raised, and digests of arguments.
                place = places.block_of(run_id)
                return _with(
                    move,
                    message=self._quoted(move.message, place),
                    recorded=self._quoted(move.recorded, place),
                    asked=self._quoted(move.asked, place),
                    traceback=self._quoted(move.traceback, place),
                )
            case _:
                assert_never(move)

    def _rows(self, rows: Sequence[Row], run_id: str, generation: int) -> tuple[Row, ...]:
        return tuple(self._row(row, run_id, generation) for row in rows)

    def _row(self, row: Row, run_id: str, generation: int) -> Row:
        value = self._sealed(row.value, places.value_of(run_id, generation, row.place))
        asked = self._sealed(row.asked, places.asked_of(run_id, generation, row.place))
        return Row(row.place, row.kind, row.position, row.at, value, asked)

    def _attempt(self, attempt: Attempt, run_id: str) -> Attempt:
        return _with(
            attempt,
            error=self._sealed(attempt.error, places.attempt_of(run_id, attempt.position)),
            details=self._sealed(attempt.details, places.details_of(run_id, attempt.position)),
        )

    def _sealed(self, text: str | None, place: str) -> str | None:
        return None if text is None else self._chain.seal(text, place)

    @overload
    def _quoted(self, words: str, place: str) -> str: ...
    @overload
    def _quoted(self, words: None, place: str) -> None: ...
    @overload
    def _quoted(self, words: str | None, place: str) -> str | None: ...
    def _quoted(self, words: str | None, place: str) -> str | None:
        """A text that is no JSON; left as it is where no codec has taken it."""
        if words is None:
            return None
        quoted = _text(words.encode("utf-8", "replace").decode()).decode()
        sealed = self._chain.seal(quoted, place)
        return words if sealed == quoted else sealed
