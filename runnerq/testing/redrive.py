"""Drives each run again from its journal, at each turn: a workflow that does not do the same again shows at once.

Rules
- What is driven is the journal as it was written, by the worker's own way to open a run; nothing of it is carried out.
- Replay must ask what is on record, ask nothing more, and end as the run ended. A command that was made and never
  yielded is told of at the end.
- A journal of over MANY rows is driven again when it has grown by a tenth, and at the end: else a run of thousands of
  steps would take minutes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from runnerq.errors import NondeterminismError, RunnerQError, UsageError
from runnerq.persistence.records import Claimed, End, Renew, Stuck, Turn
from runnerq.runtime.ground import Ground
from runnerq.runtime.replaying import let_go, replay
from runnerq.workflow.ending import Blocked, Returned
from runnerq.workflow.ending import End as Ended
from runnerq.workflow.interpreter import Interpreter
from runnerq.workflow.journal import Row

MANY = 100
CHANCES = "it is not deterministic: with the same answers it must ask for the same, each time"


class Redriver:
    """Drives runs of what stands on this ground."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._driven: dict[str, int] = {}

    def fault(self, claimed: Claimed, turn: Turn, rows: Sequence[Row]) -> RunnerQError | None:
        """What is wrong with a run whose journal has these rows after this turn."""
        if not rows or not self._is_time(turn, len(rows)):
            return None
        again = msgspec.structs.replace(claimed, generation=turn.generation, rows=tuple(rows), resumed=False)
        try:
            interpreter = replay(again, self._ground)
        except Blocked as blocked:
            return None if isinstance(turn.move, Stuck) else _left(claimed, blocked)
        try:
            return self._compared(claimed, turn, rows, interpreter)
        finally:
            let_go(interpreter)

    def cause(self, claimed: Claimed, turn: Turn, rows: Sequence[Row]) -> BaseException | None:
        """The error that blocked the run in this turn, as it is raised again."""
        again = msgspec.structs.replace(claimed, generation=turn.generation, rows=tuple(rows), resumed=False)
        try:
            let_go(replay(again, self._ground))
        except Blocked as blocked:
            return blocked.error
        return None

    def _is_time(self, turn: Turn, rows: int) -> bool:
        if isinstance(turn.move, End | Renew) or rows <= MANY:
            return True
        if rows < 1.1 * self._driven.get(turn.run_id, 0):
            return False
        self._driven[turn.run_id] = rows
        return True

    def _compared(
        self, claimed: Claimed, turn: Turn, rows: Sequence[Row], interpreter: Interpreter
    ) -> RunnerQError | None:
        progress = interpreter.collect()
        if progress.rows and rows[-1].asked is not None:
            more = progress.rows[0]
            return _differs(claimed, f"goes on with '{more.kind} {more.position}', which the first run did not")
        if not isinstance(turn.move, End | Renew):
            return None if progress.end is None else _differs(claimed, "ends, and the first run goes on")
        forgotten = interpreter.never_yielded()
        if forgotten:
            first = forgotten[0]
            return UsageError(
                f"run {claimed.id} of {claimed.name}: {first!r} was made at {first.line} and never yielded, so it did "
                "nothing: write `yield from` before it"
            )
        return self._compared_ends(claimed, turn.move, progress.end)

    def _compared_ends(self, claimed: Claimed, end: End | Renew, again: Ended | None) -> RunnerQError | None:
        if again is None:
            return _differs(claimed, "does not end, and the first run ended")
        if isinstance(end, End) and end.status == "completed":
            if not isinstance(again, Returned):
                return _differs(claimed, f"ends with {again!r}, and the first run completed")
            if again.text != end.result:
                return _differs(claimed, f"returns {again.text}, and the first run returned {end.result}")
        return None


def _left(claimed: Claimed, blocked: Blocked) -> NondeterminismError:
    if isinstance(blocked.error, NondeterminismError):
        return blocked.error
    fault = NondeterminismError(
        f"run {claimed.id} of {claimed.name}, driven again from its journal, left it at {blocked.message}; {CHANCES}",
        claimed.id,
        blocked.position,
        blocked.recorded,
        blocked.asked,
        blocked.line,
    )
    fault.__cause__ = blocked.error
    return fault


def _differs(claimed: Claimed, how: str) -> NondeterminismError:
    return NondeterminismError(
        f"run {claimed.id} of {claimed.name}, driven again from its journal, {how}; {CHANCES}", claimed.id
    )
