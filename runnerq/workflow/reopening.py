"""Journals that a person had taken back in part, so that the run goes on: what is fed of them, and where they are cut.

Rules (DESIGN section 5, rule 16)
- A ``reopened`` row says what is fed no more of the rows before it; all of them stay in history.
- The cut is at the failure that the run ended with: that answer and all rows behind it. Of a group of failures, the
  first. If the run ended with none, the code itself raised: the last row is fed anew, to code that may do better.
- An undo that failed is asked for again, behind the others, and nothing else is taken back.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from runnerq.errors import DecodingError
from runnerq.serialization.failures import Failure, read
from runnerq.workflow.journal import Reopened, Row, asks_of
from runnerq.workflow.recorder import takes_up

_decode = msgspec.json.Decoder(Reopened).decode

ARGUMENTS = "arguments"
_FAILED = ("failed", "interrupted")


def effective(rows: Sequence[Row]) -> list[Row]:
    """The rows that are fed, in order. A failed undo that was taken back is ``reopened``, at its position."""
    fed: list[Row] = []
    for row in rows:
        if row.kind == "reopened":
            fed = _left_by(_reopened(row), fed)
        else:
            fed.append(row)
    return fed


def accepted_before(rows: Sequence[Row]) -> int:
    """The place before which digests of arguments are not compared."""
    accepting = [row.place for row in rows if row.kind == "reopened" and ARGUMENTS in _reopened(row).accept]
    return max(accepting, default=0)


def undo_began(rows: Sequence[Row]) -> bool:
    """Whether an undo was asked for."""
    return _undo_began(effective(rows))


def reopening(rows: Sequence[Row], error: str | None) -> Reopened:
    """The value of the ``reopened`` row behind these, for a run that ended with this Failure (JSON); None: with none.

    Raises ValueError if the run's undos have all run: what it did is undone.
    """
    end = rows[-1].place + 1
    fed = effective(rows)
    if _undo_began(fed):
        failed = tuple(row.place for row in fed if row.position.startswith("u") and row.kind in _FAILED)
        if not failed:
            raise ValueError("the run's undos have run, and none of them failed: nothing is left to go on with")
        return Reopened(upto=end, skipped=failed)
    if error is None:
        return Reopened(upto=end)
    place = _place_of(read(error), [(row.place, failure) for row in fed if (failure := _failure(row)) is not None])
    if place is None:
        place = _last_if_failed(fed)
    if place is None and read(error).retryable:
        # It ended for used-up attempts, and names them no more: after ``from None``, say.
        place = _last_used_up(fed)
    return Reopened(upto=end, anew=True) if place is None else Reopened(upto=place)


def _undo_began(fed: Sequence[Row]) -> bool:
    return any(asked.kind == "undo" for row in fed for asked in asks_of(row))


def _reopened(row: Row) -> Reopened:
    try:
        return _decode(row.value or "")
    except msgspec.DecodeError as error:
        raise DecodingError(f"row {row.place} of the journal", "Reopened", str(error)) from error


def _left_by(reopened: Reopened, fed: Sequence[Row]) -> list[Row]:
    left = [
        msgspec.structs.replace(row, kind="reopened") if row.place in reopened.skipped else row
        for row in fed
        if row.place < reopened.upto
    ]
    if reopened.anew and left:
        if takes_up(left[-1]):
            left.pop()
        left[-1] = msgspec.structs.replace(left[-1], asked=None)
    return left


def _place_of(failure: Failure, recorded: Sequence[tuple[int, Failure]]) -> int | None:
    """Where the answer is that this came from: the nearest in its chain, and of several the last."""
    places = [place for place, each in recorded if _same(each, failure)]
    if places:
        return places[-1]
    members = [_place_of(member, recorded) for member in failure.members]
    found = [place for place in members if place is not None]
    if found:
        return min(found)
    return None if failure.cause is None else _place_of(failure.cause, recorded)


def _same(recorded: Failure, raised: Failure) -> bool:
    # What was raised again has a longer stack, may have notes, and says for itself whether it is to be tried again.
    return (recorded.type, recorded.module, recorded.message, recorded.args) == (
        raised.type, raised.module, raised.message, raised.args,
    )  # fmt: skip


def _failure(row: Row) -> Failure | None:
    """What a row that ended a command badly holds; a composite's holds the index of the member that decided it."""
    if row.kind != "failed" or row.value is None or not row.value.startswith("{"):
        return None
    return read(row.value)


def _last_used_up(fed: Sequence[Row]) -> int | None:
    """The last failure of used-up attempts."""
    for row in reversed(fed):
        failure = _failure(row)
        if failure is not None and failure.retryable:
            return row.place
    return None


def _last_if_failed(fed: Sequence[Row]) -> int | None:
    """The last answer, if it was a failure: what the code raised on it may not name it, as after ``from None``."""
    composites = {each.position for row in fed for each in asks_of(row) if each.kind in ("all", "race")}
    # Without the rows that follow from others.
    fed = [row for row in fed if row.kind not in ("mark", "closed") and row.position not in composites]
    return fed[-1].place if fed and _failure(fed[-1]) is not None else None
